# A program a row, in three stretches: zeros before the diagonal, one block on it, copies after it.
import torch
import triton
import triton.language as tl


@triton.jit
def triu_kernel(x_ptr, y_ptr, N, diagonal, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    first = tl.minimum(tl.maximum(row + diagonal, 0), N)
    start = row * 0
    while start < N:
        cols = start + tl.arange(0, BLOCK)
        x = tl.zeros((BLOCK,), x_ptr.dtype.element_ty)
        if start + BLOCK > first:
            x = tl.load(x_ptr + row * N + cols, mask=(cols >= first) & (cols < N), other=0)
        tl.store(y_ptr + row * N + cols, x, mask=cols < N)
        start += BLOCK


@torch.no_grad()
def triu(x, diagonal=0):
    y = torch.full_like(x, 3)
    triu_kernel[(x.shape[0],)](x, y, x.shape[1], diagonal, BLOCK=128)
    return y
