# fault: there is no mask: the last program goes past the end
# cause: mask
import torch
import triton
import triton.language as tl


@triton.jit
def vector_copy_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, N, step):
        offs = start + tl.arange(0, BLOCK)
        tl.store(y_ptr + offs, tl.load(x_ptr + offs))


def vector_copy(x):
    y = torch.empty_like(x)
    N = x.numel()
    BLOCK = 2048
    grid = (min(triton.cdiv(N, BLOCK), 1024),)
    vector_copy_kernel[grid](x, y, N, BLOCK=BLOCK)
    return y
