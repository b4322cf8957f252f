"""13.2  FlashAttention

The whole of attention in one kernel: a tile of scores lives in registers and is never stored.

    out[b, h, i] = sum_j softmax_j(q[b, h, i] . k[b, g, j] * scale) v[b, g, j],  g = h // (H // Hkv)
    lse[b, h, i] = log(sum_j exp(q[b, h, i] . k[b, g, j] * scale))
    PyTorch: softmax(q @ k.mT * scale) @ v,  logsumexp(q @ k.mT * scale)
    source: Dao, "FlashAttention-2" (2023); "Fused Attention" in Triton's own tutorials

Given     q (B, H, S, D), k and v (B, Hkv, T, D): float16 or bfloat16, all of one dtype; Hkv
          divides H, D is 16, 32, 64 or 128, any S and T; contiguous, or with heads inside rows:
          x.transpose(1, 2) of x (B, S, H, D). scale: a float > 0; None is D ** -0.5
Return    (out, lse), contiguous: out (B, H, S, D), dtype of q; lse (B, H, S), float32, natural log.
          Sums in float32; a tile of probabilities may be rounded to v's dtype for its product
New here  the online softmax over tiles: when a larger maximum comes, all sums are rescaled
Traffic   q loaded once, k and v at most ceil(S / 64) times for each head of q, two products a
          tile, out and lse stored once, nothing else, coalesced, one launch
Speed     at least 5x the speed of PyTorch at B 1, H 16, S and T 4096, D 128, float16

Run       pytest puzzles/13_attention/test_flash_attention.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; unaligned views; offsets and results beyond 2**31 elements
Sizes     more than 65535 heads
Values    scale 0 or negative; scores of any finite size; q is not rounded again
Raise     ValueError that names q if it is not 4-D, has another D or another dtype, k if it does not
          fit q in rank, B, D, dtype or heads, and v if its shape or dtype is not that of k.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/13_attention/production/test_flash_attention.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    H, GROUP, S, T,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_kt,
    stride_vb, stride_vh, stride_vt,
    scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_M queries of one head and walks along its keys
    # GROUP is H // Hkv, and a tile has BLOCK_M queries and BLOCK_N keys. Strides are of heads and
    # rows: along D they are 1. Add parameters as you need them.
    pass


def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: allocate out and lse, choose a grid, launch
