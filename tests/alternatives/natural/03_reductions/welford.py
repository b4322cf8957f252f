# Every lane runs Welford's own update over the numbers that it meets, and the lanes merge once,
# after the loop; ours merges every block into one state.

import torch
import triton
import triton.language as tl


@triton.jit
def welford_kernel(
    x_ptr, mean_ptr, variance_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK_N)
    count = tl.zeros((BLOCK_N,), dtype=tl.float32)
    mean = tl.zeros((BLOCK_N,), dtype=tl.float32)
    m2 = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for start in range(0, N, BLOCK_N):
        mask = start + lanes < N
        x = tl.load(x_ptr + row * N + start + lanes, mask=mask, other=0.0).to(tl.float32)
        count += tl.where(mask, 1.0, 0.0)
        delta = tl.where(mask, x - mean, 0.0)
        # A lane past the end of a short row never counts anything.
        mean += delta / tl.maximum(count, 1.0)
        m2 += tl.where(mask, delta * (x - mean), 0.0)
    row_mean = tl.sum(mean * count, axis=0) / N
    distance = mean - row_mean
    row_m2 = tl.sum(m2 + count * distance * distance, axis=0)
    tl.store(mean_ptr + row, row_mean)
    tl.store(variance_ptr + row, row_m2 / (N - 1))


def welford(x):
    M, N = x.shape
    mean = torch.empty(M, dtype=x.dtype, device=x.device)
    variance = torch.empty(M, dtype=x.dtype, device=x.device)
    BLOCK_N = min(triton.next_power_of_2(N), 1024)
    welford_kernel[(M,)](x, mean, variance, N, BLOCK_N=BLOCK_N)
    return mean, variance
