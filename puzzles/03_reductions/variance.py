"""03.4  Variance

The unbiased variance of each row, from two passes over a row that is loaded once.

    mean[m] = sum_n x[m, n] / N
    y[m] = sum_n (x[m, n] - mean[m])**2 / (N - 1)          PyTorch: x.var(1)

Given     x (M, N): float16, bfloat16 or float32, contiguous, M >= 1, N from 2 to 8192
Return    y (M,): a new tensor with the dtype of x, computed in float32
New here  a whole row in one block, kept in registers between two reductions;
          tl.sum(..., keep_dims=True); num_warps, the size of the program that holds the row
Precision right also where the mean is far from zero: mean(x**2) - mean(x)**2 is not
Traffic   each element loaded once, neighbouring lanes on neighbouring elements; each variance
          stored once, one launch
Speed     at least 2x the speed of the formula in PyTorch at 16384 x 4096 float32 elements

Run       pytest puzzles/03_reductions/test_variance.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0
Sizes     N up to 32768, and N = 1, which gives NaN, since 0 / 0 is; more than 65535 rows; offsets
          beyond 2**31 elements
Values    NaN and inf as in PyTorch; huge and tiny numbers
Raise     ValueError that names x if it is not 2-D, not floating point or has longer rows.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/03_reductions/production/test_variance.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def variance_kernel(
    x_ptr, variance_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes the variance of one row, which fits into BLOCK_N lanes
    pass


def variance(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate the result, choose num_warps and a grid, launch
