"""14.1  KV cache append

Write the keys and values of new tokens into a cache of pages, each in the slot that it was given.

    key_cache[slots[n] // page, slots[n] % page] = key[n], and value_cache alike with value[n]
    PyTorch: key_cache.view(-1, Hkv * D).index_copy_(0, slots, key.view(-1, Hkv * D))
    source: Kwon et al., "PagedAttention" (2023); vLLM and FlashInfer call this layout NHD

Given     key, value (N, Hkv, D): each contiguous, or a slice of one projection (N, heads, D);
          key_cache, value_cache (P, page, Hkv, D): each contiguous, or halves of one tensor
          (P, 2, page, Hkv, D); all four float16, bfloat16 or float32, of one dtype;
          slots (N,): int64, no slot >= 0 twice; dropped (1,): int32
Return    None: the caches and dropped are changed in place. A slot < 0 is padding, and its token is
          left out. A slot >= P * page is past the cache: nothing is stored, and dropped[0] grows by
          1 for each such token, whatever it held before
New here  a scatter whose addresses come from memory; a fault that is counted and not raised
Traffic   key and value loaded once; the new rows of the caches stored once, nothing loaded from
          them; dropped touched only where a token is dropped; no other memory; coalesced, 1 launch
Speed     at least 4x the speed of PyTorch at N 65536, Hkv 8, D 128, bfloat16, page 16, 1 % padding

Run       pytest puzzles/14_inference/test_kv_cache_append.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides of all tensors, (P, Hkv, page, D).transpose(1, 2) too, which is called HND;
          pages more than 2**31 elements apart
Sizes     no tokens; more than 65535
Slots     int32 too; any value, 2**40 say
Waiting   the launcher reads nothing back: a server that waits for every append leaves its GPU idle
          in between, and CUDA graphs cannot capture it
Raise     ValueError that names key (not 3-D, another dtype), value (not as key), key_cache (not
          4-D, other heads, D or dtype than key), value_cache (not as key_cache), slots (not (N,)
          or no int32 or int64) or dropped (not (1,), not int32)
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/14_inference/production/test_kv_cache_append.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def kv_cache_append_kernel(
    key_ptr, value_ptr, key_cache_ptr, value_cache_ptr, slots_ptr, dropped_ptr,
    page, capacity, HEADS,
    stride_kn, stride_vn,
    stride_kcp, stride_kcs,
    stride_vcp, stride_vcs,
    D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program moves the heads of one token, or of a few
    # capacity is P * page, and HEADS is Hkv. stride_kn and stride_vn lead to the next token,
    # stride_kcp to the next page of key_cache, stride_kcs to the next slot in it. BLOCK is how many
    # of the HEADS * D numbers it takes at a time. Add parameters as you need them.
    pass


def kv_cache_append(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slots: torch.Tensor,
    dropped: torch.Tensor,
) -> None:
    raise NotImplementedError  # TODO: choose a grid, launch
