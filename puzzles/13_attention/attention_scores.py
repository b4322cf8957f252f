"""13.1  Attention scores

How much of its attention does each query give to each key? A matmul and a softmax in one kernel.

    p[b, h, i, j] = softmax over j of q[b, h, i] . k[b, g, j] * scale,  g = h // (H // Hkv)
    PyTorch: softmax(q @ k.mT * scale, dim=-1)
    source: Vaswani et al., "Attention Is All You Need" (2017)

Given     q (B, H, S, D) and k (B, Hkv, T, D): float16 or bfloat16, both of one dtype; Hkv
          divides H, D is 16, 32, 64 or 128, any S and T; contiguous, or with heads inside rows:
          x.transpose(1, 2) of x (B, S, H, D). scale: a float > 0; None is D ** -0.5
Return    p (B, H, S, T): dtype of q, contiguous; scores and sums in float32
New here  a softmax over the tiles of a product: the product is cheap enough to compute twice
Traffic   q loaded once, k at most 2 * ceil(S / 64) times for each head of q, p stored once and
          never loaded, nothing else stored, coalesced, one launch
Speed     at least 1.4x the speed of PyTorch at B 1, H 16, S and T 4096, D 64, float16

Run       pytest puzzles/13_attention/test_attention_scores.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; unaligned views; offsets and results beyond 2**31 elements
Sizes     more than 65535 heads
Values    scale 0 or negative; scores of any finite size, and all of one row far below 0; p is
          rounded once, from scores that are not rounded at all
Raise     ValueError that names q if it is not 4-D, has another D or another dtype, and k if it does
          not fit q in rank, B, D, dtype or heads.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/13_attention/production/test_attention_scores.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def attention_scores_kernel(
    q_ptr, k_ptr, p_ptr,
    H, GROUP, S, T,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_kt,
    scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_M queries of one head: first maximum and sum, then p
    # GROUP is H // Hkv, and a tile has BLOCK_M queries and BLOCK_N keys. Strides are of heads and
    # rows: along D they are 1. Add parameters as you need them.
    pass


def attention_scores(q: torch.Tensor, k: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate p, choose a grid, launch
