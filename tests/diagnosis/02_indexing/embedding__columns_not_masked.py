# fault: the mask of the store, of a tile of rows and columns, lacks the columns
# cause: the mask lets all columns of this tile through; it also needs cols\[None, :\] < D
# never: rows\[:, None\] < 13

import torch
import triton
import triton.language as tl


@triton.jit
def embedding_kernel(
    table_ptr, indices_ptr, out_ptr, N, D, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr
):
    tiles_d = tl.cdiv(D, BLOCK_D)
    rows = tl.program_id(0) // tiles_d * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(0) % tiles_d * BLOCK_D + tl.arange(0, BLOCK_D)
    row_mask = rows < N
    index = tl.load(indices_ptr + rows, mask=row_mask, other=0)
    table_ptrs = table_ptr + index[:, None] * D + cols[None, :]
    values = tl.load(table_ptrs, mask=row_mask[:, None] & (cols < D)[None, :], other=0.0)
    tl.store(out_ptr + rows[:, None] * D + cols[None, :], values, mask=row_mask[:, None])


def embedding(table, indices):
    N, D = indices.numel(), table.shape[1]
    out = torch.empty(*indices.shape, D, dtype=table.dtype, device=table.device)
    BLOCK_M, BLOCK_D = 32, min(triton.next_power_of_2(D), 512)
    grid = (triton.cdiv(N, BLOCK_M) * triton.cdiv(D, BLOCK_D),)
    embedding_kernel[grid](table, indices, out, N, D, BLOCK_M=BLOCK_M, BLOCK_D=BLOCK_D)
    return out
