"""03.5  Welford

Mean and variance of each row in one pass, for rows too long to keep.

    mean[m] = sum_n x[m, n] / N
    variance[m] = sum_n (x[m, n] - mean[m])**2 / (N - 1)          PyTorch: torch.var_mean(x, 1)

    Two sets of numbers, with counts n_a, n_b, means and sums m2 of squared distances from the mean,
    make one set, with delta = mean_b - mean_a and n = n_a + n_b:

    mean = mean_a + delta * n_b / n
    m2 = m2_a + m2_b + delta**2 * n_a * n_b / n
    source: Welford (1962); Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for
    Computing Sample Variances" (1979)

Given     x (M, N): float16, bfloat16 or float32, finite, any strides, any sizes >= 1
Return    (mean, variance), each (M,): dtype of x, contiguous, computed in float32;
          the variance is NaN where N is 1
Raise     ValueError that names x if it is not 2-D or not floating point
New here  a state of several values carried from block to block; the last block may be shorter
Precision right also where the mean is 10000 times the deviation
Traffic   each element loaded once, each result stored once, one launch
Speed     at least 1.5x of the formula in PyTorch at 4096 x 16384 float32 elements

Run       pytest puzzles/03_reductions/test_welford.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def welford_kernel(
    x_ptr, mean_ptr, variance_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program goes once over BLOCK_M rows, BLOCK_N columns at a time
    pass


def welford(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: check x, allocate both results, choose a grid, launch
