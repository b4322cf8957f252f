# fault: the group of a head is h % GROUP, where h // GROUP is meant
# cause: k has size 2 in dimension 1: the index is wrong
# never: dimension 0: (the index|if all)
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
    bh = tl.program_id(1)
    b = bh // H
    h = bh % H
    g = h % GROUP
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    q = tl.load(
        q_ptr + b * stride_qb + h * stride_qh + offs_m[:, None] * stride_qs + offs_d[None, :],
        mask=offs_m[:, None] < S,
        other=0.0,
    )
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, T, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        k = tl.load(
            k_ptr + b * stride_kb + g * stride_kh + offs_n[:, None] * stride_kt + offs_d[None, :],
            mask=offs_n[:, None] < T,
            other=0.0,
        )
        v = tl.load(
            v_ptr + b * stride_vb + g * stride_vh + offs_n[:, None] * stride_vt + offs_d[None, :],
            mask=offs_n[:, None] < T,
            other=0.0,
        )
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where(offs_n[None, :] < T, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, axis=1))
        alpha = tl.exp(m - m_new)
        p = tl.exp(s - m_new[:, None])
        total = total * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m = m_new
    acc = acc / total[:, None]
    o = bh * S + offs_m
    tl.store(out_ptr + o[:, None] * D + offs_d[None, :], acc, mask=offs_m[:, None] < S)
    tl.store(lse_ptr + o, m + tl.log(total), mask=offs_m < S)


def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    B, H, S, D = q.shape
    T = k.shape[2]
    if scale is None:
        scale = D**-0.5
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, H, S), dtype=torch.float32, device=q.device)
    BM, BN = 64, 32
    grid = (triton.cdiv(S, BM), B * H)
    flash_attention_kernel[grid](
        q,
        k,
        v,
        out,
        lse,
        H,
        H // k.shape[1],
        S,
        T,
        q.stride(0),
        q.stride(1),
        q.stride(2),
        k.stride(0),
        k.stride(1),
        k.stride(2),
        v.stride(0),
        v.stride(1),
        v.stride(2),
        scale,
        D,
        BM,
        BN,
    )
    return out, lse
