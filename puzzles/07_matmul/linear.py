"""07.5  Linear layer

A matmul that adds the bias and applies the activation before anything is stored.

    out[m, n] = act(sum_k x[m, k] * weight[n, k] + bias[n])     PyTorch: act(x @ weight.T + bias)
    relu(v) = max(v, 0),  gelu(v) = v / 2 * (1 + erf(v / sqrt(2)))

Given     x (M, K), weight (N, K) and bias (N,): float16, bfloat16 or float32, any strides, any
          sizes >= 1
          activation: None, "relu" or "gelu"
Return    out (M, N): dtype of x, contiguous; sum, bias and activation in float32, rounded once.
          NaN stays NaN, in relu too
Raise     ValueError that names x if it is not 2-D or has another dtype,
          weight if it is not 2-D, has no K columns, or has another dtype than x,
          bias if it is not (N,) of that dtype, and activation if it is unknown
New here  an epilogue, work on the accumulator while it is still in registers; a string as
          tl.constexpr, so that each activation is a kernel of its own
Precision float32: products in tf32 are allowed
Traffic   one launch, each element of out stored once
Speed     at least 0.8x of PyTorch at 4096 x 4096 x 4096, float16, "relu"

Run       pytest puzzles/07_matmul/test_linear.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def linear_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wn, stride_wk,
    stride_bias,
    ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes one tile of out, from the first product to the activation
    pass


def linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, activation: str | None
) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate out, choose a grid, launch
