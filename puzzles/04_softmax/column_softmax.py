"""04.2  Column softmax

Softmax down the columns: the reduction runs across the order in which the numbers lie in memory.

    y[m, n] = exp(x[m, n] - max_n) / sum_m exp(x[m, n] - max_n), max_n the largest of column n
    PyTorch: torch.softmax(x, 0)

Given     x (M, N): float16, bfloat16 or float32, contiguous, M from 1 to 2048, N >= 1
Return    y (M, N): a new tensor with the dtype of x, computed in float32
New here  a reduction along axis 0 of a tile that is as tall as the matrix and as wide as coalesced
          access requires
Traffic   each element loaded once and stored once, neighbouring lanes on neighbouring elements of
          a row; one launch
Speed     at least 1x the speed of the formula in PyTorch at 2048 x 32768 float32 elements

Run       pytest puzzles/04_softmax/test_column_softmax.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0
Sizes     any M and N; offsets and results beyond 2**31 elements. Where M is more than 2048, two
          loads per element and more than one launch are allowed, so that programs share a column
Values    a column with NaN or +inf, or of nothing but -inf, gives NaN, as in PyTorch;
          a column of one element gives exactly 1
Raise     ValueError that names x if it is not 2-D or not floating point.
Speed     at least 0.9x the speed of our solution, at 1048576 x 64 elements too
Run       pytest puzzles/04_softmax/production/test_column_softmax.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def column_softmax_kernel(
    x_ptr, y_ptr,
    M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program turns BLOCK_N columns into their softmax; a column fits into BLOCK_M lanes
    pass


def column_softmax(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose blocks and a grid, launch
