# fault: the reversed number of a tile counts from the number of tiles
# cause: in its place the result is right|what turns a program's number into a tile

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def walk(
    acc, total, m, q, k_ptr, v_ptr, start, end,
    offs_m, S, stride_ks, stride_vs, factor,
    MASK: tl.constexpr, D: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    for first in range(start, end, BLOCK_N):
        keys = first + offs_n
        k = tl.load(
            k_ptr + keys[None, :] * stride_ks + offs_d[:, None],
            mask=(keys < S)[None, :],
            other=0.0,
        )
        s = tl.dot(q, k) * factor
        if MASK:
            s = tl.where(keys[None, :] <= offs_m[:, None], s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, axis=1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        total = total * alpha + tl.sum(p, axis=1)
        v = tl.load(
            v_ptr + keys[:, None] * stride_vs + offs_d[None, :],
            mask=(keys < S)[:, None],
            other=0.0,
        )
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = m_new
    return acc, total, m


@triton.jit
def causal_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    H, GROUP, S,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_ks,
    stride_vb, stride_vh, stride_vs,
    scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    bh = tl.program_id(0)
    tile = tl.num_programs(1) - tl.program_id(1)  # the longest first
    b = bh // H
    h = bh % H
    first_m = tile * BLOCK_M
    offs_m = first_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    mask_m = offs_m < S

    q_ptr += b * stride_qb + h * stride_qh
    k_ptr += b * stride_kb + (h // GROUP) * stride_kh
    v_ptr += b * stride_vb + (h // GROUP) * stride_vh
    out_ptr += bh.to(tl.int64) * S * D

    q = tl.load(
        q_ptr + offs_m[:, None] * stride_qs + offs_d[None, :], mask=mask_m[:, None], other=0.0
    )
    factor = scale * 1.4426950408889634
    m = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)

    acc, total, m = walk(
        acc, total, m, q, k_ptr, v_ptr, 0, first_m,
        offs_m, S, stride_ks, stride_vs, factor,
        MASK=False, D=D, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    acc, total, m = walk(
        acc, total, m, q, k_ptr, v_ptr, first_m, tl.minimum(first_m + BLOCK_M, S),
        offs_m, S, stride_ks, stride_vs, factor,
        MASK=True, D=D, BLOCK_N=BLOCK_N,
    )  # fmt: skip

    out = acc / total[:, None]
    tl.store(
        out_ptr + offs_m[:, None] * D + offs_d[None, :],
        out.to(out_ptr.dtype.element_ty),
        mask=mask_m[:, None],
    )


def causal_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> torch.Tensor:
    B, H, S, D = q.shape
    Hkv = k.shape[1]
    if scale is None:
        scale = D**-0.5
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    BLOCK_M, BLOCK_N = 64, 32
    grid = (B * H, triton.cdiv(S, BLOCK_M))
    causal_attention_kernel[grid](
        q, k, v, out,
        H, H // Hkv, S,
        q.stride(0), q.stride(1), q.stride(2),
        k.stride(0), k.stride(1), k.stride(2),
        v.stride(0), v.stride(1), v.stride(2),
        scale,
        D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4,
    )  # fmt: skip
    return out
