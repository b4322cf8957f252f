"""13.3  Causal attention

A query sees the keys up to its own place and no others: half of the work is not done at all.

    out[b, h, i] = sum over j <= i of softmax_j(q[b, h, i] . k[b, g, j] * scale) v[b, g, j],
    g = h // (H // Hkv)        PyTorch: softmax((q @ k.mT * scale).masked_fill(j > i, -inf)) @ v

Given     q (B, H, S, D), k and v (B, Hkv, S, D): float16 or bfloat16, all of one dtype; Hkv
          divides H, D is 16, 32, 64 or 128, any S; contiguous, or with heads inside rows:
          x.transpose(1, 2) of x (B, S, H, D). scale: a float > 0; None is D ** -0.5
Return    out (B, H, S, D): dtype of q, contiguous, sums in float32
New here  three kinds of tiles: below the diagonal (no mask), on it (masked), above it (not
          loaded); programs of different length, the longest first
Traffic   q loaded once, k and v at most ceil(S / 64) times for each head of q, and at S 1024 at
          most 0.6 times that; tl.dot does at most 0.6 of all products there; out stored once (and
          lse, if you like), nothing else, coalesced, one launch
Speed     at least 4x the speed of PyTorch at B 1, H 16, S 4096, D 128, float16

Run       pytest puzzles/13_attention/test_causal_attention.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; unaligned views; offsets and results beyond 2**31 elements
Sizes     more than 65535 heads
Values    scale 0 or negative; scores of any finite size
Raise     ValueError that names q if it is not 4-D, has another D or another dtype, k if it does not
          fit q in rank, B, S, D, dtype or heads, and v if its shape or dtype is not that of k.
Traffic   one program for each tile of queries, at most ceil(S / 64) a head; at S 1024 a program
          loads at most 0.6 of k and v on average, however large its tile
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/13_attention/production/test_causal_attention.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def causal_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    H, GROUP, S,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_ks,
    stride_vb, stride_vh, stride_vs,
    scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_M queries of one head and walks along the keys that they see
    # GROUP is H // Hkv, and a tile has BLOCK_M queries and BLOCK_N keys. Strides are of heads and
    # rows: along D they are 1. Add parameters as you need them.
    pass


def causal_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate out, choose a grid, launch
