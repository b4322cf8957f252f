"""06.5  Arc sine

A function that Triton's language does not have, from the library of device functions.

    y = asin(x)          PyTorch: torch.asin(x)

Given     x, up to 4-D: float16, bfloat16 or float32, any strides
Return    y: shape and dtype of x, contiguous, computed in float32; NaN where x is outside [-1, 1]
Raise     ValueError that names x if it has more than 4 dimensions or another dtype
New here  libdevice, called like a function of tl. Its asin takes float32 or float64, nothing
          narrower
Traffic   1 load and 1 store an element, one launch
Speed     at least 0.9x of torch.asin(x) at 64 Mi float32 elements

Run       pytest puzzles/06_fusion/test_asin.py
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice  # noqa: F401


@triton.jit
def asin_kernel(
    x_ptr, y_ptr,
    N, size_1, size_2, size_3,
    stride_x0, stride_x1, stride_x2, stride_x3,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK elements, counted in row-major order
    pass


def asin(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check x, allocate y, choose a grid, launch
