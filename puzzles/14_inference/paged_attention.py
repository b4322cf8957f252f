"""14.3  Paged attention

Attention of one query a sequence to keys and values that lie in pages, found through a table.

    Key j of sequence b is row j % page of page block_tables[b, j // page], for j < lengths[b].
    out[b, h] = sum_j softmax_j(q[b, h] . k_j[g] * scale) v_j[g],  g = h // (H // Hkv)
    PyTorch: gather key_cache[block_tables] up to the longest sequence, mask, softmax, product
    source: Kwon et al., "PagedAttention" (2023)

Given     q (B, H, D); key_cache, value_cache (P, page, Hkv, D): float16 or bfloat16, all of one
          dtype, contiguous; Hkv divides H; D is 16, 32, 64 or 128; page is 16 or 64. Rows without
          a token may hold anything, NaN too; two sequences may share a page. block_tables (B, W),
          lengths (B,): int32, 1 <= lengths[b] <= W * page; a table's entries after the last page
          of a sequence are not page numbers. scale: a float > 0; None is D ** -0.5
Return    out (B, H, D): dtype of q, contiguous, sums in float32
New here  loads whose addresses were loaded; rows of every length in one launch
Traffic   the pages in use loaded once, not once for each head of q, and no others; out stored once;
          partial results of splits at most 10 % of that; at most 2 launches
Speed     at least 15x PyTorch at B 32, H 32, Hkv 8, D 128, page 16, lengths 1 to 4096, bfloat16

Run       pytest puzzles/14_inference/test_paged_attention.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, halves of one tensor, (P, Hkv, page, D).transpose(1, 2), which is called HND;
          caches beyond 2**31 elements
Sizes     pages of any size; groups of any size; more than 65535 heads; sequences of length 0,
          whose result is 0; int64 tables and lengths
Values    scale 0, negative or large. Two runs give the same bits
Raise     ValueError that names q (not 3-D, another D, another dtype), key_cache (another rank, D or
          dtype, or heads that do not divide those of q), value_cache (not as key_cache),
          block_tables or lengths (another rank or number of rows, not of int32 or int64).
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/14_inference/production/test_paged_attention.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def paged_attention_kernel(
    q_ptr, key_cache_ptr, value_cache_ptr, tables_ptr, lengths_ptr, parts_ptr,
    H, GROUP,
    key_strides, value_strides,
    stride_tb,
    log2_scale,
    D: tl.constexpr, PAGE: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes the keys of one sequence and head, or a stretch of them
    # GROUP, BLOCK_H and log2_scale are those of 14.2; key_strides is key_cache.stride(), a tuple;
    # stride_tb leads to the next row of block_tables. For stretches add lse_ptr, their number and
    # length, and a kernel that merges.
    pass


def paged_attention(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate out, choose a grid, launch
