# fault: keys past the end are masked in the blocks that the diagonal cuts alone
# cause: keys past the end are masked in the blocks that the diagonal cuts alone

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
    tiles = tl.cdiv(S, BLOCK_M)
    pid = tiles - 1 - tl.program_id(0) % tiles
    b, head = (tl.program_id(0) // tiles // H).to(tl.int64), tl.program_id(0) // tiles % H
    kv_head = head // GROUP
    offs_m = pid * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    rows = offs_m < S
    q_ptrs = q_ptr + b * stride_qb + head * stride_qh + offs_m[:, None] * stride_qs
    q = tl.load(q_ptrs + offs_d[None, :], mask=rows[:, None], other=0.0)
    k_base = k_ptr + b * stride_kb + kv_head * stride_kh
    v_base = v_ptr + b * stride_vb + kv_head * stride_vh
    qk_scale = scale * 1.4426950408889634
    m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    end = T
    full = T // BLOCK_N * BLOCK_N
    if CAUSAL:
        end = tl.minimum(T, (pid + 1) * BLOCK_M)
        full = pid * BLOCK_M
    for start in range(0, end, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        keys = offs_n < T
        k_ptrs = k_base + offs_n[:, None] * stride_kt
        v_ptrs = v_base + offs_n[:, None] * stride_vt
        k = tl.load(k_ptrs + offs_d[None, :], mask=keys[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * qk_scale
        if start >= full:
            seen = keys[None, :]
            if CAUSAL:
                seen = seen & (offs_n[None, :] <= offs_m[:, None])
            s = tl.where(seen, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, axis=1))
        alpha = tl.exp2(m - m_new)
        p = tl.exp2(s - m_new[:, None])
        total = total * alpha + tl.sum(p, axis=1)
        v = tl.load(v_ptrs + offs_d[None, :], mask=keys[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = m_new
    out_ptrs = out_ptr + ((b * H + head) * S + offs_m)[:, None] * D + offs_d[None, :]
    tl.store(out_ptrs, acc / total[:, None], mask=rows[:, None])


def grouped_query_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    (B, H, S, D), (Hkv, T) = q.shape, k.shape[1:3]
    out = torch.empty(B, H, S, D, dtype=q.dtype, device=q.device)
    grouped_query_kernel[(triton.cdiv(S, 64) * B * H,)](
        q, k, v, out, H, H // Hkv, S, T,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3],
        D**-0.5 if scale is None else scale, D=D, CAUSAL=causal, BLOCK_M=64, BLOCK_N=64,
    )  # fmt: skip
    return out
