"""02.1  Outer addition: one good answer.

A tile loads one column of x and one row of y, and makes all of its sums by broadcasting. Nearly all
of the traffic is stores, so tiles are up to 512 columns wide and taller where there are fewer
columns: 8192 sums in 8 warps. Columns are the first axis of the grid, so that the programs at work
at one time write whole rows of z: 0.47 ms in place of 0.56 at 16384 x 32768 float32 (H200,
2026-11-26).
"""

import torch
import triton
import triton.language as tl

TILE = 8192


@triton.jit
def outer_add_kernel(
    x_ptr, y_ptr, z_ptr,
    M, N,
    stride_x, stride_y,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = (tl.program_id(1).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    x = tl.load(x_ptr + rows * stride_x, mask=rows < M)  # [BLOCK_M, 1]
    y = tl.load(y_ptr + cols * stride_y, mask=cols < N)  # [1, BLOCK_N]
    tl.store(z_ptr + rows * N + cols, x + y, mask=(rows < M) & (cols < N))


def outer_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.dim() != 1:
        raise ValueError(f"x must be 1-D, not {tuple(x.shape)}")
    if y.dim() != 1 or y.dtype != x.dtype:
        raise ValueError(f"y must be 1-D {x.dtype} like x, not {y.dtype} {tuple(y.shape)}")
    M, N = x.numel(), y.numel()
    z = torch.empty((M, N), dtype=x.dtype, device=x.device)
    # Axis 1 of the grid ends at 65535 programs: beyond 1 Mi rows tiles become taller.
    tallest = max(16, triton.next_power_of_2(triton.cdiv(M, 65535)))
    BLOCK_M = min(triton.next_power_of_2(M), tallest)
    BLOCK_N = min(triton.next_power_of_2(N), max(1, TILE // BLOCK_M))
    BLOCK_M = min(triton.next_power_of_2(M), max(tallest, TILE // BLOCK_N))
    grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))
    outer_add_kernel[grid](
        x, y, z, M, N, x.stride(0), y.stride(0), BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=8
    )
    return z
