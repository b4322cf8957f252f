"""Indices are checked and laid side by side by one launch; a second one of few programs gathers."""

import torch
import triton
import triton.language as tl


@triton.jit
def check_kernel(indices_ptr, flat_ptr, bad_ptr, N, V, sizes, strides, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    rest, index_ptrs = offs, indices_ptr
    for dim in tl.static_range(len(sizes) - 1, -1, -1):
        index_ptrs += rest % sizes[dim] * strides[dim]
        rest = rest // sizes[dim]
    index = tl.load(index_ptrs, mask=offs < N, other=0).to(tl.int64)
    bad = (index < 0) | (index >= V)
    tl.atomic_max(bad_ptr, tl.max(bad.to(tl.int32)))
    tl.store(flat_ptr + offs, index, mask=offs < N)


@triton.jit
def gather_kernel(table_ptr, flat_ptr, out_ptr, N, D, stride_v, stride_d, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    while row < N:
        index = tl.load(flat_ptr + row)
        for start in range(0, D, BLOCK):
            cols = start + tl.arange(0, BLOCK).to(tl.int64)
            x = tl.load(table_ptr + index * stride_v + cols * stride_d, mask=cols < D)
            tl.store(out_ptr + row * D + cols, x, mask=cols < D)
        row += tl.num_programs(0)


def embedding(table, indices):
    if table.dim() != 2 or table.is_complex():
        raise ValueError("table must be 2-D and real")
    if indices.dtype not in (torch.int32, torch.int64):
        raise ValueError("indices must be int32 or int64")
    V, D = table.shape
    N = indices.numel()
    out = torch.empty((*indices.shape, D), dtype=table.dtype, device=table.device)
    if N == 0:
        return out
    sizes, strides = tuple(indices.shape) or (1,), indices.stride() or (0,)
    flat = torch.empty(N, dtype=torch.int64, device=table.device)
    bad = torch.zeros(1, dtype=torch.int32, device=table.device)
    check_kernel[(triton.cdiv(N, 1024),)](indices, flat, bad, N, V, sizes, strides, BLOCK=1024)
    if bad.item():
        raise IndexError("indices must lie in the table")
    BLOCK = min(1024, triton.next_power_of_2(D))
    gather_kernel[(min(N, 1056),)](table, flat, out, N, D, *table.stride(), BLOCK=BLOCK)
    return out
