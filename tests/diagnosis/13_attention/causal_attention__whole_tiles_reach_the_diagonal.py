# fault: the loop over whole tiles, without a mask, takes the first tile on the diagonal too
# cause: whole tiles, let it end a tile earlier

import torch
import triton
import triton.language as tl


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
    tile = tl.num_programs(0) - 1 - tl.program_id(0)  # the longest first
    b, h = tl.program_id(1) // H, tl.program_id(1) % H
    q_ptr += b * stride_qb + h * stride_qh
    k_ptr += b * stride_kb + h // GROUP * stride_kh
    v_ptr += b * stride_vb + h // GROUP * stride_vh

    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    inside = rows[:, None] < S
    q = tl.load(q_ptr + rows[:, None] * stride_qs + dims[None, :], mask=inside, other=0.0)
    scale_log2 = scale * 1.4426950408889634

    m = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    # Whole tiles before the diagonal need no mask.
    for start in range(0, tile * BLOCK_M + BLOCK_N, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + keys[:, None] * stride_ks + dims[None, :])
        v = tl.load(v_ptr + keys[:, None] * stride_vs + dims[None, :])
        scores = tl.dot(q, tl.trans(k)) * scale_log2
        m_new = tl.maximum(m, tl.max(scores, 1))
        p = tl.exp2(scores - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m = m_new

    for start in range(tile * BLOCK_M, tl.minimum((tile + 1) * BLOCK_M, S), BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        here = keys[:, None] < S
        k = tl.load(k_ptr + keys[:, None] * stride_ks + dims[None, :], mask=here, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * stride_vs + dims[None, :], mask=here, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale_log2
        scores = tl.where(keys[None, :] <= rows[:, None], scores, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, 1))
        p = tl.exp2(scores - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m = m_new

    out_ptrs = out_ptr + (tl.program_id(1) * S + rows)[:, None] * D + dims[None, :]
    tl.store(out_ptrs, acc / total[:, None], mask=inside)


def causal_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> torch.Tensor:
    B, H, S, D = q.shape
    if scale is None:
        scale = D**-0.5
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    BLOCK_M, BLOCK_N = 128, 64
    causal_attention_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        q, k, v, out, H, H // k.shape[1], S,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], scale,
        D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=8, num_stages=3,
    )  # fmt: skip
    return out
