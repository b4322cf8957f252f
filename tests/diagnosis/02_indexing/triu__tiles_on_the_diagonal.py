# fault: tiles are skipped by their upper left corner, where the diagonal may cross them
# cause: tiles whose upper left corner is below the diagonal

import torch
import triton
import triton.language as tl


@triton.jit
def triu_kernel(
    x_ptr, y_ptr,
    M, N, diagonal,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    start_m = tl.program_id(0) // tiles_n * BLOCK_M
    start_n = tl.program_id(0) % tiles_n * BLOCK_N
    offs_m = start_m + tl.arange(0, BLOCK_M)[:, None]
    offs_n = start_n + tl.arange(0, BLOCK_N)[None, :]
    mask = (offs_m < M) & (offs_n < N)
    offs = offs_m.to(tl.int64) * N + offs_n
    if start_n - start_m < diagonal:
        zeros = tl.zeros((BLOCK_M, BLOCK_N), dtype=y_ptr.dtype.element_ty)
        tl.store(y_ptr + offs, zeros, mask=mask)
    else:
        keep = mask & (offs_n - offs_m >= diagonal)
        tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=keep, other=0.0), mask=mask)


def triu(x: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_M, BLOCK_N = 32, 64
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    triu_kernel[grid](x, y, M, N, diagonal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    return y
