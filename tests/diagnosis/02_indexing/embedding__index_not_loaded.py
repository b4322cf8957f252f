# fault: the number of the program is used as the row of the table
# cause: is the index to be loaded from indices
import torch
import triton
import triton.language as tl


@triton.jit
def embedding_kernel(table_ptr, indices_ptr, out_ptr, D, BLOCK_D: tl.constexpr):
    pid = tl.program_id(0)
    index = pid
    for start in range(0, D, BLOCK_D):
        cols = start + tl.arange(0, BLOCK_D)
        mask = cols < D
        row = tl.load(table_ptr + index * D + cols, mask=mask)
        tl.store(out_ptr + pid * D + cols, row, mask=mask)


def embedding(table, indices):
    D = table.shape[1]
    out = torch.empty((*indices.shape, D), dtype=table.dtype, device=table.device)
    BLOCK_D = min(2048, triton.next_power_of_2(D))
    embedding_kernel[(indices.numel(),)](table, indices, out, D, BLOCK_D=BLOCK_D)
    return out
