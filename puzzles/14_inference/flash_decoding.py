"""14.2  Flash decoding

Attention of one query a sequence, with the keys split among programs, and the parts merged.

    out[b, h] = sum_j softmax_j(q[b, h] . k[b, g, j] * scale) v[b, g, j],  g = h // (H // Hkv)
    PyTorch: k, v = x.repeat_interleave(H // Hkv, dim=1), softmax(q[:, :, None] @ k.mT * scale) @ v
    Split s gives m_s, the largest score x among its keys, l_s = sum exp(x - m_s), and
    a_s = sum exp(x - m_s) v. With m the largest m_s:
    out = sum_s exp(m_s - m) a_s / sum_s exp(m_s - m) l_s
    source: Dao et al., "Flash-Decoding for long-context inference" (2023)

Given     q (B, H, D); k and v (B, Hkv, T, D), T >= 1, Hkv divides H, D is 16, 32, 64 or 128:
          float16 or bfloat16, all of one dtype, contiguous, or k and v with heads inside rows:
          x.transpose(1, 2) of x (B, T, Hkv, D); scale: a float > 0; None is D ** -0.5
Return    out (B, H, D): dtype of q, contiguous, sums in float32
New here  programs that share one row of scores; a second kernel, or a last program, that merges
Traffic   k and v loaded once, not once for each head of q; out stored once; coalesced; parts at
          most 10 % of that; at T 4096 at least 16 programs a head of keys; at most 2 launches
Speed     at least 6x the speed of PyTorch at B 1, H 32, Hkv 8, T 65536, D 128, float16

Run       pytest puzzles/14_inference/test_flash_decoding.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; unaligned views; offsets beyond 2**31 elements along every
          dimension
Sizes     groups of any size; more than 65535 heads
Values    scale 0, negative or large. Two runs give the same bits: parts are merged in the order of
          their keys, not in the order in which programs end
Raise     ValueError that names q (not 3-D, another D, another dtype), k (another rank, B, D or
          dtype, or heads that do not divide those of q) or v (not as k).
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/14_inference/production/test_flash_decoding.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def split_kernel(
    q_ptr, k_ptr, v_ptr, parts_ptr, lse_ptr,
    H, GROUP, T,
    stride_kb, stride_kh, stride_kt,
    stride_vb, stride_vh, stride_vt,
    log2_scale,
    D: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes a stretch of the keys of one head, and the queries that it serves
    # GROUP is H // Hkv; BLOCK_H is triton.next_power_of_2(GROUP), at least 16 for tl.dot;
    # log2_scale is scale * log2(e), for exp2. Add what a stretch is, such as the number of splits
    # and their length.
    pass


@triton.jit
def merge_kernel(
    parts_ptr, lse_ptr, out_ptr,
    splits,
    D: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    # TODO: one program merges the parts of one head of q
    # BLOCK_S parts at a time. Add parameters as you need them.
    pass


def flash_decoding(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate out and the parts, choose the splits, launch both
