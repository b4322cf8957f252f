# puzzle: 01_pointwise/swish
# open: solved
# sealed: kernel uses the launch option ptx_options, which is no part of Triton's language
# sealed on a GPU: the same
# What ptxas is to be called with would be an argument of a process of the judge.
import torch
import triton
import triton.language as tl


@triton.autotune(
    [triton.Config({"BLOCK": 256, "ptx_options": "--output-file /tmp/own"})], key=["N"]
)
@triton.jit
def kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N).to(tl.float32)
    tl.store(y_ptr + offs, x * tl.sigmoid(x), mask=offs < N)


def swish(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel())
    return y
