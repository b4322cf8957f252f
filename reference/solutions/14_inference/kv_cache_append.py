"""14.1  KV cache append: one good answer.

Where heads lie one after the other in all four tensors, a token is one row, which the compiler then
knows to be contiguous. Short tokens share a program, which copies 2048 elements. Tokens without
room are masked off, and counted by one atomic for each program that met any.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

TILE = 2048


@triton.jit
def elements(strides, offs_h, offs_d):
    """Offsets of elements (h, d) of one token: [1, BLOCK]."""
    return offs_h.to(tl.int64) * strides[0] + offs_d.to(tl.int64) * strides[1]


@triton.jit
def kv_cache_append_kernel(
    key_ptr, value_ptr, key_cache_ptr, value_cache_ptr, slots_ptr, dropped_ptr,
    N, page, capacity, HEADS,
    stride_s, stride_kn, stride_vn,
    stride_kcp, stride_kcs,
    stride_vcp, stride_vcs,
    key_inner, value_inner, key_cache_inner, value_cache_inner,
    D: tl.constexpr, TOKENS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(HEADS * D, BLOCK)
    block = tl.program_id(0) % blocks
    tokens = (tl.program_id(0) // blocks).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    # Tokens past the end count as padding.
    slots = tl.load(slots_ptr + tokens * stride_s, mask=tokens < N, other=-1).to(tl.int64)
    if block == 0:
        late = tl.sum((slots >= capacity).to(tl.int32), axis=0)
        tl.atomic_add(dropped_ptr, late, mask=late > 0, sem="relaxed")

    offs = (block * BLOCK + tl.arange(0, BLOCK))[None, :]
    offs_h, offs_d = offs // D, offs % D
    keep = (slots >= 0) & (slots < capacity)
    mask = keep[:, None] & (offs < HEADS * D)  # [TOKENS, BLOCK]
    rows, pages, places = tokens[:, None], (slots // page)[:, None], (slots % page)[:, None]
    key_ptrs = key_ptr + rows * stride_kn + elements(key_inner, offs_h, offs_d)
    value_ptrs = value_ptr + rows * stride_vn + elements(value_inner, offs_h, offs_d)
    key = tl.load(key_ptrs, mask=mask)
    value = tl.load(value_ptrs, mask=mask)
    key_cache_ptrs = key_cache_ptr + pages * stride_kcp + places * stride_kcs
    value_cache_ptrs = value_cache_ptr + pages * stride_vcp + places * stride_vcs
    tl.store(key_cache_ptrs + elements(key_cache_inner, offs_h, offs_d), key, mask=mask)
    tl.store(value_cache_ptrs + elements(value_cache_inner, offs_h, offs_d), value, mask=mask)


def kv_cache_append(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slots: torch.Tensor,
    dropped: torch.Tensor,
) -> None:
    if key.dim() != 3 or key.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            "key must be (N, Hkv, D) of float16, bfloat16 or float32, "
            f"not {key.dtype} {tuple(key.shape)}"
        )
    N, Hkv, D = key.shape
    if value.shape != key.shape or value.dtype != key.dtype:
        raise ValueError(f"value must be as key, not {value.dtype} {tuple(value.shape)}")
    if key_cache.dim() != 4 or key_cache.shape[2:] != (Hkv, D) or key_cache.dtype != key.dtype:
        raise ValueError(
            f"key_cache must be {key.dtype} (P, page, {Hkv}, {D}), "
            f"not {key_cache.dtype} {tuple(key_cache.shape)}"
        )
    if value_cache.shape != key_cache.shape or value_cache.dtype != key_cache.dtype:
        raise ValueError(
            f"value_cache must be as key_cache, not {value_cache.dtype} {tuple(value_cache.shape)}"
        )
    if slots.shape != (N,) or slots.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"slots must be ({N},) of int32 or int64, not {slots.dtype} {tuple(slots.shape)}"
        )
    if dropped.shape != (1,) or dropped.dtype != torch.int32:
        raise ValueError(
            f"dropped must be (1,) of int32, not {dropped.dtype} {tuple(dropped.shape)}"
        )
    P, page = key_cache.shape[:2]
    inner = [x.stride()[-2:] for x in (key, value, key_cache, value_cache)]
    heads = Hkv
    if all(of_heads == D * of_d for of_heads, of_d in inner):
        heads, D = 1, Hkv * D  # one row, which the compiler then knows to be contiguous
    BLOCK = min(triton.next_power_of_2(max(heads * D, 1)), TILE // 2)
    TOKENS = TILE // BLOCK
    kv_cache_append_kernel[(triton.cdiv(N, TOKENS) * triton.cdiv(heads * D, BLOCK),)](
        key, value, key_cache, value_cache, slots, dropped,
        N, page, P * page, heads,
        slots.stride(0), key.stride(0), value.stride(0),
        *key_cache.stride()[:2], *value_cache.stride()[:2], *inner,
        D=D, TOKENS=TOKENS, BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
