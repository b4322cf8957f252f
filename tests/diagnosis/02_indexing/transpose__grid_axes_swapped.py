# fault: the grid has the tiles of N along axis 0, which the kernel takes for rows of M
# cause: with a grid of \(1, 2, 1\) in place of \(2, 1, 1\)
# never: loop over tiles|masks it off
import torch
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    x = tl.load(
        x_ptr + rows[:, None] * stride_xm + cols[None, :] * stride_xn,
        mask=(rows < M)[:, None] & (cols < N)[None, :],
    )
    tl.store(
        y_ptr + cols[:, None] * M + rows[None, :],
        tl.trans(x),
        mask=(cols < N)[:, None] & (rows < M)[None, :],
    )


def transpose(x: torch.Tensor) -> torch.Tensor:
    M, N = x.shape
    y = torch.empty((N, M), dtype=x.dtype, device=x.device)
    BLOCK = 64
    grid = (triton.cdiv(N, BLOCK), triton.cdiv(M, BLOCK))
    transpose_kernel[grid](
        x, y, M, N, x.stride(0), x.stride(1), BLOCK_M=BLOCK, BLOCK_N=BLOCK, num_warps=8
    )
    return y
