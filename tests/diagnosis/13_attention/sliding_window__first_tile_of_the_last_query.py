# fault: the loop begins at the first key of the tile's last query
# cause: the loop begins where the last query of a tile needs it
from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def sliding_window_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    H, GROUP, S,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_ks,
    stride_vb, stride_vh, stride_vs,
    window, scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_M
    bh = tl.program_id(1)
    b, h = (bh // H).to(tl.int64), bh % H
    g = h // GROUP
    rows = first + tl.arange(0, BLOCK_M)
    ds = tl.arange(0, D)
    q = tl.load(
        q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qs + ds[None, :],
        mask=(rows < S)[:, None], other=0.0,
    )  # fmt: skip
    qk_scale = scale * 1.4426950408889634
    m = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    low = tl.maximum(first + BLOCK_M - window, 0) // BLOCK_N * BLOCK_N
    high = tl.minimum(first + BLOCK_M, S)
    for start in range(low, high, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k = tl.load(
            k_ptr + b * stride_kb + g * stride_kh + cols[None, :] * stride_ks + ds[:, None],
            mask=(cols < S)[None, :], other=0.0,
        )  # fmt: skip
        v = tl.load(
            v_ptr + b * stride_vb + g * stride_vh + cols[:, None] * stride_vs + ds[None, :],
            mask=(cols < S)[:, None], other=0.0,
        )  # fmt: skip
        seen = (cols[None, :] <= rows[:, None]) & (cols[None, :] > rows[:, None] - window)
        s = tl.where(seen, tl.dot(q, k) * qk_scale, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        # a row that has not seen a key so far
        safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.exp2(s - safe[:, None])
        alpha = tl.exp2(m - safe)
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = m_new
    out = out_ptr + (bh.to(tl.int64) * S + rows[:, None]) * D + ds[None, :]
    tl.store(out, acc / total[:, None], mask=(rows < S)[:, None])


def sliding_window_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int, scale: float | None = None
) -> torch.Tensor:
    B, H, S, D = q.shape
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    scale = D**-0.5 if scale is None else scale
    window = min(window, S)
    BLOCK_M, BLOCK_N = 64, 64
    sliding_window_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        q, k, v, out, H, H // k.shape[1], S,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], window, scale,
        D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    return out
