# fault: the loop without a mask takes whole tiles of 128 keys, past the first of 64 queries
# cause: ends past a tile.s first query: keys there count twice
# never: tiles on the diagonal are not masked

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def add_keys(
    q, m, total, acc,
    k_ptr, v_ptr, start, offs_m, S,
    stride_ks, stride_vs, scale,
    D: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Adds the keys from start on to the sums of a tile of queries."""
    offs_n = start + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    in_n = offs_n < S
    k_ptrs = k_ptr + offs_d[:, None] + offs_n[None, :] * stride_ks
    v_ptrs = v_ptr + offs_n[:, None] * stride_vs + offs_d[None, :]
    k = tl.load(k_ptrs, mask=in_n[None, :], other=0.0)
    v = tl.load(v_ptrs, mask=in_n[:, None], other=0.0)
    scores = tl.dot(q, k) * scale
    if MASKED:
        seen = offs_n[None, :] <= offs_m[:, None]
        scores = tl.where(seen, scores, float("-inf"))
    m_new = tl.maximum(m, tl.max(scores, axis=1))
    terms = tl.exp2(scores - m_new[:, None])
    factor = tl.exp2(m - m_new)
    total = total * factor + tl.sum(terms, axis=1)
    acc = tl.dot(terms.to(v.dtype), v, acc * factor[:, None])
    return m_new, total, acc


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
    head = tl.program_id(1)
    b = head // H
    h = head % H
    q_ptr += b * stride_qb + h * stride_qh
    k_ptr += b * stride_kb + h // GROUP * stride_kh
    v_ptr += b * stride_vb + h // GROUP * stride_vh

    # the last queries see the most keys: they begin first
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M
    offs_m = first + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    in_m = offs_m < S
    q_ptrs = q_ptr + offs_m[:, None] * stride_qs + offs_d[None, :]
    q = tl.load(q_ptrs, mask=in_m[:, None], other=0.0)

    # exp(x) is exp2(x * log2(e))
    scale = scale * 1.4426950408889634
    m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)

    # below the diagonal every query sees every key
    for start in range(0, first, BLOCK_N):
        m, total, acc = add_keys(
            q, m, total, acc, k_ptr, v_ptr, start, offs_m, S,
            stride_ks, stride_vs, scale, D, BLOCK_N, False,
        )  # fmt: skip
    # on it they need the mask; a query before S sees no key past S
    for start in range(first, tl.minimum(first + BLOCK_M, S), BLOCK_N):
        m, total, acc = add_keys(
            q, m, total, acc, k_ptr, v_ptr, start, offs_m, S,
            stride_ks, stride_vs, scale, D, BLOCK_N, True,
        )  # fmt: skip

    out_ptrs = out_ptr + head * S * D + offs_m[:, None] * D + offs_d[None, :]
    tl.store(out_ptrs, acc / total[:, None], mask=in_m[:, None])


def causal_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> torch.Tensor:
    B, H, S, D = q.shape
    Hkv = k.shape[1]
    if scale is None:
        scale = D**-0.5
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    # short heads leave room for more keys
    BLOCK_M = 64
    BLOCK_N = 128 if D <= 32 else 64
    causal_attention_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        q, k, v, out,
        H, H // Hkv, S,
        q.stride(0), q.stride(1), q.stride(2),
        k.stride(0), k.stride(1), k.stride(2),
        v.stride(0), v.stride(1), v.stride(2),
        scale,
        D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    return out
