"""13.1  Attention scores

Which share of its attention does each query give to each key? A matmul and a softmax in one kernel.

    p[b, h, i, j] = softmax over j of q[b, h, i] . k[b, g, j] * scale,  g = h // (H // Hkv)
    PyTorch: softmax(q @ k.mT * scale, dim=-1)
    source: Vaswani et al., "Attention Is All You Need" (2017)

Given     q (B, H, S, D) and k (B, Hkv, T, D), Hkv divides H, D is 16, 32, 64 or 128: float16 or
          bfloat16, any strides, any other sizes >= 1, S and T may differ
          scale: any float, 0 and below too; None is D ** -0.5
Return    p (B, H, S, T): dtype of q, contiguous, scores and sums in float32, rounded once
Raise     ValueError that names q if it is not 4-D, has another D or another dtype, and k if it does
          not fit q in rank, B, D, dtype or heads
New here  a softmax over the tiles of a product: the product is cheap enough to be made twice
Traffic   q loaded once, k at most 2 * ceil(S / 64) times, p stored once and never read, nothing
          else stored, one launch
Speed     at least 2x of PyTorch at B 1, H 16, S and T 4096, D 64, float16

Run       pytest puzzles/13_attention/test_attention_scores.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def attention_scores_kernel(
    q_ptr, k_ptr, p_ptr,
    H, GROUP, S, T,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_kt, stride_kd,
    scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_M queries of one head: first maximum and sum, then p
    pass


def attention_scores(q: torch.Tensor, k: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate p, choose a grid, launch
