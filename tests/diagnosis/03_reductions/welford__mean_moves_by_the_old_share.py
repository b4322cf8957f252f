# fault: the merged mean moves by delta * n_a / n in place of delta * n_b / n
# cause: moves by the share of what came before

import torch
import triton
import triton.language as tl


@triton.jit
def welford_kernel(
    x_ptr, mean_ptr, variance_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK_N)
    first = tl.minimum(N, BLOCK_N).to(tl.float32)
    mask = offs < N
    x = tl.load(x_ptr + row * N + offs, mask=mask, other=0.0).to(tl.float32)
    count = first
    mean = tl.sum(x, axis=0) / count
    centered = tl.where(mask, x - mean, 0.0)
    m2 = tl.sum(centered * centered, axis=0)
    for start in range(BLOCK_N, N, BLOCK_N):
        offs = start + tl.arange(0, BLOCK_N)
        mask = offs < N
        x = tl.load(x_ptr + row * N + offs, mask=mask, other=0.0).to(tl.float32)
        count_b = tl.minimum(N - start, BLOCK_N).to(tl.float32)
        mean_b = tl.sum(x, axis=0) / count_b
        centered = tl.where(mask, x - mean_b, 0.0)
        delta = mean_b - mean
        total = count + count_b
        m2 += tl.sum(centered * centered, axis=0) + delta * delta * count * count_b / total
        mean += delta * count / total
        count = total
    tl.store(mean_ptr + row, mean)
    tl.store(variance_ptr + row, m2 / (count - 1))


def welford(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    M, N = x.shape
    mean = torch.empty(M, dtype=x.dtype, device=x.device)
    variance = torch.empty_like(mean)
    BLOCK_N = min(1024, triton.next_power_of_2(N))
    welford_kernel[(M,)](x, mean, variance, N, BLOCK_N=BLOCK_N)
    return mean, variance
