# fault: the scan of the tile runs down its columns, along axis 0
# cause: wrong axis|down (the|its) columns|along dimension 0
import torch
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(x_ptr, y_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    carry = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, N, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        offs = rows[:, None] * N + cols[None, :]
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + offs, carry[:, None] + tl.cumsum(x, axis=0), mask=mask)
        carry += tl.sum(x, axis=1)


def cumsum(x):
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_M, BLOCK_N = 16, min(triton.next_power_of_2(N), 256)
    cumsum_kernel[(triton.cdiv(M, BLOCK_M),)](x, y, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    return y
