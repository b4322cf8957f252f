"""07.5  Linear layer

A matmul that adds the bias and applies the activation before anything is stored.

    out[m, n] = act(sum_k x[m, k] * weight[n, k] + bias[n])     PyTorch: act(x @ weight.T + bias)
    relu(v) = max(v, 0),  gelu(v) = v / 2 * (1 + erf(v / sqrt(2)))

Given     x (M, K) and weight (N, K), any strides, and bias (N,), contiguous: float16, bfloat16 or
          float32, all of one dtype; activation: None, "relu" or "gelu"
Return    out (M, N): dtype of x, contiguous; sum, bias and activation in float32, rounded once
          (float32 factors may round to tf32)
New here  an epilogue, work on the accumulator while it is still in registers; a string as
          tl.constexpr, so that each activation is a kernel of its own
Traffic   each element of out stored once, neighbouring lanes on neighbouring elements, one launch
Speed     at least 0.3x the speed of PyTorch at 4096 x 4096 x 4096, float16, "relu"

Run       pytest puzzles/07_matmul/test_linear.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any stride of bias, strides of 0, unaligned views; offsets and results beyond 2**31
Sizes     as many tiles as the first axis of a grid takes
Traffic   from 64 Mi multiplications of 16-bit numbers on, a factor whose rows begin at no multiple
          of 16 bytes may be copied first, in a launch of its own
Values    NaN and inf as in PyTorch, where relu of NaN is NaN; the whole range of float32 and
          bfloat16
Raise     ValueError that names x if it is not 2-D or has another dtype,
          weight if it is not 2-D, has no K columns, or has another dtype than x,
          bias if it is not (N,) of that dtype, and activation if it is unknown.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/07_matmul/production/test_linear.py
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
    raise NotImplementedError  # TODO: allocate out, choose a grid, launch
