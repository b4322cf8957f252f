# fault: the carry is the largest of the block's running totals
# cause: the carry is the largest running total
# never: grid or a loop ends too early
import torch
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    carry = 0.0
    for start in range(0, N, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        mask = cols < N
        x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        y = carry + tl.cumsum(x, 0)
        tl.store(y_ptr + row * N + cols, y, mask=mask)
        carry = tl.max(y, 0)


def cumsum(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_N = min(1024, triton.next_power_of_2(N))
    cumsum_kernel[(M,)](x, y, N, BLOCK_N=BLOCK_N)
    return y
