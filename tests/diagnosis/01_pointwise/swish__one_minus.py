# fault: 1 - 1 / (1 + exp(x)) cancels for x far below 0
# cause: cancel|nearly equal|1 -
import torch
import triton
import triton.language as tl


@triton.jit
def swish_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    y = x * (1 - 1 / (1 + tl.exp(x)))
    tl.store(y_ptr + offs, y, mask=mask)


def swish(x):
    y = torch.empty_like(x)
    N = x.numel()
    swish_kernel[(triton.cdiv(N, 1024),)](x, y, N, BLOCK=1024)
    return y
