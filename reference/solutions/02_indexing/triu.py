"""02.6  Upper triangle: one good answer.

There are two masks, one for the load and one for the store: lanes below the diagonal load nothing
and hold the 0 that they store. The tile is 64 by 64 where columns are contiguous, and wide
elsewhere. The diagonal is clamped to the matrix first, so that any integer fits the kernel.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def triu_kernel(
    x_ptr, y_ptr,
    M, N, diagonal,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = (pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    cols = (pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    inside = (rows < M) & (cols < N)
    # Two masks: what is loaded, and what is stored. A lane that loads nothing holds the 0 itself.
    kept = inside & (cols - rows >= diagonal)
    x = tl.load(x_ptr + rows * stride_xm + cols * stride_xn, mask=kept, other=0)
    tl.store(y_ptr + rows * N + cols, x, mask=inside)


def triu(x: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
    if x.dim() != 2 or x.is_complex():
        raise ValueError(f"x must be 2-D and not complex, not {x.dtype} {tuple(x.shape)}")
    M, N = x.shape
    # Beyond the edges of x nothing changes; within them any integer fits the kernel.
    diagonal = max(-M, min(diagonal, N))
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    # Where the columns are contiguous, a square tile reads whole sectors; elsewhere wide is better.
    tile, widest, num_warps = (4096, 64, 8) if x.stride(0) < x.stride(1) else (2048, 1024, 4)
    BLOCK_N = min(triton.next_power_of_2(N), widest)
    BLOCK_M = min(triton.next_power_of_2(M), tile // BLOCK_N)
    BLOCK_N = min(triton.next_power_of_2(N), tile // BLOCK_M)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    triu_kernel[grid](
        x, y, M, N, diagonal, x.stride(0), x.stride(1),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=num_warps,
    )  # fmt: skip
    return y
