# fault: masked lanes are loaded as 0, and exp(0 - max) is added to the sum of the row
# cause: masked lanes of x count as 0
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, N, BLOCK_N: tl.constexpr):
    row_start = tl.program_id(0) * N
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row_start + cols, mask=cols < N, other=0.0).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    denominator = tl.sum(numerator, axis=0)
    tl.store(y_ptr + row_start + cols, numerator / denominator, mask=cols < N)


def softmax(x):
    M, N = x.shape
    y = torch.empty_like(x)
    softmax_kernel[(M,)](x, y, N, BLOCK_N=triton.next_power_of_2(N))
    return y
