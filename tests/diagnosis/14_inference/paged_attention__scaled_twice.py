# fault: scores of a scaled q are scaled again
# cause: applied twice, with its log2
from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def paged_attention_kernel(
    q_ptr, key_cache_ptr, value_cache_ptr, tables_ptr, lengths_ptr, out_ptr,
    H, GROUP,
    key_strides, value_strides,
    stride_tb,
    log2_scale,
    D: tl.constexpr, PAGE: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    g = tl.program_id(0)
    b = tl.program_id(1).to(tl.int64)
    length = tl.load(lengths_ptr + b)
    offs_h = tl.arange(0, BLOCK_H)
    offs_d = tl.arange(0, D)
    offs_n = tl.arange(0, PAGE)
    heads = b * H + g * GROUP + offs_h
    mask_h = offs_h[:, None] < GROUP
    q = tl.load(q_ptr + heads[:, None] * D + offs_d[None, :], mask=mask_h, other=0.0)
    q = q.to(tl.float32) * log2_scale
    m = tl.full((BLOCK_H,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_H,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_H, D), dtype=tl.float32)
    for i in range(tl.cdiv(length, PAGE)):
        page = tl.load(tables_ptr + b * stride_tb + i).to(tl.int64)
        in_length = i * PAGE + offs_n < length
        k = tl.load(
            key_cache_ptr + page * key_strides[0] + g * key_strides[2]
            + offs_n[:, None] * key_strides[1] + offs_d[None, :],
            mask=in_length[:, None], other=0.0,
        ).to(tl.float32)  # fmt: skip
        s = tl.dot(q, tl.trans(k)) * log2_scale
        s = tl.where(in_length[None, :], s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, axis=1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        v = tl.load(
            value_cache_ptr + page * value_strides[0] + g * value_strides[2]
            + offs_n[:, None] * value_strides[1] + offs_d[None, :],
            mask=in_length[:, None], other=0.0,
        ).to(tl.float32)  # fmt: skip
        total = total * alpha + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * alpha[:, None])
        m = m_new
    out = acc / total[:, None]
    tl.store(out_ptr + heads[:, None] * D + offs_d[None, :], out, mask=mask_h)


def paged_attention(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    B, H, D = q.shape
    page, Hkv = key_cache.shape[1:3]
    if scale is None:
        scale = D**-0.5
    out = torch.empty_like(q)
    GROUP = H // Hkv
    paged_attention_kernel[(Hkv, B)](
        q, key_cache, value_cache, block_tables, lengths, out, H, GROUP,
        key_cache.stride(), value_cache.stride(), block_tables.stride(0),
        scale * 1.4426950408889634,
        D=D, PAGE=page, BLOCK_H=max(16, triton.next_power_of_2(GROUP)),
    )  # fmt: skip
    return out
