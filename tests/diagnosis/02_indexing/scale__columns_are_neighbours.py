# fault: the stride of the columns is left out: they are taken to be contiguous
# cause: the address.*(but the strides of|is wrong)|but the strides of \w+ are .*address is wrong
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, y_ptr, N, factor, stride_xm, stride_xn, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * stride_xm
    y_row = y_ptr + row * N
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK).to(tl.int64)
        x = tl.load(x_row + cols, mask=cols < N, other=0.0)
        tl.store(y_row + cols, x.to(tl.float32) * factor, mask=cols < N)


def scale(x, factor):
    if x.ndim != 2:
        raise ValueError(f"x must be a matrix, got shape {tuple(x.shape)}")
    if not x.is_floating_point():
        raise ValueError(f"x must be floating point, got {x.dtype}")
    if not isinstance(factor, (int, float)):
        raise TypeError(f"factor must be a number, got {factor!r}")
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK = min(4096, triton.next_power_of_2(N))
    scale_kernel[(M,)](x, y, N, float(factor), x.stride(0), x.stride(1), BLOCK=BLOCK)
    return y
