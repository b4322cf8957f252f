"""01.2  Square, a kernel with three gaps

Square each element of a vector. The launcher is written, and so is half of the kernel.

    y[i] = x[i] * x[i]          PyTorch: x * x

Given     x (N,): float16, bfloat16 or float32, contiguous, N >= 1
Return    y (N,): a new tensor with the dtype of x
New here  offsets, a mask and a store of your own: replace each ... with what the line above it
          asks for
Traffic   each element loaded once and stored once, neighbouring lanes on neighbouring
          elements, one launch
Speed     at least 0.3x the speed of x * x at 64 Mi float32 elements

Run       pytest puzzles/01_pointwise/test_square.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    views that are not aligned to 16 bytes
Sizes     N = 0; results beyond 2**31 elements
Dtypes    int32
Values    NaN and inf as in PyTorch, int32 exact
Raise     ValueError that names x if it is not 1-D or not contiguous
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/01_pointwise/production/test_square.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def square_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    # TODO, gap 1: the numbers of the elements that program pid squares, a block
    offs = ...
    # TODO, gap 2: which of these elements there are, of N
    mask = ...
    x = tl.load(x_ptr + offs, mask=mask)
    # TODO, gap 3: store the squares of x in y, at the same offsets, with the mask
    ...


def square(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    N = x.numel()
    BLOCK = 1024
    grid = (triton.cdiv(N, BLOCK),)
    square_kernel[grid](x, y, N, BLOCK=BLOCK)
    return y
