# Lanes run over the elements of out in one dimension, and each looks its own row up.
import functools

import torch
import triton
import triton.language as tl


@triton.jit
def embedding_kernel(table_ptr, indices_ptr, out_ptr, N, D, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(indices_ptr + offs // D, mask=offs < N, other=0).to(tl.int64)
    tl.store(out_ptr + offs, tl.load(table_ptr + row * D + offs % D, mask=offs < N), mask=offs < N)


def looked_up(block, table, indices):
    D = table.shape[1]
    out = torch.empty((*indices.shape, D), dtype=table.dtype, device=table.device)
    grid = (triton.cdiv(out.numel(), block),)
    embedding_kernel[grid](table, indices, out, out.numel(), D, BLOCK=block)
    return out


embedding = functools.partial(looked_up, 512)
