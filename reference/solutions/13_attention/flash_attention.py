"""13.2  FlashAttention: one good answer."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl


@triton.jit
def attend(
    acc, m, total, q, k_ptrs, v_ptrs,
    first, last,
    step_k, step_v,
    scale,
    MASKED: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Take in the keys from first to last. Only the last tile is MASKED: it may overrun."""
    offs_n = tl.arange(0, BLOCK_N)
    for start in range(first, last, BLOCK_N):
        keep = offs_n < last - start
        k = tl.load(k_ptrs, mask=keep[None, :], other=0.0) if MASKED else tl.load(k_ptrs)
        scores = tl.dot(q, k)  # [BLOCK_M, BLOCK_N]
        if MASKED:
            scores = tl.where(keep[None, :], scores, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1) * scale)
        p = tl.exp2(scores * scale - m_new[:, None])
        correction = tl.exp2(m - m_new)
        m = m_new
        total = total * correction + tl.sum(p, axis=1)
        v = tl.load(v_ptrs, mask=keep[:, None], other=0.0) if MASKED else tl.load(v_ptrs)
        acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None])
        k_ptrs += step_k
        v_ptrs += step_v
    return acc, m, total


@triton.jit
def flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    H, GROUP, S, T,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_kt, stride_kd,
    stride_vb, stride_vh, stride_vt, stride_vd,
    sign, scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # Neighbouring programs share a head, so that its keys and values stay in the L2 cache.
    tiles = tl.cdiv(S, BLOCK_M)
    tile, head = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    b, h = head // H, head % H
    offs_m = tile.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N).to(tl.int64)
    offs_d = tl.arange(0, D).to(tl.int64)
    mask_m = offs_m < S
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh
    q_ptrs += offs_m[:, None] * stride_qs + offs_d[None, :] * stride_qd
    k_ptrs = k_ptr + b * stride_kb + h // GROUP * stride_kh
    k_ptrs += offs_n[None, :] * stride_kt + offs_d[:, None] * stride_kd
    v_ptrs = v_ptr + b * stride_vb + h // GROUP * stride_vh
    v_ptrs += offs_n[:, None] * stride_vt + offs_d[None, :] * stride_vd
    step_k = tl.cast(stride_kt, tl.int64) * BLOCK_N
    step_v = tl.cast(stride_vt, tl.int64) * BLOCK_N

    q = tl.load(q_ptrs, mask=mask_m[:, None], other=0.0)
    q = (q * sign).to(q_ptr.dtype.element_ty)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    whole = T // BLOCK_N * BLOCK_N
    acc, m, total = attend(
        acc, m, total, q, k_ptrs, v_ptrs, 0, whole, step_k, step_v, scale, False, BLOCK_N
    )
    k_ptrs += tl.cast(stride_kt, tl.int64) * whole
    v_ptrs += tl.cast(stride_vt, tl.int64) * whole
    acc, m, total = attend(
        acc, m, total, q, k_ptrs, v_ptrs, whole, T, step_k, step_v, scale, True, BLOCK_N
    )

    rows = head * S + offs_m
    out_ptrs = out_ptr + rows[:, None] * D + offs_d[None, :]
    tl.store(out_ptrs, acc / total[:, None], mask=mask_m[:, None])
    lse = (m + tl.log2(total)) * 0.6931471805599453  # from base 2 to e: log(2)
    tl.store(lse_ptr + rows, lse, mask=mask_m)


def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    if q.dim() != 4 or q.shape[3] not in (16, 32, 64, 128):
        raise ValueError(f"q must be (B, H, S, D) with D 16, 32, 64 or 128, not {tuple(q.shape)}")
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"q must be float16 or bfloat16, not {q.dtype}")
    B, H, S, D = q.shape
    if k.dim() != 4 or k.shape[::3] != (B, D) or H % k.shape[1] or k.dtype != q.dtype:
        raise ValueError(
            f"k must be {q.dtype} ({B}, a divisor of {H}, T, {D}), not {k.dtype} {tuple(k.shape)}"
        )
    if v.shape != k.shape or v.dtype != k.dtype:
        raise ValueError(f"v must be {k.dtype} {tuple(k.shape)}, not {v.dtype} {tuple(v.shape)}")
    T = k.shape[2]
    scale = D**-0.5 if scale is None else scale
    # The kernel wants a positive scale, as then the largest product is the largest score. The sign
    # goes into q, where it is exact, and 0 too. log2(e) turns exp into exp2.
    sign = (scale > 0) - (scale < 0)
    log2_scale = abs(scale) * math.log2(math.e) if sign else 1.0

    out = torch.empty(B, H, S, D, dtype=q.dtype, device=q.device)
    lse = torch.empty(B, H, S, dtype=torch.float32, device=q.device)
    BLOCK_M = min(128, max(16, triton.next_power_of_2(S)))
    BLOCK_N = min(64, max(16, triton.next_power_of_2(T)))
    # Two stages of D 128 leave room for two programs on a multiprocessor.
    flash_attention_kernel[(triton.cdiv(S, BLOCK_M) * B * H,)](
        q, k, v, out, lse, H, H // k.shape[1], S, T, *q.stride(), *k.stride(), *v.stride(),
        float(sign), log2_scale,
        D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4, num_stages=2 if D == 128 else 3,
    )  # fmt: skip
    return out, lse
