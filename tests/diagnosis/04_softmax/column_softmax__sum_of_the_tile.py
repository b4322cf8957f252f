# fault: the sum is taken over the columns of the tile, too
# cause: the sum is that of the whole tile, not of each column

import torch
import triton
import triton.language as tl


@triton.jit
def column_softmax_kernel(
    x_ptr, y_ptr,
    M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    offs_m = tl.arange(0, BLOCK_M)[:, None]
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (offs_m < M) & (offs_n < N)
    offs = offs_m.to(tl.int64) * N + offs_n
    x = tl.load(x_ptr + offs, mask=mask, other=float("-inf")).to(tl.float32)
    largest = tl.max(x, axis=0, keep_dims=True)
    largest = tl.where(offs_n < N, largest, 0.0)
    e = tl.exp(x - largest)
    total = tl.sum(e)
    tl.store(y_ptr + offs, e / total, mask=mask)


def column_softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_M = triton.next_power_of_2(M)
    BLOCK_N = 16
    column_softmax_kernel[(triton.cdiv(N, BLOCK_N),)](
        x, y, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=8 if BLOCK_M > 512 else 4
    )
    return y
