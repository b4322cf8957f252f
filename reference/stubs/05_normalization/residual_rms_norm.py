"""05.3  Residual RMS norm

Add a layer's output to the residual stream and normalize the sum, in one pass: every block of a
transformer does it twice.

    total[m, n] = x[m, n] + residual[m, n]
    y[m, n] = total[m, n] / sqrt(sum_n total[m, n]**2 / N + eps) * weight[n]

Given     x and residual (M, N), weight (N,): float16, bfloat16 or float32, all of one dtype,
          contiguous, M >= 1, N from 1 to 8192; eps: a float, 0 or more
Return    (y, total), each (M, N): dtype of x, computed in float32. y may come from the total before
          or after it is rounded to that dtype, and the normalized row may be rounded before the
          weight
New here  two results from one pass; a sum that is stored and used, but not loaded back
Traffic   each element of x and residual loaded once, each of y and total stored once, coalesced,
          one launch
Speed     at least 2.5x the speed of the formula in PyTorch at 16384 x 4096 bfloat16 elements

Run       pytest puzzles/05_normalization/test_residual_rms_norm.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0, of x, residual and weight; x and residual may be the same tensor
Sizes     N up to 32768; offsets and results beyond 2**31 elements; more than 65535 rows
Values    no rounding before the weight; rows of zeros stay zeros; NaN and inf stay in their row
Raise     ValueError that names x if it is not 2-D, not floating point or has longer rows,
          and residual or weight if its shape or dtype is another one.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/05_normalization/production/test_residual_rms_norm.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def residual_rms_norm_kernel(
    x_ptr, residual_ptr, weight_ptr, y_ptr, total_ptr,
    M, N, eps,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program adds and normalizes BLOCK_M rows, each of them in one block
    pass


def residual_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: allocate the results, choose a grid, launch
