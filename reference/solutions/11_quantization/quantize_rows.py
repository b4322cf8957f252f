"""11.1  Quantize rows: one good answer.

A row stays in registers between its maximum and the division, and short rows share a program. The
largest size is found among the bits as integers, which have the same order and keep NaN, where a
maximum of floats drops it. Divisions are tl.div_rn, which rounds as PyTorch does, and halves go to
even.
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

TILE = 2048
LONGEST = 2**16


@triton.jit
def quantize_rows_kernel(
    x_ptr, q_ptr, scale_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.arange(0, BLOCK_N).to(tl.int64)[None, :]
    mask = (rows < M) & (cols < N)
    x_ptrs = x_ptr + rows * stride_xm + cols * stride_xn
    x = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)  # [BLOCK_M, BLOCK_N]
    # As int32, sizes are in the same order, and NaN is the largest: the float maximum drops it.
    sizes = tl.abs(x).to(tl.int32, bitcast=True)
    largest = tl.max(sizes, axis=1, keep_dims=True).to(tl.float32, bitcast=True)  # [BLOCK_M, 1]
    scale = tl.where(largest == 0, 1.0, tl.div_rn(largest, 127.0))
    q = libdevice.rint(tl.div_rn(x, scale))
    # Beside NaN or inf each quotient is 0 or NaN, and no integer is NaN.
    q = tl.where(scale < float("inf"), q, 0.0)
    tl.store(q_ptr + rows * N + cols, q.to(tl.int8), mask=mask)
    tl.store(scale_ptr + rows, scale, mask=rows < M)


def quantize_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dim() != 2 or not x.is_floating_point() or x.shape[1] > LONGEST:
        raise ValueError(
            f"x must be 2-D and floating point with rows of at most {LONGEST} elements, "
            f"not {x.dtype} {tuple(x.shape)}"
        )
    M, N = x.shape
    q = torch.empty((M, N), dtype=torch.int8, device=x.device)
    scale = torch.empty(M, dtype=torch.float32, device=x.device)
    BLOCK_N = triton.next_power_of_2(N)
    BLOCK_M = min(triton.next_power_of_2(M), max(1, TILE // BLOCK_N))
    quantize_rows_kernel[(triton.cdiv(M, BLOCK_M),)](
        x, q, scale,
        M, N,
        x.stride(0), x.stride(1),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=min(max(BLOCK_N // 1024, 2), 32),
    )  # fmt: skip
    return q, scale
