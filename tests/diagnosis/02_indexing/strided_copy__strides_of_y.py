# fault: the strides are those of y, which is contiguous
# cause: by // and %, or a stride, is wrong; the strides of x are
import torch
import triton
import triton.language as tl


@triton.jit
def strided_copy_kernel(x_ptr, y_ptr, n_elements, N, stride_xm, stride_xn, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    row = offs // N
    col = offs % N
    x = tl.load(x_ptr + row * stride_xm + col * stride_xn, mask=mask)
    tl.store(y_ptr + offs, x, mask=mask)


def strided_copy(x):
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK = 1024
    grid = (triton.cdiv(M * N, BLOCK),)
    strided_copy_kernel[grid](x, y, M * N, N, y.stride(0), y.stride(1), BLOCK=BLOCK)
    return y
