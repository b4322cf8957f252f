"""02.3  Transpose: one good answer.

A tile of 64 by 64 is loaded along the rows of x and stored along the rows of y; on its way it
changes hands through shared memory. Programs that follow each other take tiles below each other:
they store side by side, and a sector that two of them share is written to memory once.
"""

import torch
import triton
import triton.language as tl

SIDE = 64
TILE = SIDE * SIDE


@triton.jit
def transpose_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # A grid of one axis, as axis 1 would end at 65535 programs. Programs that follow each other
    # store to neighbouring places: a sector that two of them share is written to memory once.
    pid = tl.program_id(0).to(tl.int64)
    tiles_m = tl.cdiv(M, BLOCK_M)
    rows = pid % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N)
    x_ptrs = x_ptr + rows[:, None] * stride_xm + cols[None, :] * stride_xn
    x = tl.load(x_ptrs, mask=(rows[:, None] < M) & (cols[None, :] < N))
    # The tile changes hands through shared memory, so that neighbouring lanes hold neighbouring
    # columns for the load, and neighbouring rows for the store.
    y_ptrs = y_ptr + cols[:, None] * M + rows[None, :]  # [BLOCK_N, BLOCK_M]
    tl.store(y_ptrs, tl.trans(x), mask=(cols[:, None] < N) & (rows[None, :] < M))


def transpose(x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2 or x.is_complex():
        raise ValueError(f"x must be 2-D and not complex, not {x.dtype} {tuple(x.shape)}")
    M, N = x.shape
    y = torch.empty((N, M), dtype=x.dtype, device=x.device)
    # A matrix narrower than the side of a tile gets a longer tile.
    BLOCK_N = min(triton.next_power_of_2(N), SIDE)
    BLOCK_M = min(triton.next_power_of_2(M), TILE // BLOCK_N)
    BLOCK_N = min(triton.next_power_of_2(N), TILE // BLOCK_M)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    transpose_kernel[grid](
        x, y, M, N, x.stride(0), x.stride(1), BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=8
    )
    return y
