"""03.4  Variance

The unbiased variance of each row, from two passes over a row that is loaded once.

    mean[m] = sum_n x[m, n] / N
    y[m] = sum_n (x[m, n] - mean[m])**2 / (N - 1)          PyTorch: x.var(1)

Given     x (M, N): float16, bfloat16 or float32, any strides, M >= 1, N from 1 to 32768
Return    y (M,): dtype of x, contiguous, computed in float32; NaN where N is 1, since 0 / 0 is
Raise     ValueError that names x if it is not 2-D, not floating point or has longer rows
New here  a whole row in one block, kept in registers between two reductions;
          tl.sum(..., keep_dims=True); num_warps, the size of the program that holds the row
Precision right also where the mean is far from zero: mean(x**2) - mean(x)**2 is not
Traffic   each element loaded once, each variance stored once, one launch
Speed     at least 1.5x of the formula in PyTorch at 16384 x 4096 float32 elements

Run       pytest puzzles/03_reductions/test_variance.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def variance_kernel(
    x_ptr, variance_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes the variance of BLOCK_M rows, each of them in one block
    pass


def variance(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check x, allocate the result, choose a grid, launch
