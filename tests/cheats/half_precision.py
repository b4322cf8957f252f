# puzzle: 01_pointwise/swish
# mode: both
# rejected with: is wrong in
# sealed on a GPU: the same
import torch
import triton
import triton.language as tl


@triton.jit
def swish_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N).to(tl.bfloat16).to(tl.float32)
    tl.store(y_ptr + offs, (x * tl.sigmoid(x)).to(tl.bfloat16), mask=offs < N)


def swish(x):
    y = torch.empty_like(x)
    swish_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
