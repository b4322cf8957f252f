"""04.1  Softmax: one good answer.

A row stays in registers, up to 65536 elements with a warp for every 1024, so that it is loaded once
and stored once. Short rows share a program of 2048 elements and 2 warps, where one row each would
leave most lanes idle.
"""

import torch
import triton
import triton.language as tl

TILE = 2048
# As many as an NVIDIA multiprocessor has registers: such a row spills a little.
LONGEST = 2**16


@triton.jit
def softmax_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.arange(0, BLOCK_N).to(tl.int64)[None, :]
    mask = (rows < M) & (cols < N)
    x_ptrs = x_ptr + rows * stride_xm + cols * stride_xn
    # exp(-inf) is 0, so the masked lanes change neither the maximum nor the sum.
    x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)
    exponentials = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    y = exponentials / tl.sum(exponentials, axis=1, keep_dims=True)
    tl.store(y_ptr + rows * N + cols, y, mask=mask)


def softmax(x: torch.Tensor) -> torch.Tensor:
    if x.dim() != 2 or not x.is_floating_point() or x.shape[1] > LONGEST:
        raise ValueError(
            f"x must be 2-D and floating point with rows of at most {LONGEST} elements, "
            f"not {x.dtype} {tuple(x.shape)}"
        )
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = min(triton.next_power_of_2(M), max(1, TILE // BLOCK_N))
    softmax_kernel[(triton.cdiv(M, BLOCK_M),)](
        x, y, M, N, x.stride(0), x.stride(1),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=min(max(BLOCK_N // 1024, 2), 32),
    )  # fmt: skip
    return y
