# fault: the sum so far is not multiplied by exp(old maximum - new maximum)
# cause: not rescaled
import torch
import triton
import triton.language as tl


@triton.jit
def online_softmax_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    row_start = tl.program_id(0) * N
    lanes = tl.arange(0, BLOCK_N)
    largest = tl.full((BLOCK_N,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        cols = start + lanes
        x = tl.load(x_ptr + row_start + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        grown = tl.maximum(largest, x)
        shift = tl.where(grown == float("-inf"), 0.0, grown)
        total = total + tl.exp(x - shift)
        largest = grown
    row_max = tl.max(largest, axis=0)
    row_sum = tl.sum(total * tl.exp(largest - row_max), axis=0)
    for start in range(0, N, BLOCK_N):
        cols = start + lanes
        x = tl.load(x_ptr + row_start + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        tl.store(y_ptr + row_start + cols, tl.exp(x - row_max) / row_sum, mask=cols < N)


def online_softmax(x):
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_N = min(triton.next_power_of_2(N), 4096)
    online_softmax_kernel[(M,)](x, y, N, BLOCK_N=BLOCK_N, num_warps=8)
    return y
