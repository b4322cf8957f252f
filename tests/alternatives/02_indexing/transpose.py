"""A grid of two axes, the longer one first, of small tiles; the pointers are transposed instead."""

import torch
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(
    x_ptr, y_ptr, M, N, stride_xm, stride_xn, TALL: tl.constexpr, BLOCK: tl.constexpr
):
    rows = tl.program_id(0 if TALL else 1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[None, :]
    cols = tl.program_id(1 if TALL else 0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[:, None]
    mask = (rows < M) & (cols < N)
    x = tl.load(x_ptr + rows * stride_xm + cols * stride_xn, mask=mask)  # [cols, rows]
    tl.store(y_ptr + cols * M + rows, x, mask=mask)


def transpose(x):
    if x.dim() != 2 or x.is_complex():
        raise ValueError("x must be 2-D and not complex")
    M, N = x.shape
    y = torch.empty((N, M), dtype=x.dtype, device=x.device)
    if y.numel():
        grid = sorted((triton.cdiv(M, 32), triton.cdiv(N, 32)), reverse=True)
        transpose_kernel[tuple(grid)](x, y, M, N, *x.stride(), TALL=M > N, BLOCK=32)
    return y
