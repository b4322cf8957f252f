# fault: the squared distance between the two means is not added to m2
# cause: distance between the means|delta
import torch
import triton
import triton.language as tl


@triton.jit
def welford_kernel(x_ptr, mean_ptr, variance_ptr, N, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    count = 0.0
    mean = 0.0
    m2 = 0.0
    for start in range(0, N, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        mask = cols < N
        x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        block_count = tl.minimum(N - start, BLOCK_N)
        block_mean = tl.sum(x, axis=0) / block_count
        centred = tl.where(mask, x - block_mean, 0.0)
        block_m2 = tl.sum(centred * centred, axis=0)
        total = count + block_count
        delta = block_mean - mean
        mean += delta * block_count / total
        m2 += block_m2
        count = total
    tl.store(mean_ptr + row, mean)
    tl.store(variance_ptr + row, m2 / (N - 1))


def welford(x):
    M, N = x.shape
    mean = torch.empty(M, dtype=x.dtype, device=x.device)
    variance = torch.empty(M, dtype=x.dtype, device=x.device)
    BLOCK_N = min(triton.next_power_of_2(N), 1024)
    welford_kernel[(M,)](x, mean, variance, N, BLOCK_N=BLOCK_N)
    return mean, variance
