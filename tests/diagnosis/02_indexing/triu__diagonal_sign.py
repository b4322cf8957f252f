# fault: the diagonal is added to the column where it should be added to the row
# cause: with cols - diagonal in its place

import torch
import triton
import triton.language as tl


@triton.jit
def triu_kernel(
    x_ptr, y_ptr,
    M, N, diagonal,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inside = (rows < M) & (cols < N)
    keep = cols + diagonal >= rows
    # the lanes that load nothing hold the zeros of the result
    x = tl.load(x_ptr + rows * N + cols, mask=inside & keep, other=0.0)
    tl.store(y_ptr + rows * N + cols, x, mask=inside)


def triu(x: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK_N = min(triton.next_power_of_2(N), 256)
    BLOCK_M = min(triton.next_power_of_2(M), 16)
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    triu_kernel[grid](x, y, M, N, diagonal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    return y
