# fault: programs below the diagonal return, and y is torch.empty
# cause: nothing to it, and what is missing is in (its|their) tiles?: (it|they) returns? at
# never: loop over tiles
from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def triu_kernel(
    x_ptr, y_ptr,
    M, N, diagonal,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first_m = tl.program_id(0) * BLOCK_M
    first_n = tl.program_id(1) * BLOCK_N
    if first_n + BLOCK_N - 1 - first_m < diagonal:
        return  # nothing to keep in this tile
    offs_m = first_m + tl.arange(0, BLOCK_M)[:, None]
    offs_n = first_n + tl.arange(0, BLOCK_N)[None, :]
    inside = (offs_m < M) & (offs_n < N)
    keep = offs_n - offs_m >= diagonal
    x = tl.load(x_ptr + offs_m * N + offs_n, mask=inside & keep, other=0.0)
    tl.store(y_ptr + offs_m * N + offs_n, x, mask=inside)


def triu(x: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK_M, BLOCK_N = 32, 32
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    triu_kernel[grid](x, y, M, N, diagonal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    return y
