# fault: the launcher takes whatever it gets
# cause: rais|error|accept
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
        x = tl.load(x_row + cols * stride_xn, mask=cols < N, other=0.0)
        tl.store(y_row + cols, x.to(tl.float32) * factor, mask=cols < N)


def scale(x, factor):
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK = min(4096, triton.next_power_of_2(N))
    scale_kernel[(M,)](x, y, N, float(factor), x.stride(0), x.stride(1), BLOCK=BLOCK)
    return y
