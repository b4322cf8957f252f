"""12.4  Layer norm and linear layer

A linear layer that normalizes its input on the way to the tensor cores and never stores it.

    mean[m], var[m]: of row m of x;  rstd[m] = 1 / sqrt(var[m] + eps)
    normed[m, k] = (x[m, k] - mean[m]) * rstd[m] * norm_weight[k] + norm_bias[k]
    y[m, n] = sum_k normed[m, k] * weight[n, k] + bias[n]
    PyTorch: linear(layer_norm(x, (K,), norm_weight, norm_bias, eps), weight, bias)

Given     x (M, K), norm_weight and norm_bias (K,), weight (N, K), bias (N,): float16, bfloat16 or
          float32, all of one dtype, contiguous, rows of any length
Return    y (M, N): dtype of x, contiguous. Statistics and sums in float32; a normalized tile is
          rounded to the dtype of x for tl.dot (float32 factors may round to tf32)
New here  a prologue: work on a tile between its load and tl.dot. Where K ends inside a tile,
          masked lanes are no longer 0 after it
Traffic   x loaded at most 2 + ceil(N / 32) times, weight at most 1 + ceil(M / 32) times; y stored
          once, and besides it at most 2 numbers a row and 2 a column; weight and y coalesced; at
          most three launches
Speed     at least 0.6x the speed of PyTorch at 8192 x 4096 by 4096 columns, bfloat16

Run       pytest puzzles/12_transformer/test_layer_norm_linear.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; offsets and results beyond 2**31 elements
Traffic   from 64 Mi multiplications of 16-bit numbers on, x and weight may be copied first if their
          rows begin at no multiple of 16 bytes, each in a launch of its own
Values    means of 300 with a deviation of 1; NaN stays in its row
Raise     ValueError that names x, norm_weight, norm_bias, weight or bias if its rank, shape or
          dtype does not fit.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/12_transformer/production/test_layer_norm_linear.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_linear_kernel(
    x_ptr, norm_weight_ptr, norm_bias_ptr, weight_ptr, bias_ptr, y_ptr,
    M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes one tile of y; where do mean and rstd of its rows come from?
    # Add what your answer to that needs: eps, or pointers to both; and GROUP_M, if you order the
    # tiles as in 07.3.
    pass


def layer_norm_linear(
    x: torch.Tensor,
    norm_weight: torch.Tensor,
    norm_bias: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float = 1e-5,
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose a grid, launch
