# fault: the mask of the load ends one column too early
# cause: last (element|column)|ends too early|one (column|element)
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    row_start = tl.program_id(0) * N
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row_start + cols, mask=cols < N - 1, other=float("-inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    denominator = tl.sum(numerator, axis=0)
    tl.store(y_ptr + row_start + cols, numerator / denominator, mask=cols < N)


def softmax(x):
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_N = triton.next_power_of_2(N)
    num_warps = 8 if BLOCK_N >= 2048 else 4
    softmax_kernel[(M,)](x, y, N, BLOCK_N=BLOCK_N, num_warps=num_warps)
    return y
