"""02.4  Embedding: one good answer.

Short rows are copied several at a time, so that a program has 2048 elements or so whatever D is. An
index out of range is masked off and reported through one flag, which the launcher reads once after
the launch. Indices of any shape and strides are read in place.
"""

import torch
import triton
import triton.language as tl

TILE = 2048


@triton.jit
def embedding_kernel(
    table_ptr, indices_ptr, out_ptr, flag_ptr,
    V, D, N, sizes,
    stride_tv, stride_td, strides,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    rows = pid * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tl.program_id(1).to(tl.int64) * BLOCK_D + tl.arange(0, BLOCK_D))[None, :]
    rest = rows
    offs = tl.zeros_like(rows)
    for dim in tl.static_range(len(sizes) - 1, -1, -1):
        offs += rest % sizes[dim] * strides[dim]
        rest = rest // sizes[dim]
    index = tl.load(indices_ptr + offs, mask=rows < N, other=0).to(tl.int64)
    valid = (index >= 0) & (index < V)
    # Any number of programs may find a bad index; the launcher asks only whether one did.
    wrong = tl.sum(tl.where(valid, 0, 1), axis=0)
    tl.atomic_max(flag_ptr, 1, mask=wrong > 0)
    mask = (rows < N)[:, None] & (cols < D)
    table_ptrs = table_ptr + index[:, None] * stride_tv + cols * stride_td
    row = tl.load(table_ptrs, mask=mask & valid[:, None], other=0)
    tl.store(out_ptr + rows[:, None] * D + cols, row, mask=mask)


def embedding(table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    if table.dim() != 2 or table.is_complex():
        raise ValueError(
            f"table must be 2-D and not complex, not {table.dtype} {tuple(table.shape)}"
        )
    if indices.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"indices must be int32 or int64, not {indices.dtype}")
    V, D = table.shape
    N = indices.numel()
    out = torch.empty((*indices.shape, D), dtype=table.dtype, device=table.device)
    flag = torch.zeros((), dtype=torch.int32, device=table.device)
    if indices.is_contiguous():
        indices = indices.view(-1)
    # Axis 1 of the grid ends at 65535 programs: beyond 128 Mi columns tiles become wider.
    widest = max(TILE, triton.next_power_of_2(triton.cdiv(D, 65535)))
    BLOCK_D = min(triton.next_power_of_2(D), widest)
    BLOCK_M = min(triton.next_power_of_2(max(N, 1)), max(1, TILE // BLOCK_D))
    embedding_kernel[(triton.cdiv(N, BLOCK_M), triton.cdiv(D, BLOCK_D))](
        table, indices, out, flag, V, D, N, tuple(indices.shape),
        table.stride(0), table.stride(1), indices.stride(), BLOCK_M=BLOCK_M, BLOCK_D=BLOCK_D,
        num_warps=2,
    )  # fmt: skip
    if flag.item():
        raise IndexError(f"indices must lie in [0, {V}), the rows of the table")
    return out
