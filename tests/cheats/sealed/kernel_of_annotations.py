# puzzle: 01_pointwise/swish
# open: solved
# sealed: harmless
# sealed on a GPU: the same
# What a kernel is said to return is computed where its file is executed: in the cell alone.
import torch
import triton
import triton.language as tl


@triton.jit
def swish_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr) -> open("/dev/null").close():
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N).to(tl.float32)
    tl.store(y_ptr + offs, x * tl.sigmoid(x), mask=offs < N)


def swish(x):
    y = torch.empty_like(x)
    swish_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
