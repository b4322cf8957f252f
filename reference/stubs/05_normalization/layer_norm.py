"""05.1  Layer norm

Shift and scale each row to mean 0 and variance 1, then apply the weight and bias of each column.

    mean[m] = sum_n x[m, n] / N
    rstd[m] = 1 / sqrt(sum_n (x[m, n] - mean[m])**2 / N + eps)
    y[m, n] = (x[m, n] - mean[m]) * rstd[m] * weight[n] + bias[n]

    PyTorch: torch.nn.functional.layer_norm(x, (N,), weight, bias, eps)
    source: Ba, Kiros, Hinton, "Layer Normalization" (2016)

Given     x (M, N), weight and bias (N,): float16, bfloat16 or float32, all of one dtype,
          contiguous, M >= 1, N from 1 to 8192; eps: a float, 0 or more
Return    (y, mean, rstd): y (M, N), dtype of x; mean and rstd (M,), float32. Computed in float32
          and rounded once
New here  tl.rsqrt; one row of weights for all rows of a tile; three results, two of which only the
          backward pass reads
Traffic   each element of x loaded once, each of y, mean and rstd stored once and not
          loaded back, coalesced, one launch
Speed     at least 6x the speed of the formula in PyTorch at 16384 x 4096 bfloat16 elements

Run       pytest puzzles/05_normalization/test_layer_norm.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0, of x, weight and bias
Sizes     N up to 32768; offsets and results beyond 2**31 elements; more than 65535 rows
Values    constant rows; a mean of 1e4; NaN and inf stay in their row
Raise     ValueError that names x if it is not 2-D, not floating point or has longer rows,
          and weight or bias if its shape or dtype is another one.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/05_normalization/production/test_layer_norm.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr,
    M, N, eps,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program normalizes BLOCK_M rows, each of them in one block
    pass


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: allocate the results, choose a grid, launch
