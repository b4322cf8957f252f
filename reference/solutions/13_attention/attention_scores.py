"""13.1  Attention scores: one good answer.

Scores are computed twice, once for the maximum and the sum of each row and once for the
probabilities, instead of being stored in between. log2(e) is part of the scale, which turns exp
into exp2, what the hardware has. Neighbouring programs share a head, whose keys stay in the L2
cache.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl


@triton.jit
def attention_scores_kernel(
    q_ptr, k_ptr, p_ptr,
    H, GROUP, S, T,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_kt, stride_kd,
    scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # Neighbouring programs share a head, so that its keys stay in the L2 cache.
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
    step = tl.cast(stride_kt, tl.int64) * BLOCK_N
    q = tl.load(q_ptrs, mask=mask_m[:, None], other=0.0)

    m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    first_ptrs = k_ptrs
    for start in range(0, T, BLOCK_N):
        keep = offs_n < T - start
        k = tl.load(k_ptrs, mask=keep[None, :], other=0.0)
        scores = tl.where(keep[None, :], tl.dot(q, k) * scale, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        total = total * tl.exp2(m - m_new) + tl.sum(tl.exp2(scores - m_new[:, None]), axis=1)
        m = m_new
        k_ptrs += step

    share = 1.0 / total
    k_ptrs = first_ptrs
    p_ptrs = p_ptr + (head * S + offs_m[:, None]) * T + offs_n[None, :]
    for start in range(0, T, BLOCK_N):
        keep = offs_n < T - start
        k = tl.load(k_ptrs, mask=keep[None, :], other=0.0)
        p = tl.exp2(tl.dot(q, k) * scale - m[:, None]) * share[:, None]
        tl.store(p_ptrs, p, mask=mask_m[:, None] & keep[None, :])
        k_ptrs += step
        p_ptrs += BLOCK_N


def attention_scores(q: torch.Tensor, k: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    if q.dim() != 4 or q.shape[3] not in (16, 32, 64, 128):
        raise ValueError(f"q must be (B, H, S, D) with D 16, 32, 64 or 128, not {tuple(q.shape)}")
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"q must be float16 or bfloat16, not {q.dtype}")
    B, H, S, D = q.shape
    if k.dim() != 4 or k.shape[::3] != (B, D) or H % k.shape[1] or k.dtype != q.dtype:
        raise ValueError(
            f"k must be {q.dtype} ({B}, a divisor of {H}, T, {D}), not {k.dtype} {tuple(k.shape)}"
        )
    T = k.shape[2]
    scale = D**-0.5 if scale is None else scale
    p = torch.empty(B, H, S, T, dtype=q.dtype, device=q.device)
    BLOCK_M = min(64, max(16, triton.next_power_of_2(S)))
    BLOCK_N = min(128, max(16, triton.next_power_of_2(T)))
    # log2(e) turns exp into exp2, which is what the hardware has.
    attention_scores_kernel[(triton.cdiv(S, BLOCK_M) * B * H,)](
        q, k, p, H, H // k.shape[1], S, T, *q.stride(), *k.stride(), scale * math.log2(math.e),
        D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4, num_stages=2,
    )  # fmt: skip
    return p
