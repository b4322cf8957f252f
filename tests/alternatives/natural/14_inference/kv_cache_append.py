# One program a token, heads and D as the two sides of a tile, offsets as wide as the slots are.

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
    D: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0)
    slot = tl.load(slots_ptr + n)
    if slot >= capacity:
        tl.atomic_add(dropped_ptr, 1)
    elif slot >= 0:
        offs_h = tl.arange(0, BLOCK_H)[:, None]
        offs_d = tl.arange(0, BLOCK_D)[None, :]
        mask = (offs_h < HEADS) & (offs_d < D)
        inner = offs_h * D + offs_d
        key = tl.load(key_ptr + n * stride_kn + inner, mask=mask)
        key_row = slot // page * stride_kcp + slot % page * stride_kcs
        tl.store(key_cache_ptr + key_row + inner, key, mask=mask)
        value = tl.load(value_ptr + n * stride_vn + inner, mask=mask)
        value_row = slot // page * stride_vcp + slot % page * stride_vcs
        tl.store(value_cache_ptr + value_row + inner, value, mask=mask)


def kv_cache_append(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slots: torch.Tensor,
    dropped: torch.Tensor,
) -> None:
    N, heads, D = key.shape
    P, page = key_cache.shape[:2]
    kv_cache_append_kernel[(N,)](
        key, value, key_cache, value_cache, slots, dropped,
        page, P * page, heads,
        key.stride(0), value.stride(0),
        key_cache.stride(0), key_cache.stride(1),
        value_cache.stride(0), value_cache.stride(1),
        D=D, BLOCK_H=triton.next_power_of_2(heads), BLOCK_D=triton.next_power_of_2(D),
    )  # fmt: skip
