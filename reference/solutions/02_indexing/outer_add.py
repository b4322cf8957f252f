"""02.1  Outer addition: one good answer.

A tile loads one column of x and one row of y, and makes all of its sums by broadcasting. Nearly all
of the traffic is stores, so tiles are up to 512 columns wide and taller where there are fewer
columns: 8192 sums in 8 warps.
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
    rows = (tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
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
    BLOCK_M = min(triton.next_power_of_2(M), 16)
    # Axis 1 of the grid ends at 65535 programs: beyond 32 Mi columns tiles become wider.
    widest = max(TILE // BLOCK_M, triton.next_power_of_2(triton.cdiv(N, 65535)))
    BLOCK_N = min(triton.next_power_of_2(N), widest)
    BLOCK_M = min(triton.next_power_of_2(M), max(1, TILE // BLOCK_N))
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    outer_add_kernel[grid](
        x, y, z, M, N, x.stride(0), y.stride(0), BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=8
    )
    return z
