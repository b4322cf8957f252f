"""02.1  Outer addition

Add every element of one vector to every element of another, tile by tile.

    z[m, n] = x[m] + y[n]          PyTorch: x[:, None] + y[None, :]

Given     x (M,) and y (N,): float16, bfloat16 or float32, both of one dtype, contiguous, M, N >= 1
Return    z (M, N): a new contiguous tensor with the dtype of x
New here  a grid of two axes, tl.program_id(1); [:, None] and [None, :]: a column and a row of
          lanes make a tile; a mask with two edges
Traffic   each tile loads its part of x and of y once, each element of z is stored once, one launch:
          x is loaded at most ceil(N / 16) times, y at most ceil(M / 16) times;
          neighbouring lanes store neighbouring elements of a row of z
Speed     at least 0.8x the speed of x[:, None] + y[None, :] at 16384 x 16384 float32 elements

Run       pytest puzzles/02_indexing/test_outer_add.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0
Sizes     offsets and results beyond 2**31 elements; more tiles than axis 1 of a grid takes
Dtypes    int32
Values    NaN and inf as in PyTorch, int32 exact
Raise     ValueError that names x if it is not 1-D,
          and y if it is not 1-D or its dtype is not that of x.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/02_indexing/production/test_outer_add.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def outer_add_kernel(
    x_ptr, y_ptr, z_ptr,
    M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes one BLOCK_M x BLOCK_N tile of z
    pass


def outer_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate z, choose the tiles and a grid, launch
