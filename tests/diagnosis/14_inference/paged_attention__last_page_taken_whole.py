# fault: keys count up to the end of the last page, not up to the length
# cause: j < end: with j < length in its place
# never: 0 \* NaN

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
    heads = H // GROUP
    b = tl.program_id(0) // heads
    g = tl.program_id(0) % heads
    offs_r = tl.arange(0, BLOCK_H)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    mask_r = offs_r < GROUP
    row = b * H + g * GROUP + offs_r

    length = tl.load(lengths_ptr + b)
    pages = tl.cdiv(length, PAGE)
    end = pages * PAGE

    q = tl.load(q_ptr + row[:, None] * D + offs_d[None, :], mask=mask_r[:, None], other=0.0)
    m = tl.full((BLOCK_H,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_H,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_H, D), dtype=tl.float32)
    for start in range(0, end, BLOCK_N):
        j = start + offs_n
        mask_n = j < end
        number = tl.load(tables_ptr + b * stride_tb + j // PAGE, mask=mask_n, other=0)
        number = number.to(tl.int64)
        key_rows = number * key_strides[0] + j % PAGE * key_strides[1] + g * key_strides[2]
        value_rows = number * value_strides[0] + j % PAGE * value_strides[1] + g * value_strides[2]
        k = tl.load(
            key_cache_ptr + key_rows[None, :] + offs_d[:, None], mask=mask_n[None, :], other=0.0
        )
        s = tl.dot(q, k) * log2_scale
        s = tl.where(mask_n[None, :], s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, axis=1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        total = total * alpha + tl.sum(p, axis=1)
        v = tl.load(
            value_cache_ptr + value_rows[:, None] + offs_d[None, :],
            mask=mask_n[:, None],
            other=0.0,
        )
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = m_new

    out = acc / total[:, None]
    tl.store(
        parts_ptr + row[:, None] * D + offs_d[None, :],
        out.to(parts_ptr.dtype.element_ty),
        mask=mask_r[:, None],
    )


def paged_attention(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    B, H, D = q.shape
    page, Hkv = key_cache.shape[1], key_cache.shape[2]
    if scale is None:
        scale = D**-0.5
    GROUP = H // Hkv
    out = torch.empty((B, H, D), dtype=q.dtype, device=q.device)
    paged_attention_kernel[(B * Hkv,)](
        q, key_cache, value_cache, block_tables, lengths, out,
        H, GROUP,
        key_cache.stride(), value_cache.stride(),
        block_tables.stride(0),
        scale * 1.4426950408889634,
        D=D, PAGE=page,
        BLOCK_H=max(16, triton.next_power_of_2(GROUP)), BLOCK_N=64, num_warps=4,
    )  # fmt: skip
    return out
