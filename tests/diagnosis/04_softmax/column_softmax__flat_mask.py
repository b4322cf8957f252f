# fault: the mask ends where the tensor does: columns past the last are those of the next row
# cause: y has 1067 columns, and cols runs past them
# never: is taken for its first row

import torch
import triton
import triton.language as tl


@triton.jit
def column_softmax_kernel(
    x_ptr, y_ptr,
    M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    offs = rows * N + cols
    mask = offs < M * N
    x = tl.load(x_ptr + offs, mask=mask, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0, keep_dims=True))
    y = e / tl.sum(e, axis=0, keep_dims=True)
    tl.store(y_ptr + offs, y, mask=mask)


def column_softmax(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty_like(x)
    BLOCK_M = triton.next_power_of_2(M)
    BLOCK_N = 16
    column_softmax_kernel[(triton.cdiv(N, BLOCK_N),)](
        x, y, M, N, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=8
    )
    return y
