"""02.2  Strided copy

Copy a matrix whose rows and columns lie anywhere in memory to one that is contiguous.

    y[m, n] = x[m, n]          PyTorch: x.contiguous()

Given     x (M, N): float16, bfloat16 or float32, any strides (including 0), M and N >= 1
Return    y (M, N): a new contiguous tensor with the dtype of x, also where x is contiguous
New here  a stride for each dimension: x[m, n] lies m * stride_xm + n * stride_xn elements after
          x[0, 0]; a mask with two edges for the loads and the store
Traffic   each element loaded once and stored once, one launch;
          where x is contiguous, in 32-byte sectors at most 1.1x the minimum
Speed     at least 0.5x the speed of x.clone(memory_format=torch.contiguous_format)
          at 16384 x 8192 float32 elements, every second row of a matrix

Run       pytest puzzles/02_indexing/test_strided_copy.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    views that are not aligned to 16 bytes, or overlap themselves
Sizes     offsets and results beyond 2**31 elements; more tiles than axis 1 of a grid takes
Dtypes    any dtype but complex
Values    copied bit for bit, NaN and inf too
Traffic   in sectors at most 1.1x the minimum for every dtype, also where the columns are contiguous
Raise     ValueError that names x if it is not 2-D or complex.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/02_indexing/production/test_strided_copy.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def strided_copy_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program copies one BLOCK_M x BLOCK_N tile
    pass


def strided_copy(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose the tiles and a grid, launch
