# fault: the offset of a row is row * M instead of row * N
# cause: stride|rows? .*apart
import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(
    x_ptr, y_ptr,
    M, N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, N, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + row * M + cols, mask=cols < N, other=0.0)
        total += tl.sum(x.to(tl.float32), axis=0)
    tl.store(y_ptr + row, total)


def row_sum(x):
    M, N = x.shape
    y = torch.empty(M, dtype=x.dtype, device=x.device)
    BLOCK_N = min(triton.next_power_of_2(N), 4096)
    row_sum_kernel[(M,)](x, y, M, N, BLOCK_N=BLOCK_N)
    return y
