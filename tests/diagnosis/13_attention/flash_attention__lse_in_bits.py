# fault: the maximum in lse stays in base 2
# cause: the largest score is added to the logarithm in base 2
# never: lse is left in base 2

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
    LOG2E: tl.constexpr = 1.4426950408889634
    tiles = tl.cdiv(S, BLOCK_M)
    bh = tl.program_id(0) // tiles
    b, h = bh // H, bh % H
    g = h // GROUP
    offs_m = tl.program_id(0) % tiles * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + offs_m[:, None] * stride_qs + offs_d[None, :]
    k_base = k_ptr + b * stride_kb + g * stride_kh
    v_base = v_ptr + b * stride_vb + g * stride_vh
    q = tl.load(q_ptrs, mask=offs_m[:, None] < S, other=0.0)

    qk_scale = scale * LOG2E
    m = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, T, BLOCK_N):
        cols = start + offs_n
        k = tl.load(
            k_base + cols[None, :] * stride_kt + offs_d[:, None], mask=cols[None, :] < T, other=0.0
        )
        s = tl.dot(q, k) * qk_scale
        s = tl.where(cols[None, :] < T, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp2(m - m_new)
        p = tl.exp2(s - m_new[:, None])
        total = total * alpha + tl.sum(p, 1)
        v = tl.load(
            v_base + cols[:, None] * stride_vt + offs_d[None, :], mask=cols[:, None] < T, other=0.0
        )
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = m_new

    rows = bh * S + offs_m
    out = acc / total[:, None]
    tl.store(out_ptr + rows[:, None] * D + offs_d[None, :], out, mask=offs_m[:, None] < S)
    tl.store(lse_ptr + rows, m + tl.log(total), mask=offs_m < S)


def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    B, H, S, D = q.shape
    Hkv, T = k.shape[1], k.shape[2]
    if scale is None:
        scale = D**-0.5
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, H, S), dtype=torch.float32, device=q.device)
    BLOCK_M, BLOCK_N = 64, 64
    flash_attention_kernel[(triton.cdiv(S, BLOCK_M) * B * H,)](
        q, k, v, out, lse, H, H // Hkv, S, T,
        q.stride(0), q.stride(1), q.stride(2),
        k.stride(0), k.stride(1), k.stride(2),
        v.stride(0), v.stride(1), v.stride(2),
        scale, D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4, num_stages=2,
    )  # fmt: skip
    return out, lse
