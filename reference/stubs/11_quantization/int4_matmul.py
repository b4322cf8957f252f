"""11.4  int4 matmul

Multiply by a matrix of 4-bit weights, two of them a byte, that are unpacked on the chip.

    out[m, n] = sum_k x[m, k] * (q[n, k] - zero[n, k // group]) * scale[n, k // group]
    q[n, 2j] = weight[n, j] % 16,  q[n, 2j + 1] = weight[n, j] // 16

    source: Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
    Transformers" (2022)

Given     x (M, K): float16 or bfloat16; weight (N, K / 2): uint8; all four contiguous;
          scale (N, K / group): dtype of x; zero (N, K / group): uint8, 0 to 15;
          group: 32, 64, 128 or 256, a divisor of K
Return    out (M, N): dtype of x, contiguous, summed in float32. Either (q - zero) * scale may be
          rounded to the dtype of x, or the sum of a group be scaled in float32
New here  tl.interleave, or two dots for one tile; a scale and a zero point that change along K
Traffic   each byte of weight loaded at most ceil(M / 32) times, at least 16 neighbouring bytes of a
          row at once; each element of x at most ceil(N / 32) times; each of out stored once, one
          launch
Speed     at least 4x the speed of the formula in PyTorch at M 16, N and K 16384, group 128, float16

Run       pytest puzzles/11_quantization/test_int4_matmul.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides of all four, including 0; offsets and results beyond 2**31 elements
Sizes     as many tiles as the first axis of a grid takes
Values    NaN and inf in x as in PyTorch
Traffic   scale and zero loaded at most 4 * ceil(M / 32) times: once a step, not once a weight;
          sectors of 32 bytes of weight loaded whole, as steps of at least 64 along K do
Raise     ValueError that names x if it is not 2-D or has another dtype, or 32 does not divide K,
          weight if it is not uint8 (N, K / 2), scale if it is not (N, K / group) of the dtype of x
          with one of the four groups, and zero if it is not uint8 of the shape of scale.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/11_quantization/production/test_int4_matmul.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def int4_matmul_kernel(
    x_ptr, weight_ptr, scale_ptr, zero_ptr, out_ptr,
    M, N, K,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes one tile of out; in each step it unpacks a tile of weight
    pass


def int4_matmul(
    x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate out, choose a grid, launch
