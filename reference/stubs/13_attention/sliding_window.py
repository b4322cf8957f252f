"""13.5  Sliding window attention

A query sees the last few keys up to its own place: the work grows with S, not with its square.

    out[b, h, i] = sum_j softmax_j(q[b, h, i] . k[b, g, j] * scale) v[b, g, j],  g = h // (H // Hkv)
    over i - window < j <= i        source: Jiang et al., "Mistral 7B" (2023)
    PyTorch: softmax((q @ k.mT * scale).masked_fill((j > i) | (j <= i - window), -inf)) @ v

Given     q (B, H, S, D), k and v (B, Hkv, S, D): float16 or bfloat16, all of one dtype; Hkv
          divides H, D is 16, 32, 64 or 128, any S; contiguous, or with heads inside rows:
          x.transpose(1, 2) of x (B, S, H, D). window: an int >= 1, which may be larger than S;
          scale: a float > 0; None is D ** -0.5
Return    out (B, H, S, D): dtype of q, contiguous, sums in float32
New here  two edges: tiles that the diagonal cuts and tiles that the end of the window cuts; tiles
          in which a row sees no key at all
Traffic   q loaded once, k and v at most ceil(S / 64) times for each head of q, and at S 1024 and
          window 128 at most a quarter of that; tl.dot does at most a quarter of all products there;
          out stored once (and lse, if you like), nothing else, coalesced, one launch
Speed     at least 14x the speed of PyTorch at B 1, H 16, S 4096, D 128, window 512, float16

Run       pytest puzzles/13_attention/test_sliding_window.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; unaligned views; offsets and results beyond 2**31 elements
Sizes     more than 65535 heads
Values    a window of 2**31 and more; scale 0 or negative; scores of any finite size
Raise     ValueError that names q if it is not 4-D, has another D or another dtype, k if it does not
          fit q in rank, B, S, D, dtype or heads, and v if its shape or dtype is not that of k.
          ValueError that names window if it is below 1
Traffic   one program for each tile of queries, at most ceil(S / 64) a head; at S 1024 a program
          loads at most a quarter of k and v on average at window 128, and 0.6 at window 1024
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/13_attention/production/test_sliding_window.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def sliding_window_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    H, GROUP, S,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_ks,
    stride_vb, stride_vh, stride_vs,
    window, scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_M queries of one head and walks along the keys that they see
    # GROUP is H // Hkv, and a tile has BLOCK_M queries and BLOCK_N keys. Strides are of heads and
    # rows: along D they are 1. Add parameters as you need them.
    pass


def sliding_window_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int, scale: float | None = None
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate out, choose a grid, launch
