"""13.4  Grouped-query attention

H heads of queries share Hkv heads of keys and values, each serving H // Hkv of them, uncopied.

    out[b, h, i] = sum_j softmax_j(q[b, h, i] . k[b, g, j] * scale) v[b, g, j],  g = h // (H // Hkv)
    over all j, or, if causal, over j <= i (also where S and T differ)
    PyTorch: k and v .repeat_interleave(H // Hkv, dim=1), then softmax(q @ k.mT * scale) @ v
    source: Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models" (2023)

Given     q (B, H, S, D), k and v (B, Hkv, T, D), Hkv divides H, D is 16, 32, 64 or 128: float16 or
          bfloat16, any strides, any other sizes >= 1, S and T may differ, causal or not
          scale: any float, 0 and below too; None is D ** -0.5
Return    out (B, H, S, D): dtype of q, contiguous, sums in float32
Raise     ValueError that names q if it is not 4-D, has another D or another dtype,
          k if it does not fit q in rank, B, D, dtype or heads, and v if its shape or dtype is
          not k's
New here  one kernel for two tasks: a tl.constexpr flag decides at compilation; a diagonal that
          leaves the keys at the right side, or at the bottom
Traffic   one program for each tile of queries, at most ceil(S / 64) a head; q loaded once; a
          program loads the keys and values of its group once, and if causal at most 0.6 of them (at
          S and T 1024), and tl.dot does as little; out stored once, nothing else, one launch
Speed     at least 4x of PyTorch at B 1, H 16, Hkv 4, S and T 4096, D 128, float16

Run       pytest puzzles/13_attention/test_grouped_query.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def grouped_query_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    H, GROUP, S, T,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_kt, stride_kd,
    stride_vb, stride_vh, stride_vt, stride_vd,
    scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_M queries of one head and walks along the keys that they see
    pass


def grouped_query_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate out, choose a grid, launch
