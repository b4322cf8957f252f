# fault: the causal diagonal ends at the bottom right corner
# cause: last query and the last key

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def grouped_query_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    H, GROUP, S, T,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_kt,
    stride_vb, stride_vh, stride_vt,
    scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles = tl.cdiv(S, BLOCK_M)
    bh = pid // tiles
    tile = tiles - 1 - pid % tiles
    b, h = bh // H, bh % H
    g = h // GROUP
    offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + offs_m[:, None] * stride_qs + offs_d[None, :]
    q = tl.load(q_ptrs, mask=offs_m[:, None] < S, other=0.0)
    k_base = k_ptr + b * stride_kb + g * stride_kh + offs_d[:, None]
    v_base = v_ptr + b * stride_vb + g * stride_vh + offs_d[None, :]
    log2_scale = scale * 1.4426950408889634
    m = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    shift = T - S
    high = T
    if CAUSAL:
        high = tl.minimum(T, (tile + 1) * BLOCK_M + shift)
    for start in range(0, high, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_base + offs_n[None, :] * stride_kt, mask=offs_n[None, :] < T, other=0.0)
        x = tl.dot(q, k) * log2_scale
        seen = offs_n[None, :] < T
        if CAUSAL:
            seen = seen & (offs_n[None, :] <= offs_m[:, None] + shift)
        x = tl.where(seen, x, float("-inf"))
        new = tl.maximum(m, tl.max(x, axis=1))
        alpha = tl.exp2(m - new)
        p = tl.exp2(x - new[:, None])
        total = total * alpha + tl.sum(p, axis=1)
        v = tl.load(v_base + offs_n[:, None] * stride_vt, mask=offs_n[:, None] < T, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = new
    out_ptrs = out_ptr + (bh * S + offs_m)[:, None] * D + offs_d[None, :]
    tl.store(out_ptrs, acc / total[:, None], mask=offs_m[:, None] < S)


def grouped_query_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    B, H, S, D = q.shape
    Hkv, T = k.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    BLOCK_M, BLOCK_N = 64, 64
    grouped_query_kernel[(B * H * triton.cdiv(S, BLOCK_M),)](
        q, k, v, out, H, H // Hkv, S, T,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], float(scale),
        D=D, CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    return out
