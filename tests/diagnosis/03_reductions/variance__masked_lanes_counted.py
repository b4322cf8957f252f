# fault: the lanes past N hold 0 - mean, and their squares are summed too
# cause: masked lanes are counted
import torch
import triton
import triton.language as tl


@triton.jit
def variance_kernel(
    x_ptr, variance_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    centred = x - mean
    tl.store(variance_ptr + row, tl.sum(centred * centred, axis=0) / (N - 1))


def variance(x):
    M, N = x.shape
    result = torch.empty(M, dtype=x.dtype, device=x.device)
    BLOCK_N = triton.next_power_of_2(N)
    num_warps = 8 if BLOCK_N >= 2048 else 4
    variance_kernel[(M,)](x, result, N, BLOCK_N=BLOCK_N, num_warps=num_warps)
    return result
