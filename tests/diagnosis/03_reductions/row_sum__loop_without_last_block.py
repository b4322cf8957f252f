# fault: the loop runs over the whole blocks only: cdiv is forgotten
# cause: ends too early|cdiv|last block|a loop takes no turn
import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    total = 0.0
    for block in range(N // BLOCK_N):
        cols = block * BLOCK_N + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0)
        total += tl.sum(x.to(tl.float32), axis=0)
    tl.store(y_ptr + row, total)


def row_sum(x):
    M, N = x.shape
    y = torch.empty(M, dtype=x.dtype, device=x.device)
    BLOCK_N = 1024
    row_sum_kernel[(M,)](x, y, N, BLOCK_N=BLOCK_N)
    return y
