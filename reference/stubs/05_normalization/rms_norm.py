"""05.2  RMS norm

Scale each row to a mean square of 1, then each column by its weight: layer norm without the mean.

    y[m, n] = x[m, n] / sqrt(sum_n x[m, n]**2 / N + eps) * weight[n]

    PyTorch: torch.nn.functional.rms_norm(x, (N,), weight, eps)
    source: Zhang, Sennrich, "Root Mean Square Layer Normalization" (2019)

Given     x (M, N) and weight (N,): float16, bfloat16 or float32, both of one dtype, contiguous,
          M >= 1, N from 1 to 8192; eps: a float, 0 or more
Return    y (M, N): a new tensor with the dtype of x, computed in float32; the normalized row may
          be rounded to that dtype before the weight
New here  nothing: one reduction fewer than layer norm, so that memory is the only limit
Traffic   each element of x loaded once, each of y stored once and not loaded back,
          coalesced, one launch
Speed     at least 4x the speed of the formula in PyTorch at 16384 x 4096 bfloat16 elements

Run       pytest puzzles/05_normalization/test_rms_norm.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0, of x and of weight
Sizes     N up to 32768; offsets and results beyond 2**31 elements; more than 65535 rows
Values    one rounding, at the end; rows of zeros stay zeros; NaN and inf stay in their row
Raise     ValueError that names x if it is not 2-D, not floating point or has longer rows,
          and weight if its shape or dtype is another one.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/05_normalization/production/test_rms_norm.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(
    x_ptr, weight_ptr, y_ptr,
    M, N, eps,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program normalizes BLOCK_M rows, each of them in one block
    pass


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose a grid, launch
