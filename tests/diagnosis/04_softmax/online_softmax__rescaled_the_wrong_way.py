# fault: the sum is multiplied by exp(new - old) in place of exp(old - new)
# cause: difference before it is the wrong way round
import torch
import triton
import triton.language as tl


@triton.jit
def online_softmax_kernel(x_ptr, y_ptr, N, BLOCK_N: tl.constexpr):
    row_start = tl.program_id(0) * N
    largest = float("-inf")
    total = 0.0
    for start in range(0, N, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + row_start + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        grown = tl.maximum(largest, tl.max(x, axis=0))
        shift = tl.where(grown == float("-inf"), 0.0, grown)
        total = total * tl.exp(shift - largest) + tl.sum(tl.exp(x - shift), axis=0)
        largest = grown
    for start in range(0, N, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + row_start + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        tl.store(y_ptr + row_start + cols, tl.exp(x - largest) / total, mask=cols < N)


def online_softmax(x):
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_N = min(triton.next_power_of_2(N), 1024)
    online_softmax_kernel[(M,)](x, y, N, BLOCK_N=BLOCK_N)
    return y
