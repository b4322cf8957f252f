"""03.5  Welford

Mean and variance of each row in one pass, for rows too long to keep.

    mean[m] = sum_n x[m, n] / N
    variance[m] = sum_n (x[m, n] - mean[m])**2 / (N - 1)          PyTorch: torch.var_mean(x, 1)

    Two sets of numbers, with counts n_a and n_b, means, and sums m2 of squared distances from the
    mean, merge into one of n = n_a + n_b; with delta = mean_b - mean_a:

    mean = mean_a + delta * n_b / n
    m2 = m2_a + m2_b + delta**2 * n_a * n_b / n
    source: Welford (1962); Chan, Golub, LeVeque, "Updating Formulae ..." (1979)

Given     x (M, N): float16, bfloat16 or float32, contiguous, finite, M >= 1, N >= 2
Return    (mean, variance), each (M,): new tensors with the dtype of x, computed in float32
New here  a state of several values carried from block to block; the last block may be shorter
Precision right also where the mean is 10000 times the deviation
Traffic   each element loaded once, neighbouring lanes on neighbouring elements; each result stored
          once, one launch
Speed     at least 2x the speed of the formula in PyTorch at 4096 x 16384 float32 elements

Run       pytest puzzles/03_reductions/test_welford.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0
Sizes     very long rows, and N = 1, whose variance is NaN; more than 65535 rows; offsets beyond
          2**31 elements
Values    huge and tiny numbers, also equal ones whose square float32 cannot hold
Raise     ValueError that names x if it is not 2-D or not floating point.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/03_reductions/production/test_welford.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def welford_kernel(
    x_ptr, mean_ptr, variance_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program goes over one row once, BLOCK_N columns at a time
    pass


def welford(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: allocate both results, choose BLOCK_N and a grid, launch
