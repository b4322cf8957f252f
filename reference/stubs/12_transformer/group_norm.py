"""12.3  Group norm

Normalize over groups of channels, which may be far longer than any block.

    a group is C / groups channels, over all of L
    mean[b, g] = mean of x over group g,  var[b, g] = mean of (x - mean)**2,  without Bessel's term
    rstd[b, g] = 1 / sqrt(var[b, g] + eps)
    y[b, c, l] = (x[b, c, l] - mean[b, g]) * rstd[b, g] * weight[c] + bias[c]
    PyTorch: torch.nn.functional.group_norm;  source: Wu, He, "Group Normalization" (2018)

Given     x (B, C, L), an image as x.flatten(2), its mean up to 100 deviations from 0; weight and
          bias (C,): float16, bfloat16 or float32, all of one dtype, contiguous; groups divides C
Return    (y, mean, rstd): y (B, C, L), dtype of x, contiguous; mean and rstd (B, groups), float32;
          all computed in float32
New here  statistics of what no block holds: parts with means of their own, merged; and weights
          that change inside a group
Traffic   each element of x loaded at most twice, each of y stored once; neighbouring lanes on
          neighbouring elements; little else stored
Speed     at least 3.5x the speed of the formulas in PyTorch at (16, 512, 4096), 32 groups, bfloat16

Run       pytest puzzles/12_transformer/test_group_norm.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0, of all three, channels last among them; offsets beyond 2**31
          elements in all four
Values    means of 10000 with a deviation of 1, an outlier in the first place, squares beyond
          float16; NaN stays in its group
Raise     ValueError that names x if it is not 3-D or has another dtype, groups if it is below 1 or
          does not divide C, weight and bias if their shape or dtype does not fit.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/12_transformer/production/test_group_norm.py
"""

import torch
import triton
import triton.language as tl  # noqa: F401


@triton.jit
def group_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr,
    C, L, groups, eps,
):  # fmt: skip
    # TODO: one program normalizes one group, or a part of one whose statistics are known; it needs
    # more parameters, such as BLOCK: tl.constexpr
    pass


def group_norm(
    x: torch.Tensor, groups: int, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: allocate, choose a grid, launch
