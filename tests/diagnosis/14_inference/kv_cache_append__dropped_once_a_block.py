# fault: a dropped token counts once for each block of its row
# cause: tl.program_id\(1\) == 0.* in its place

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
    n = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    slot = tl.load(slots_ptr + n)
    past = slot >= capacity
    stored = (slot >= 0) & (slot < capacity)
    tl.atomic_add(dropped_ptr, 1, mask=past, sem="relaxed")

    offs = part * BLOCK + tl.arange(0, BLOCK)
    mask = (offs < HEADS * D) & stored
    key = tl.load(key_ptr + n * stride_kn + offs, mask=mask)
    value = tl.load(value_ptr + n * stride_vn + offs, mask=mask)
    key_row = slot // page * stride_kcp + slot % page * stride_kcs
    value_row = slot // page * stride_vcp + slot % page * stride_vcs
    tl.store(key_cache_ptr + key_row + offs, key, mask=mask)
    tl.store(value_cache_ptr + value_row + offs, value, mask=mask)


def kv_cache_append(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slots: torch.Tensor,
    dropped: torch.Tensor,
) -> None:
    N, Hkv, D = key.shape
    P, page = key_cache.shape[0], key_cache.shape[1]
    BLOCK = min(512, triton.next_power_of_2(Hkv * D))
    grid = (N, triton.cdiv(Hkv * D, BLOCK))
    kv_cache_append_kernel[grid](
        key, value, key_cache, value_cache, slots, dropped,
        page, P * page, Hkv,
        key.stride(0), value.stride(0),
        key_cache.stride(0), key_cache.stride(1),
        value_cache.stride(0), value_cache.stride(1),
        D=D, BLOCK=BLOCK, num_warps=2,
    )  # fmt: skip
