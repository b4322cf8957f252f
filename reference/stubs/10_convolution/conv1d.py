"""10.1  Causal 1-D convolution

Mamba's short convolution: each channel is filtered along time and sees only its past.

    out[b, d, t] = act(bias[d] + sum_w weight[d, w] * x[b, d, t - (W - 1) + w])
    x before time 0 counts as 0; silu(v) = v / (1 + exp(-v))
    PyTorch: conv1d(pad(x, (W - 1, 0)), weight[:, None], bias, groups=D), then silu

Given     x (B, D, L), weight (D, W) with W from 1 to 8, bias (D,): float16, bfloat16 or float32,
          all of one dtype, contiguous; x also as the transpose(1, 2) of a (B, L, D) tensor, which
          is what Mamba's projections return; activation: None or "silu"
Return    out (B, D, L): dtype of x, contiguous; all is computed in float32 and rounded once
New here  loads that overlap; a loop over a constexpr, tl.static_range
Traffic   each element of x loaded at most W times, each of out stored once, neighbouring lanes on
          neighbouring elements of x and of out in both layouts of x; one launch
Speed     at least 3.5x the speed of PyTorch at (8, 4096, 2048), W = 4, bfloat16, "silu"

Run       pytest puzzles/10_convolution/test_conv1d.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides of x, weight and bias, including 0; offsets and results beyond 2**31 elements
Sizes     B * D beyond 65535
Values    NaN and inf as in PyTorch
Traffic   each byte of x loaded by 1.15 programs on average where L is 1024: long tiles
Raise     ValueError that names x if it is not 3-D or has another dtype,
          weight if it is not (D, W) with W from 1 to 8 and the dtype of x,
          bias if it is not (D,) of that dtype, and activation if it is neither None nor "silu".
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/10_convolution/production/test_conv1d.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def causal_conv1d_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr,
    B, D, L,
    stride_xb, stride_xd, stride_xl,
    W: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_L: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK_L elements of BLOCK_D channels
    pass


def causal_conv1d(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, activation: str | None = None
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate out, choose tiles and a grid, launch
