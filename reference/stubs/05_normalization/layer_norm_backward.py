"""05.4  Layer norm, backward

The gradients of layer norm: sums along the rows for x, along the columns for weight and bias.

    x_hat[m, n] = (x[m, n] - mean[m]) * rstd[m]
    g[m, n] = dy[m, n] * weight[n]
    dx[m, n] = rstd[m] * (g[m, n] - sum_n g[m, n] / N - x_hat[m, n] * sum_n (g * x_hat)[m, n] / N)
    dweight[n] = sum_m dy[m, n] * x_hat[m, n],  dbias[n] = sum_m dy[m, n]
    PyTorch: torch.ops.aten.native_layer_norm_backward

Given     dy and x (M, N), weight (N,): float16, bfloat16 or float32, all of one dtype, contiguous,
          M >= 1, N from 1 to 8192; mean and rstd (M,): float32, from layer_norm of x
Return    (dx, dweight, dbias): dx (M, N), dweight and dbias (N,), dtype of x, computed in float32;
          dweight and dbias are the same bits on every run, so no atomic additions
New here  two directions of sums in one pass: a program adds up its rows' part of each column, and
          a second launch adds the parts; tl.range(..., num_stages=3), which loads ahead in a loop
Traffic   each element of dy and x loaded once, each of dx stored once and not loaded back;
          coalesced; at 512 rows at most 10 % more stores, for the parts; at most two launches
Speed     at least 7x the speed of the formulas in PyTorch at 16384 x 4096 bfloat16 elements

Run       pytest puzzles/05_normalization/test_layer_norm_backward.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0, of every input
Sizes     N up to 16384; offsets beyond 2**31 elements
Values    a mean far from 0; constant rows; NaN and inf stay in their row and column
Raise     ValueError that names x if it is not 2-D, not floating point or has longer rows,
          and dy, weight, mean or rstd if its shape or dtype is another one.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/05_normalization/production/test_layer_norm_backward.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, partial_ptr,
    M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program goes over a group of rows, BLOCK_M at a time, and stores its column sums
    pass


@triton.jit
def add_groups_kernel(
    partial_ptr, dweight_ptr, dbias_ptr,
    groups, N,
    BLOCK_G: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program adds the sums of all groups for BLOCK_N columns
    pass


def layer_norm_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: allocate, choose grids, launch both kernels
