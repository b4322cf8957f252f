# fault: rows are taken to be M elements apart, not N
# cause: stride|read (with|as) |apart
import torch
import triton
import triton.language as tl


@triton.jit
def column_softmax_kernel(
    x_ptr, y_ptr,
    M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.arange(0, BLOCK_M)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs = rows[:, None] * M + cols[None, :]
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    x = tl.load(x_ptr + offs, mask=mask, other=float("-inf")).to(tl.float32)
    exponentials = tl.exp(x - tl.max(x, axis=0)[None, :])
    scale = 1.0 / tl.sum(exponentials, axis=0)
    tl.store(y_ptr + offs, exponentials * scale[None, :], mask=mask)


def column_softmax(x):
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_M = triton.next_power_of_2(M)
    column_softmax_kernel[(triton.cdiv(N, 16),)](
        x, y, M, N, BLOCK_M=BLOCK_M, BLOCK_N=16, num_warps=8 if BLOCK_M >= 512 else 4
    )
    return y
