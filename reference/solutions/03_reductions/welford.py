"""03.5  Welford: one good answer.

Each block is reduced to its count, mean and squared distances, which Chan's formula merges into one
state, so that there is a division for each block and not for each number. Blocks have 4096 numbers,
since the warps of a program meet in each.
"""

import torch
import triton
import triton.language as tl

# The warps meet in every block: large ones have fewer barriers, and more loads on their way.
TILE = 4096


@triton.jit
def welford_kernel(
    x_ptr, mean_ptr, variance_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    lanes = tl.arange(0, BLOCK_N)[None, :]
    x_ptrs = x_ptr + rows * stride_xm
    count = 0.0
    mean = tl.zeros((BLOCK_M, 1), tl.float32)
    m2 = tl.zeros((BLOCK_M, 1), tl.float32)  # sum of squared distances from the mean
    for start in range(0, N, BLOCK_N):
        cols = (start + lanes).to(tl.int64)
        mask = (rows < M) & (cols < N)
        x = tl.load(x_ptrs + cols * stride_xn, mask=mask, other=0.0).to(tl.float32)
        block_count = tl.minimum(N - start, BLOCK_N).to(tl.float32)
        block_mean = tl.sum(x, axis=1, keep_dims=True) / block_count
        centred = tl.where(mask, x - block_mean, 0.0)
        block_m2 = tl.sum(centred * centred, axis=1, keep_dims=True)
        # Chan, Golub, LeVeque: two sets of numbers from their counts, means and m2.
        total = count + block_count
        delta = block_mean - mean
        mean += delta * (block_count / total)
        # In this order, as delta * delta may overflow where count is still 0.
        m2 += block_m2 + delta * (count * block_count / total) * delta
        count = total
    tl.store(mean_ptr + rows, mean, mask=rows < M)
    tl.store(variance_ptr + rows, m2 / (N - 1), mask=rows < M)


def welford(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dim() != 2 or not x.is_floating_point():
        raise ValueError(f"x must be 2-D and floating point, not {x.dtype} {tuple(x.shape)}")
    M, N = x.shape
    mean = torch.empty(M, dtype=x.dtype, device=x.device)
    variance = torch.empty(M, dtype=x.dtype, device=x.device)
    BLOCK_N = min(triton.next_power_of_2(N), TILE)
    BLOCK_M = min(triton.next_power_of_2(M), TILE // BLOCK_N)
    welford_kernel[(triton.cdiv(M, BLOCK_M),)](
        x, mean, variance, M, N, x.stride(0), x.stride(1),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4,
    )  # fmt: skip
    return mean, variance
