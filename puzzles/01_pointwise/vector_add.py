"""01.2  Vector addition

Add two vectors that may be spread out in memory.

    z[i] = x[i] + y[i]          PyTorch: x + y

Given     x and y (N,): float16, bfloat16, float32 or int32, any strides, any N >= 0
Return    z (N,): dtype of x, contiguous
Raise     ValueError that names x if it is not 1-D,
          and y if its shape or dtype is not that of x
New here  strides: x[i] lies i * x.stride(0) elements after x[0]; a launcher that checks its input
Traffic   each element of x and y loaded once, each of z stored once, one launch
Speed     at least 0.9x of x + y at 64 Mi float32 elements

Run       pytest puzzles/01_pointwise/test_vector_add.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def vector_add_kernel(
    x_ptr, y_ptr, z_ptr,
    N,
    stride_x, stride_y,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program adds BLOCK elements
    pass


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate z, choose a grid, launch
