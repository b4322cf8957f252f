"""13.3  Causal attention

A query sees the keys up to its own place and no others: half of the work is not done at all.

    out[b, h, i] = sum over j <= i of softmax_j(q[b, h, i] . k[b, g, j] * scale) v[b, g, j],
    g = h // (H // Hkv)        PyTorch: softmax((q @ k.mT * scale).masked_fill(j > i, -inf)) @ v

Given     q (B, H, S, D), k and v (B, Hkv, S, D), Hkv divides H, D is 16, 32, 64 or 128: float16 or
          bfloat16, any strides, any other sizes >= 1
          scale: any float, 0 and below too; None is D ** -0.5
Return    out (B, H, S, D): dtype of q, contiguous, sums in float32
Raise     ValueError that names q if it is not 4-D, has another D or another dtype,
          k if it does not fit q in rank, B, S, D, dtype or heads, and v if its shape or dtype is
          not k's
New here  three kinds of tiles: below the diagonal (no mask), on it (masked), above it (not
          loaded); programs of different length, the longest first
Traffic   one program for each tile of queries, at most ceil(S / 64) a head; q loaded once; k and v
          at most 0.6 times as often as if every program loaded all of them (at S 1024), and tl.dot
          does at most 0.6 of all products; out stored once, nothing else, one launch
Speed     at least 6x of PyTorch at B 1, H 16, S 4096, D 128, float16

Run       pytest puzzles/13_attention/test_causal_attention.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def causal_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    H, GROUP, S,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    stride_vb, stride_vh, stride_vs, stride_vd,
    scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_M queries of one head and walks along the keys that they see
    pass


def causal_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate out, choose a grid, launch
