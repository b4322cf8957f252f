# fault: tokens are stored only where slot > 0, and slot 0 is left out
# cause: nothing new is stored to these elements
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
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + token)
    if slot >= capacity:
        tl.atomic_add(dropped_ptr, 1)
    elif slot > 0:
        key_row = key_cache_ptr + slot // page * stride_kcp + slot % page * stride_kcs
        value_row = value_cache_ptr + slot // page * stride_vcp + slot % page * stride_vcs
        for start in range(0, HEADS * D, BLOCK):
            offs = start + tl.arange(0, BLOCK)
            mask = offs < HEADS * D
            key = tl.load(key_ptr + token * stride_kn + offs, mask=mask)
            value = tl.load(value_ptr + token * stride_vn + offs, mask=mask)
            tl.store(key_row + offs, key, mask=mask)
            tl.store(value_row + offs, value, mask=mask)


def kv_cache_append(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slots: torch.Tensor,
    dropped: torch.Tensor,
) -> None:
    N, Hkv, D = key.shape
    P, page = key_cache.shape[:2]
    BLOCK = min(triton.next_power_of_2(Hkv * D), 1024)
    kv_cache_append_kernel[(N,)](
        key, value, key_cache, value_cache, slots, dropped,
        page, P * page, Hkv,
        key.stride(0), value.stride(0),
        key_cache.stride(0), key_cache.stride(1),
        value_cache.stride(0), value_cache.stride(1),
        D=D, BLOCK=BLOCK,
    )  # fmt: skip
