"""01.4  Vector addition

Add two vectors, one block of elements in each program.

    z[i] = x[i] + y[i]          PyTorch: x + y

Given     x and y (N,): float16, bfloat16 or float32, both of one dtype, contiguous, N >= 1
Return    z (N,): a new tensor with the dtype of x
New here  a kernel with two inputs; both the kernel and its launcher are yours
Traffic   each element of x and y loaded once, each of z stored once, neighbouring lanes on
          neighbouring elements, one launch
Speed     at least 0.3x the speed of x + y at 64 Mi float32 elements

Run       pytest puzzles/01_pointwise/test_vector_add.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any stride, including 0: x[i] lies i * x.stride(0) elements after x[0]
Sizes     N = 0; offsets and results beyond 2**31 elements
Dtypes    int32
Values    NaN and inf as in PyTorch, int32 exact
Raise     ValueError that names x if it is not 1-D, and y if its shape or dtype is not that of x.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/01_pointwise/production/test_vector_add.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def vector_add_kernel(
    x_ptr, y_ptr, z_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program adds BLOCK elements
    pass


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate z, choose a grid, launch
