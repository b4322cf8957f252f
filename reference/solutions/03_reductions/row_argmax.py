"""03.2  Row argmax: one good answer.

Each lane keeps the best number that it has met and the block it came from, and the lanes are
compared once, after the loop. A number replaces the best one if it is not at most that, which is so
for NaN too, and so the first of equals and the first NaN stay. A program is one warp, whose lanes
meet without a barrier; a long row has eight.
"""

import torch
import triton
import triton.language as tl

# One warp: the lanes of a row meet without a barrier.
TILE = 512
# Of rows that are so long, a GPU has too few warps at work if each has a row.
LONG, LONG_TILE = 2**16, 4096


@triton.jit
def row_argmax_kernel(
    x_ptr, index_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    lanes = tl.arange(0, BLOCK_N)
    x_ptrs = x_ptr + rows[:, None] * stride_xm
    best = tl.full((BLOCK_M, BLOCK_N), float("-inf"), tl.float32)
    block = tl.zeros((BLOCK_M, BLOCK_N), tl.int32)  # where the block of the best one starts
    for start in range(0, N, BLOCK_N):
        cols = (start + lanes).to(tl.int64)[None, :]
        mask = (rows[:, None] < M) & (cols < N)
        x = tl.load(x_ptrs + cols * stride_xn, mask=mask, other=float("-inf")).to(tl.float32)
        # "Not at most" is greater, or NaN, with which every comparison is false. An equal one does
        # not replace the first, and nothing replaces a NaN.
        better = ~(x <= best) & (best == best)
        best = tl.where(better, x, best)
        block = tl.where(better, start, block)
    index = block + lanes[None, :]
    is_nan = best != best
    has_nan = tl.max(is_nan.to(tl.int32), axis=1, keep_dims=True) == 1
    top = tl.max(tl.where(is_nan, float("-inf"), best), axis=1, keep_dims=True)
    candidate = tl.where(has_nan, is_nan, best == top)
    first = tl.min(tl.where(candidate, index, N), axis=1)
    tl.store(index_ptr + rows, first.to(tl.int64), mask=rows < M)


def row_argmax(x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2 or not x.is_floating_point():
        raise ValueError(f"x must be 2-D and floating point, not {x.dtype} {tuple(x.shape)}")
    M, N = x.shape
    index = torch.empty(M, dtype=torch.int64, device=x.device)
    BLOCK_N = min(triton.next_power_of_2(N), TILE if N < LONG else LONG_TILE)
    BLOCK_M = min(triton.next_power_of_2(M), max(1, TILE // BLOCK_N))
    grid = (triton.cdiv(M, BLOCK_M),)
    row_argmax_kernel[grid](
        x, index, M, N, x.stride(0), x.stride(1),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=1 if N < LONG else 8,
    )  # fmt: skip
    return index
