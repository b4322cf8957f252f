# fault: the mask of the store, of a tile of rows and columns, lacks the columns
# cause: the mask lets all columns of this tile through; it also needs cols\[None, :\] < D
# never: rows\[:, None\] < 13

import torch
import triton
import triton.language as tl


@triton.jit
def embedding_kernel(
    table_ptr, indices_ptr, out_ptr, flag_ptr,
    V, D, N,
    stride_tv, stride_td,
    sizes, strides,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    column_tiles = tl.cdiv(D, BLOCK_D)
    rows = pid // column_tiles * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid % column_tiles * BLOCK_D + tl.arange(0, BLOCK_D)

    index_offs = tl.zeros_like(rows)
    rest = rows
    for i in tl.static_range(len(sizes)):
        index_offs += rest % sizes[len(sizes) - 1 - i] * strides[len(sizes) - 1 - i]
        rest = rest // sizes[len(sizes) - 1 - i]
    index = tl.load(indices_ptr + index_offs, mask=rows < N, other=0).to(tl.int64)
    good = (index >= 0) & (index < V)
    if tl.max((~good).to(tl.int32), 0) > 0:
        tl.atomic_max(flag_ptr, 1)

    row_mask = (rows < N) & good
    values = tl.load(
        table_ptr + index[:, None] * stride_tv + cols[None, :] * stride_td,
        mask=row_mask[:, None] & (cols < D)[None, :],
        other=0.0,
    )
    tl.store(out_ptr + rows[:, None] * D + cols[None, :], values, mask=row_mask[:, None])


def embedding(table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    if table.dim() != 2 or table.is_complex():
        raise ValueError(f"table must be 2-D and real, not {table.dtype} {tuple(table.shape)}")
    if indices.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"indices must be int32 or int64, not {indices.dtype}")
    V, D = table.shape
    N = indices.numel()
    out = torch.empty(*indices.shape, D, dtype=table.dtype, device=table.device)
    if N == 0:
        return out
    flag = torch.zeros((), dtype=torch.int32, device=table.device)
    BLOCK_D = min(triton.next_power_of_2(max(D, 1)), 512)
    BLOCK_M = max(1, 2048 // BLOCK_D)
    BLOCK_M = min(BLOCK_M, 32)
    grid = (triton.cdiv(N, BLOCK_M) * max(1, triton.cdiv(D, BLOCK_D)),)
    embedding_kernel[grid](
        table, indices, out, flag,
        V, D, N,
        table.stride(0), table.stride(1),
        tuple(indices.shape) or (1,), indices.stride() or (1,),
        BLOCK_M=BLOCK_M, BLOCK_D=BLOCK_D,
    )  # fmt: skip
    if flag.item():
        raise IndexError(f"indices must be from 0 to {V - 1}")
    return out
