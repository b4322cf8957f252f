# fault: every program copies the first block
# cause: program_id|race|every program|same element
# never: atomic_add
import torch
import triton
import triton.language as tl


@triton.jit
def vector_copy_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    mask = offs < N
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask)


def vector_copy(x):
    y = torch.empty_like(x)
    N = x.numel()
    BLOCK = 1024
    vector_copy_kernel[(triton.cdiv(N, BLOCK),)](x, y, N, BLOCK=BLOCK)
    return y
