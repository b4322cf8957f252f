"""01.4  Swish

The activation x * sigmoid(x), which must not overflow on its way.

    y = x / (1 + exp(-x))          PyTorch: x * torch.sigmoid(x)
    source: Ramachandran, Zoph, Le, "Searching for Activation Functions" (2017)

Given     x, up to 4-D: float16, bfloat16 or float32, any strides
Return    y: shape and dtype of x, contiguous, computed in float32
Raise     ValueError that names x if it has more than 4 dimensions or is not floating point
New here  tl.exp or tl.sigmoid in float32, whatever the dtype in memory; thinking about exp(100)
Traffic   1 load and 1 store an element, one launch
Speed     at least 1.5x of x * torch.sigmoid(x) at 64 Mi float32 elements

Run       pytest puzzles/01_pointwise/test_swish.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def swish_kernel(
    x_ptr, y_ptr,
    N, size_1, size_2, size_3,
    stride_x0, stride_x1, stride_x2, stride_x3,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK elements, counted in row-major order
    pass


def swish(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check x, allocate y, choose a grid, launch
