# fault: the load is masked with the edges of the matrix only; tl.where drops the rest later
# cause: loads take what the result does not need

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
    keep = cols - rows >= diagonal
    offs = rows * N + cols
    x = tl.load(x_ptr + offs, mask=inside, other=0.0)
    tl.store(y_ptr + offs, tl.where(keep, x, 0.0), mask=inside)


def triu(x: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK_M, BLOCK_N = 16, 128
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    triu_kernel[grid](x, y, M, N, diagonal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    return y
