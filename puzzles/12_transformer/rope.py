"""12.1  Rotary position embedding

Turn pairs of features by angles that depend on the token's position, for q and k in one launch.

    out[b, h, s, i]     = x[b, h, s, i] * cos[s, i] - x[b, h, s, i + D/2] * sin[s, i]
    out[b, h, s, i+D/2] = x[b, h, s, i + D/2] * cos[s, i] + x[b, h, s, i] * sin[s, i],  i < D/2
    inverse: -sin instead of sin, which turns back. This is also the backward pass
    source: Su et al., "RoFormer" (2021), with the pairs (i, i + D/2) of Llama and GPT-NeoX

Given     q (B, H, S, D) and k (B, Hkv, S, D), D even: float16, bfloat16 or float32, both of one
          dtype, contiguous or with heads inside rows, (B, S, H, D) memory seen by .transpose(1, 2);
          cos and sin (S, D/2): float32, contiguous
Return    (q_out, k_out): new contiguous tensors with the shapes and the dtype of q and k,
          computed in float32, rounded once
New here  a program that serves all heads of its tokens, because they share their angles
Traffic   each element of q and k loaded once, each result stored once; cos and sin loaded once a
          token, not once a head; neighbouring lanes on neighbouring features; one launch
Speed     at least 7x the speed of the formulas in PyTorch at B 4, H 32, Hkv 8, S 4096, D 128,
          bfloat16

Run       pytest puzzles/12_transformer/test_rope.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0, of all four; offsets beyond 2**31 elements in all four
Dtypes    cos and sin of the dtype of q; the products are still float32
Sizes     cos and sin (T, R/2) with T >= S, of which the first S rows count, and R <= D, where
          features R and up are copied; R/2 odd
Values    NaN stays in its pair; float16 results that overflow, and those that only nearly do
Raise     ValueError that names q if its rank or dtype is another one or D is odd; k if its rank,
          B, S, D or dtype does not fit; cos if it is not 2-D, has fewer than S rows, no column or
          more than D/2, or another dtype; sin if its shape or dtype is not that of cos.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/12_transformer/production/test_rope.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rope_kernel(
    q_ptr, k_ptr, cos_ptr, sin_ptr, q_out_ptr, k_out_ptr,
    H, Hkv, S, D,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    INVERSE: tl.constexpr,
    BLOCK_S: tl.constexpr,
):  # fmt: skip
    # TODO: one program turns all heads of BLOCK_S tokens
    # D is no constexpr: for tl.arange along a head add one, such as BLOCK_I,
    # triton.next_power_of_2(D // 2).
    pass


def rope(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    inverse: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: allocate both results, choose a grid, launch
