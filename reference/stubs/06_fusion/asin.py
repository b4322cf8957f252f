"""06.5  Arc sine

A function that Triton's language lacks, from the library of device functions.

    y[i] = asin(x[i])          PyTorch: torch.asin(x)

Given     x (N,): float16, bfloat16 or float32, contiguous, N >= 1
Return    y (N,): a new tensor with the dtype of x, computed in float32; NaN where x is outside
          [-1, 1]
New here  libdevice, called like a function of tl. Its asin takes float32 or float64, nothing
          narrower
Traffic   each element of x loaded once, each of y stored once, coalesced, one launch
Speed     at least 0.3x the speed of torch.asin(x) at 64 Mi float32 elements

Run       pytest puzzles/06_fusion/test_asin.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    up to 4 dimensions, including 0, and any strides, including 0
Sizes     empty tensors; offsets and results beyond 2**31 elements; more than 65535 rows
Values    NaN, inf, signed zeros and subnormal numbers as in PyTorch
Raise     ValueError that names x if it has more than 4 dimensions or another dtype.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/06_fusion/production/test_asin.py
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice  # noqa: F401


@triton.jit
def asin_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK elements
    pass


def asin(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose a grid, launch
