"""02.1  Outer addition

Add every element of one vector to every element of another, tile by tile.

    z[m, n] = x[m] + y[n]          PyTorch: x[:, None] + y[None, :]

Given     x (M,) and y (N,): float16, bfloat16, float32 or int32, any strides, any sizes >= 1
Return    z (M, N): dtype of x, contiguous
Raise     ValueError that names x if it is not 1-D,
          and y if it is not 1-D or its dtype is not that of x
New here  a grid of two axes, tl.program_id(1); [:, None] and [None, :]: a column and a row of
          lanes make a tile; a mask with two edges
Traffic   each tile loads its part of x and of y once, each element of z is stored once, one launch.
          x is loaded at most ceil(N / 16) times, y at most ceil(M / 16) times
Speed     at least 0.9x of x[:, None] + y[None, :] at 16384 x 16384 float32 elements

Run       pytest puzzles/02_indexing/test_outer_add.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def outer_add_kernel(
    x_ptr, y_ptr, z_ptr,
    M, N,
    stride_x, stride_y,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes one BLOCK_M x BLOCK_N tile of z
    pass


def outer_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate z, choose a grid, launch
