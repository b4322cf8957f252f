"""11.2  Quantize blocks: one good answer.

A program takes 32 rows of a column of blocks at once, or one square block, and neighbouring
programs read on in the same rows. The largest size is found among the bits as integers, which have
the same order and keep NaN, where a maximum of floats drops it. Divisions are tl.div_rn, which
rounds as PyTorch does.
"""

import torch
import triton
import triton.language as tl

BLOCKS = ((1, 128), (128, 128))


@triton.jit
def quantize_blocks_kernel(
    x_ptr, q_ptr, scale_ptr,
    M, N,
    stride_xm, stride_xn,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    BLOCK_M: tl.constexpr,
):  # fmt: skip
    pid, blocks_n = tl.program_id(0).to(tl.int64), tl.cdiv(N, COLUMNS)
    # Neighbouring programs read on in the same rows.
    pid_m, pid_n = pid // blocks_n, pid % blocks_n
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    offs_n = pid_n * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    mask = (offs_m < M) & (offs_n < N)
    x_ptrs = x_ptr + offs_m * stride_xm + offs_n * stride_xn
    x = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)  # [BLOCK_M, COLUMNS]
    # As int32, sizes are in the same order, and NaN is the largest: the float maximum drops it.
    sizes = tl.abs(x).to(tl.int32, bitcast=True)
    sizes = tl.max(sizes, axis=1, keep_dims=True)  # [BLOCK_M, 1]
    if ROWS > 1:
        sizes = tl.max(sizes, axis=0, keep_dims=True)  # [1, 1]: one block a program
    largest = sizes.to(tl.float32, bitcast=True)
    scale = tl.where(largest == 0, 1.0, tl.div_rn(largest, 448.0))
    q = tl.div_rn(x, scale).to(q_ptr.dtype.element_ty)
    tl.store(q_ptr + offs_m * N + offs_n, q, mask=mask)
    block_m = pid_m * (BLOCK_M // ROWS) + tl.arange(0, BLOCK_M // ROWS)[:, None]
    tl.store(scale_ptr + block_m * blocks_n + pid_n, scale, mask=block_m < tl.cdiv(M, ROWS))


def quantize_blocks(
    x: torch.Tensor, block: tuple[int, int] = (1, 128)
) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dim() != 2 or not x.is_floating_point():
        raise ValueError(f"x must be 2-D and floating point, not {x.dtype} {tuple(x.shape)}")
    if block not in BLOCKS:
        raise ValueError(f"block must be (1, 128) or (128, 128), not {block}")
    (M, N), (ROWS, COLUMNS) = x.shape, block
    blocks = triton.cdiv(M, ROWS), triton.cdiv(N, COLUMNS)
    q = torch.empty((M, N), dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty(blocks, dtype=torch.float32, device=x.device)
    BLOCK_M = max(ROWS, 32)
    quantize_blocks_kernel[(triton.cdiv(M, BLOCK_M) * blocks[1],)](
        x, q, scale,
        M, N,
        x.stride(0), x.stride(1),
        ROWS=ROWS, COLUMNS=COLUMNS, BLOCK_M=BLOCK_M, num_warps=BLOCK_M // 8,
    )  # fmt: skip
    return q, scale
