"""11.3  int8 matmul

Multiply two int8 matrices exactly, then bring the sums back with one scale a row and one a column.

    out[m, n] = (sum_k x[m, k] * weight[n, k]) * x_scale[m] * weight_scale[n]

    source: Dettmers et al., "LLM.int8(): 8-bit Matrix Multiplication for Transformers" (2022)

Given     x (M, K) and weight (N, K): int8, -128 included; contiguous, weight also transposed;
          K up to 131071; x_scale (M,) and weight_scale (N,): float32, contiguous;
          out_dtype: torch.bfloat16, torch.float16 or torch.float32
Return    out (M, N): out_dtype, contiguous; the sum exact in int32, scaled in float32, rounded once
New here  tl.dot of int8, whose accumulator is int32 and has to be asked for: out_dtype=tl.int32
Traffic   each element of x loaded at most ceil(N / 32) times, each of weight at most ceil(M / 32)
          times, each of out stored once, coalesced, one launch, nothing but inputs and out
Speed     at least 1.1x the speed of the formula in bfloat16 in PyTorch at 8192 x 8192 x 8192

Run       pytest puzzles/11_quantization/test_int8_matmul.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides of all four, including 0; offsets and results beyond 2**31 elements
Sizes     as many tiles as the first axis of a grid takes
Traffic   from 64 Mi multiplications on, factors whose rows begin at no multiple of 16 bytes may be
          copied first, each in a launch of its own
Values    NaN in a scale stays in its row or column
Raise     ValueError that names x if it is not 2-D int8 or K is too long,
          weight if it is not 2-D int8 or does not have K columns,
          x_scale or weight_scale if it is not (M,) or (N,) or not float32,
          and out_dtype if it is another.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/11_quantization/production/test_int8_matmul.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def int8_matmul_kernel(
    x_ptr, weight_ptr, x_scale_ptr, weight_scale_ptr, out_ptr,
    M, N, K,
    stride_xm, stride_xk,
    stride_wn, stride_wk,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes one tile of out, from the first product to the scales
    pass


def int8_matmul(
    x: torch.Tensor,
    weight: torch.Tensor,
    x_scale: torch.Tensor,
    weight_scale: torch.Tensor,
    out_dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate out, choose a grid, launch
