"""A row for each program, in a loop of blocks; what lies below the diagonal is not looked at."""

import torch
import triton
import triton.language as tl


@triton.jit
def triu_kernel(x_ptr, y_ptr, N, diagonal, stride_xm, stride_xn, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK).to(tl.int64)
        kept = (cols < N) & (cols - row >= diagonal)
        x = tl.load(x_ptr + row * stride_xm + cols * stride_xn, mask=kept, other=0)
        tl.store(y_ptr + row * N + cols, x, mask=cols < N)


def triu(x, diagonal=0):
    if x.dim() != 2 or x.is_complex():
        raise ValueError("x must be 2-D and not complex")
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if y.numel():
        triu_kernel[(M,)](x, y, N, diagonal, *x.stride(), BLOCK=128)
    return y
