# fault: the maximum is in base 2, the logarithm of the sum natural, and both are converted
# cause: which the maximum alone needs

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
    b = (tl.program_id(1) // H).to(tl.int64)
    h = (tl.program_id(1) % H).to(tl.int64)
    g = h // GROUP
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    row_mask = rows < S
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qs + offs_d[None, :]
    q = tl.load(q_ptrs, mask=row_mask[:, None], other=0.0)
    k_ptrs = k_ptr + b * stride_kb + g * stride_kh + offs_d[:, None] + cols[None, :] * stride_kt
    v_ptrs = v_ptr + b * stride_vb + g * stride_vh + cols[:, None] * stride_vt + offs_d[None, :]

    m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    log2_scale = scale * 1.4426950408889634
    for start in range(0, T, BLOCK_N):
        inside = start + cols < T
        k = tl.load(k_ptrs, mask=inside[None, :], other=0.0)
        scores = tl.dot(q, k) * log2_scale
        scores = tl.where(inside[None, :], scores, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, 1))
        alpha = tl.exp2(m - m_new)
        p = tl.exp2(scores - m_new[:, None])
        total = total * alpha + tl.sum(p, 1)
        v = tl.load(v_ptrs, mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = m_new
        k_ptrs += BLOCK_N * stride_kt
        v_ptrs += BLOCK_N * stride_vt

    head = b * H + h
    out_ptrs = out_ptr + (head * S + rows[:, None]) * D + offs_d[None, :]
    tl.store(out_ptrs, acc / total[:, None], mask=row_mask[:, None])
    lse = (m + tl.log(total)) * 0.6931471805599453
    tl.store(lse_ptr + head * S + rows, lse, mask=row_mask)


def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    B, H, S, D = q.shape
    Hkv, T = k.shape[1:3]
    if scale is None:
        scale = D**-0.5
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, H, S), dtype=torch.float32, device=q.device)
    BLOCK_M, BLOCK_N = 64, 64
    flash_attention_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        q, k, v, out, lse,
        H, H // Hkv, S, T,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3],
        scale,
        D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4,
    )  # fmt: skip
    return out, lse
