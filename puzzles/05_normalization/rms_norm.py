"""05.2  RMS norm

Scale each row to a mean square of 1, then each column by its weight: layer norm without the mean.

    y[m, n] = x[m, n] / sqrt(sum_n x[m, n]**2 / N + eps) * weight[n]

    PyTorch: torch.nn.functional.rms_norm(x, (N,), weight, eps)
    source: Zhang, Sennrich, "Root Mean Square Layer Normalization" (2019)

Given     x (M, N): float16, bfloat16 or float32, any strides, M >= 1, N from 1 to 32768;
          weight (N,): dtype of x, any strides; eps: a float, 0 or more
Return    y (M, N): dtype of x, contiguous, computed in float32 and rounded once
Raise     ValueError that names x if it is not 2-D, not floating point or has longer rows,
          and weight if its shape or dtype is another one
New here  nothing: one reduction fewer than layer norm, so that memory is the only limit
Traffic   x loaded once, y stored once, one launch
Speed     at least 3x of the formula in PyTorch at 16384 x 4096 bfloat16 elements

Run       pytest puzzles/05_normalization/test_rms_norm.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(
    x_ptr, weight_ptr, y_ptr,
    M, N, eps,
    stride_xm, stride_xn, stride_w,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program normalizes BLOCK_M rows, each of them in one block
    pass


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate y, choose a grid, launch
