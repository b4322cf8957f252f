# fault: the squares are divided by the number of lanes less 1
# cause: the block size less 1, instead of N - 1

import torch
import triton
import triton.language as tl


@triton.jit
def variance_kernel(
    x_ptr, variance_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK_N)  # [BLOCK_N]
    mask = offs < N
    x = tl.load(x_ptr + row * N + offs, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0, keep_dims=True) / N  # [1]
    diff = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(diff * diff, axis=0) / (BLOCK_N - 1)
    tl.store(variance_ptr + row, variance)


def variance(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    result = torch.empty(M, dtype=x.dtype, device=x.device)
    BLOCK_N = triton.next_power_of_2(N)
    num_warps = min(16, max(1, BLOCK_N // 512))
    variance_kernel[(M,)](x, result, N, BLOCK_N=BLOCK_N, num_warps=num_warps)
    return result
