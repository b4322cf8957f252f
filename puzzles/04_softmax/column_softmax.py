"""04.2  Column softmax

Softmax down the columns: the reduction runs across the order in which the numbers lie in memory.

    y[m, n] = exp(x[m, n] - max_n) / sum_m exp(x[m, n] - max_n), max_n the largest of column n
    PyTorch: torch.softmax(x, 0)

Given     x (M, N): float16, bfloat16 or float32, any strides, any sizes >= 1
Return    y (M, N): dtype of x, contiguous, computed in float32
Raise     ValueError that names x if it is not 2-D or not floating point
New here  a reduction along axis 0 of a tile; a tile as wide as a sector and as tall as the matrix;
          for matrices too tall for that, programs that share a column and meet in a second launch
Special   a column with NaN or +inf, or of nothing but -inf, gives NaN, as in PyTorch
Traffic   1 load and 1 store an element and one launch where M <= 2048, 2 loads where M is more;
          32-byte sectors at most 1.1x the minimum
Speed     at least 2x of the formula in PyTorch at 2048 x 32768 float32 elements,
          and at 1048576 x 64

Run       pytest puzzles/04_softmax/test_column_softmax.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def column_softmax_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program makes BLOCK_N whole columns; a column fits into BLOCK_M lanes.
    # For taller matrices write kernels of your own beside this one.
    pass


def column_softmax(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check x, allocate y, choose a grid, launch
