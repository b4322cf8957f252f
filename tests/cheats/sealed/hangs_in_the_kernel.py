# puzzle: 01_pointwise/swish
# open: did not return within
# sealed: did not return within
# sealed on a GPU: could not be interrupted: the process was ended
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N).to(tl.float32)
    while tl.max(tl.load(y_ptr + offs, mask=offs < N, other=0.0)) != -7.0:
        tl.store(y_ptr + offs, x * tl.sigmoid(x), mask=offs < N)


def swish(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
