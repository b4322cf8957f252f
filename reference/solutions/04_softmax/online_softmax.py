"""04.3  Online softmax: one good answer.

One maximum and one sum for each row are carried from block to block. Blocks are long, 8192 elements
of 16 bits, because all lanes of a program wait for each other twice in every block. As long as a
row is all -inf nothing is subtracted, since -inf - -inf is NaN; short rows share a tile.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def online_softmax_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    lanes = tl.arange(0, BLOCK_N)[None, :]
    x_ptrs = x_ptr + rows * stride_xm
    y_ptrs = y_ptr + rows * N
    largest = tl.full((BLOCK_M, 1), float("-inf"), tl.float32)
    shift = tl.zeros((BLOCK_M, 1), tl.float32)
    total = tl.zeros((BLOCK_M, 1), tl.float32)  # sum of exp(x - shift)
    for start in range(0, N, BLOCK_N):
        cols = (start + lanes).to(tl.int64)
        mask = (rows < M) & (cols < N)
        x = tl.load(x_ptrs + cols * stride_xn, mask=mask, other=float("-inf")).to(tl.float32)
        new = tl.maximum(largest, tl.max(x, axis=1, keep_dims=True))
        # As long as all is -inf nothing may be subtracted: -inf - -inf is NaN.
        shift = tl.where(new == float("-inf"), 0.0, new)
        total = total * tl.exp(largest - shift) + tl.sum(tl.exp(x - shift), axis=1, keep_dims=True)
        largest = new
    for start in range(0, N, BLOCK_N):
        cols = (start + lanes).to(tl.int64)
        mask = (rows < M) & (cols < N)
        x = tl.load(x_ptrs + cols * stride_xn, mask=mask, other=float("-inf")).to(tl.float32)
        tl.store(y_ptrs + cols, tl.exp(x - shift) / total, mask=mask)


def online_softmax(x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2 or not x.is_floating_point():
        raise ValueError(f"x must be 2-D and floating point, not {x.dtype} {tuple(x.shape)}")
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    # Long blocks, since all lanes of a program wait for each other twice in every block.
    tile = 4096 * x.element_size()
    BLOCK_N = min(triton.next_power_of_2(N), tile)
    BLOCK_M = min(triton.next_power_of_2(M), tile // BLOCK_N)
    online_softmax_kernel[(triton.cdiv(M, BLOCK_M),)](
        x, y, M, N, x.stride(0), x.stride(1),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=max(BLOCK_M * BLOCK_N // 1024, 4),
    )  # fmt: skip
    return y
