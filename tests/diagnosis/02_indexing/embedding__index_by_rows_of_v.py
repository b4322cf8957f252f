# fault: a row of the table is taken to be V elements long, not D
# cause: the address.*(but the strides of|is wrong)|but the strides of \w+ are .*address is wrong
import torch
import triton
import triton.language as tl


@triton.jit
def embedding_kernel(table_ptr, indices_ptr, out_ptr, V, D, BLOCK_D: tl.constexpr):
    pid = tl.program_id(0)
    index = tl.load(indices_ptr + pid)
    for start in range(0, D, BLOCK_D):
        cols = start + tl.arange(0, BLOCK_D)
        mask = cols < D
        row = tl.load(table_ptr + index * V + cols, mask=mask)
        tl.store(out_ptr + pid * D + cols, row, mask=mask)


def embedding(table, indices):
    V, D = table.shape
    out = torch.empty((*indices.shape, D), dtype=table.dtype, device=table.device)
    BLOCK_D = min(2048, triton.next_power_of_2(D))
    embedding_kernel[(indices.numel(),)](table, indices, out, V, D, BLOCK_D=BLOCK_D)
    return out
