# fault: the carry holds the sum of the previous block only
# cause: carry is that of the previous block
import torch
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    row_start = tl.program_id(0) * N
    carry = 0.0
    for start in range(0, N, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + row_start + cols, mask=cols < N, other=0.0).to(tl.float32)
        tl.store(y_ptr + row_start + cols, carry + tl.cumsum(x, axis=0), mask=cols < N)
        carry = tl.sum(x, axis=0)


def cumsum(x):
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_N = min(triton.next_power_of_2(N), 2048)
    cumsum_kernel[(M,)](x, y, N, BLOCK_N=BLOCK_N)
    return y
