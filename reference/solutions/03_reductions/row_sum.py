"""03.1  Row sum: one good answer.

Each lane adds up its own columns in float32, and the lanes meet once, after the loop, where tl.sum
in every block would make them meet each time. Short rows share a program, which has 2048 elements
at a time.
"""

import torch
import triton
import triton.language as tl

TILE = 2048


@triton.jit
def row_sum_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    lanes = tl.arange(0, BLOCK_N)
    x_ptrs = x_ptr + rows[:, None] * stride_xm
    # Each lane adds up its own columns; the lanes meet once, after the loop.
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, N, BLOCK_N):
        cols = (start + lanes).to(tl.int64)[None, :]
        x = tl.load(x_ptrs + cols * stride_xn, mask=(rows[:, None] < M) & (cols < N), other=0.0)
        acc += x.to(tl.float32)
    tl.store(y_ptr + rows, tl.sum(acc, axis=1), mask=rows < M)


def row_sum(x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2 or not x.is_floating_point():
        raise ValueError(f"x must be 2-D and floating point, not {x.dtype} {tuple(x.shape)}")
    M, N = x.shape
    y = torch.empty(M, dtype=x.dtype, device=x.device)
    BLOCK_N = min(triton.next_power_of_2(N), TILE)
    BLOCK_M = min(triton.next_power_of_2(M), TILE // BLOCK_N)
    grid = (triton.cdiv(M, BLOCK_M),)
    row_sum_kernel[grid](x, y, M, N, x.stride(0), x.stride(1), BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    return y
