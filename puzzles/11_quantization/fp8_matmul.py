"""11.5  fp8 matmul

Multiply two float8 matrices whose scales change along K: the product of DeepSeek-V3.

    out[m, n] = sum_b scale[m, n, b] * (sum_{k in block b} x[m, k] * weight[n, k])
    scale[m, n, b] = x_scale[m, b] * weight_scale[n // 128, b]
    block b holds the k from 128 * b to 128 * b + 127, the last one those up to K - 1

    source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 3.3

Given     x (M, K) and weight (N, K): torch.float8_e4m3fn, contiguous;
          x_scale (M, ceil(K / 128)): float32, contiguous or the transpose of a contiguous tensor;
          weight_scale (ceil(N / 128), ceil(K / 128)): float32, contiguous;
          out_dtype: torch.bfloat16, torch.float16 or torch.float32
Return    out (M, N): out_dtype, contiguous; scaled and summed over blocks in float32, rounded once.
          Within a block the tensor core's own sum will do
New here  tl.dot of float8; partial sums that are scaled before they are added
Traffic   each element of x loaded at most ceil(N / 32) times, each of weight at most ceil(M / 32)
          times, each of out stored once, coalesced, one launch, nothing but inputs and out
Speed     at least 1.2x the speed of the formula in bfloat16 in PyTorch at M 4096, N 7168, K 4096

Run       pytest puzzles/11_quantization/test_fp8_matmul.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides of all four, including 0; offsets and results beyond 2**31 elements
Sizes     as many tiles as the first axis of a grid takes
Traffic   from 64 Mi multiplications on, factors whose rows begin at no multiple of 16 bytes may be
          copied first, each in a launch of its own
Values    blocks beyond the range of float16, scales of any size; NaN stays in its row or column
Raise     ValueError that names x if it is not 2-D float8_e4m3fn,
          weight if it is not float8_e4m3fn (N, K), x_scale or weight_scale if its shape or dtype is
          another, and out_dtype if it is another.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/11_quantization/production/test_fp8_matmul.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def fp8_matmul_kernel(
    x_ptr, weight_ptr, x_scale_ptr, weight_scale_ptr, out_ptr,
    M, N, K,
    stride_xsm, stride_xsb,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes one tile of out, a block of K at a time
    pass


def fp8_matmul(
    x: torch.Tensor,
    weight: torch.Tensor,
    x_scale: torch.Tensor,
    weight_scale: torch.Tensor,
    out_dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate out, choose a grid, launch
