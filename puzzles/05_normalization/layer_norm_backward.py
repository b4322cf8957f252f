"""05.4  Layer norm, backward

The gradients of layer norm: along the rows for x, along the columns for weight and bias, and each
element loaded only once.

    x_hat[m, n] = (x[m, n] - mean[m]) * rstd[m]
    g[m, n] = dy[m, n] * weight[n]
    dx[m, n] = rstd[m] * (g[m, n] - sum_n g[m, n] / N - x_hat[m, n] * sum_n (g * x_hat)[m, n] / N)
    dweight[n] = sum_m dy[m, n] * x_hat[m, n]
    dbias[n] = sum_m dy[m, n]

    PyTorch: torch.ops.aten.native_layer_norm_backward

Given     dy and x (M, N): float16, bfloat16 or float32, any strides, M >= 1, N from 1 to 16384;
          weight (N,): dtype of x; mean and rstd (M,): float32, as layer_norm gave them for x;
          any strides
Return    (dx, dweight, dbias): dx (M, N), dweight and dbias (N,), dtype of x, contiguous,
          computed in float32 and rounded once
Raise     ValueError that names x if it is not 2-D, not floating point or has longer rows,
          and dy, weight, mean or rstd if its shape or dtype is another one
New here  two directions of sums in one pass: a program takes a group of rows, keeps its part of the
          column sums, and a second launch adds the parts; tl.range(..., num_stages=3), which loads
          for the next turns of a loop while this one computes
Same bits dweight and dbias do not depend on the order in which programs run: no atomic additions
Traffic   dy and x loaded once; stores of M * N elements and, at 1024 rows, 10 % for the parts;
          at most two launches
Speed     at least 2x of the formulas in PyTorch at 16384 x 4096 bfloat16 elements

Run       pytest puzzles/05_normalization/test_layer_norm_backward.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, partial_ptr,
    M, N,
    stride_dm, stride_dn, stride_xm, stride_xn, stride_w, stride_mean, stride_rstd,
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
    raise NotImplementedError  # TODO: check the inputs, allocate, choose grids, launch both kernels
