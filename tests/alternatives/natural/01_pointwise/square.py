# The stub with its gaps filled as the lesson has it: no check of x, offsets of 32 bits.
import torch
import triton
import triton.language as tl


@triton.jit
def square_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK) + BLOCK * pid
    mask = offs < N
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(y_ptr + offs, x * x, mask)


def square(x):
    y = torch.empty_like(x)
    N = x.numel()
    BLOCK = 1024
    grid = (triton.cdiv(N, BLOCK),)
    square_kernel[grid](x, y, N, BLOCK=BLOCK)
    return y
