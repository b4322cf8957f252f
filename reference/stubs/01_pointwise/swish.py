"""01.6  Swish

The activation x * sigmoid(x), which must not overflow on the way.

    y = x / (1 + exp(-x))          PyTorch: x * torch.sigmoid(x)
    source: Ramachandran, Zoph, Le, "Searching for Activation Functions" (2017)

Given     x (N,): float16, bfloat16 or float32, contiguous, N >= 1
Return    y (N,): a new tensor with the dtype of x, computed in float32
New here  tl.exp or tl.sigmoid in float32, whatever the dtype in memory; thinking about exp(100)
Traffic   1 load and 1 store per element, neighbouring lanes on neighbouring elements, one launch
Speed     at least 0.8x the speed of x * torch.sigmoid(x) at 64 Mi float32 elements

Run       pytest puzzles/01_pointwise/test_swish.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    up to 4 dimensions with any strides, including 0; y is contiguous
Sizes     no elements; offsets and results beyond 2**31 elements
Values    the whole range of float32, NaN and inf as in PyTorch: swish(-inf) is NaN
Raise     ValueError that names x if it has more than 4 dimensions or is not floating point.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/01_pointwise/production/test_swish.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def swish_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK elements
    pass


def swish(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose a grid, launch
