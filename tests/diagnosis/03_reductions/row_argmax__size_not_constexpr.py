# fault: the block size is an argument like any other, not a tl.constexpr
# cause: constexpr
import torch
import triton
import triton.language as tl


@triton.jit
def row_argmax_kernel(
    x_ptr, index_ptr,
    N,
    BLOCK_N,
):  # fmt: skip
    row = tl.program_id(0)
    best = float("-inf")
    index = 0
    for start in range(0, N, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        top, where = tl.max(x, axis=0, return_indices=True)
        index = tl.where(top > best, start + where, index)
        best = tl.maximum(best, top)
    tl.store(index_ptr + row, index)


def row_argmax(x):
    M, N = x.shape
    index = torch.empty(M, dtype=torch.int64, device=x.device)
    BLOCK_N = min(triton.next_power_of_2(N), 4096)
    row_argmax_kernel[(M,)](x, index, N, BLOCK_N=BLOCK_N)
    return index
