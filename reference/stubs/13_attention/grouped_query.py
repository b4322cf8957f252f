"""13.4  Grouped-query attention

H heads of queries share Hkv heads of keys and values, each serving H // Hkv of them, uncopied.

    out[b, h, i] = sum_j softmax_j(q[b, h, i] . k[b, g, j] * scale) v[b, g, j],  g = h // (H // Hkv)
    over all j, or over j <= i if causal (also where S and T differ)
    PyTorch: k and v .repeat_interleave(H // Hkv, dim=1), then softmax(q @ k.mT * scale) @ v
    source: Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models" (2023)

Given     q (B, H, S, D), k and v (B, Hkv, T, D): float16 or bfloat16, all of one dtype; Hkv
          divides H, D is 16, 32, 64 or 128, any S and T; contiguous, or with heads inside rows:
          x.transpose(1, 2) of x (B, S, H, D). scale: a float > 0; None is D ** -0.5
Return    out (B, H, S, D): dtype of q, contiguous, sums in float32
New here  one kernel for two tasks: a tl.constexpr flag decides at compilation; a diagonal that
          leaves the keys at their right edge or at the bottom
Traffic   q loaded once, k and v at most ceil(S / 64) times for each head of q, and if causal at S
          and T 1024 at most 0.6 times that; tl.dot does no more than that takes; out stored once
          (and lse, if you like), nothing else, coalesced, one launch
Speed     at least 1.8x the speed of PyTorch at B 1, H 16, Hkv 4, S and T 4096, D 128, float16

Run       pytest puzzles/13_attention/test_grouped_query.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; unaligned views; offsets and results beyond 2**31 elements
Sizes     more than 65535 heads
Values    scale 0 or negative; scores of any finite size
Raise     ValueError that names q if it is not 4-D, has another D or another dtype, k if it does not
          fit q in rank, B, D, dtype or heads, and v if its shape or dtype is not that of k.
Traffic   one program for each tile of queries, at most ceil(S / 64) a head; if causal at S and T
          1024 a program loads at most 0.6 of its group's keys and values on average, however large
          its tile
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/13_attention/production/test_grouped_query.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def grouped_query_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    H, GROUP, S, T,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_kt,
    stride_vb, stride_vh, stride_vt,
    scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_M queries of one head and walks along the keys that they see
    # GROUP is H // Hkv, and a tile has BLOCK_M queries and BLOCK_N keys. Strides are of heads and
    # rows: along D they are 1. Add parameters as you need them.
    pass


def grouped_query_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate out, choose a grid, launch
