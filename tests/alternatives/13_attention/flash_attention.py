"""Pointers, base e, a grid of two axes, other tiles, keys masked in every step."""

import torch
import triton
import triton.language as tl


@triton.jit
def flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    H, GROUP, S, T,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_kt, stride_kd,
    stride_vb, stride_vh, stride_vt, stride_vd,
    scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0).to(tl.int64)
    b, h = head // H, head % H
    g = h // GROUP
    rows = tl.program_id(1).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D).to(tl.int64)
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh
    q_ptrs += rows[:, None] * stride_qs + dims[None, :] * stride_qd
    q = tl.load(q_ptrs, mask=(rows < S)[:, None], other=0.0)
    k_head = k_ptr + b * stride_kb + g * stride_kh
    v_head = v_ptr + b * stride_vb + g * stride_vh
    highest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, T, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside = keys < T
        k_ptrs = k_head + keys[None, :] * stride_kt + dims[:, None] * stride_kd
        k = tl.load(k_ptrs, mask=inside[None, :], other=0.0)  # [D, BLOCK_N]
        scores = tl.where(inside[None, :], tl.dot(q, k) * scale, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        p = tl.exp(scores - higher[:, None])
        shrink = tl.exp(highest - higher)
        total = shrink * total + tl.sum(p, 1)
        v_ptrs = v_head + keys[:, None] * stride_vt + dims[None, :] * stride_vd
        v = tl.load(v_ptrs, mask=inside[:, None], other=0.0)
        acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v)
        highest = higher
    out_rows = head * S + rows
    out_ptrs = out_ptr + out_rows[:, None] * D + dims[None, :]
    tl.store(out_ptrs, acc / total[:, None], mask=(rows < S)[:, None])
    tl.store(lse_ptr + out_rows, highest + tl.log(total), mask=rows < S)


def flash_attention(q, k, v, scale=None):
    if q.dim() != 4 or q.shape[3] not in (16, 32, 64, 128):
        raise ValueError("q must be (B, H, S, D) with D 16, 32, 64 or 128")
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError("q must be float16 or bfloat16")
    B, H, S, D = q.shape
    if k.dim() != 4 or (k.shape[0], k.shape[3]) != (B, D) or H % k.shape[1] or k.dtype != q.dtype:
        raise ValueError("k must fit q")
    if v.shape != k.shape or v.dtype != k.dtype:
        raise ValueError("v must be like k")
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, H, S), dtype=torch.float32, device=q.device)
    scale = D**-0.5 if scale is None else float(scale)
    flash_attention_kernel[(B * H, triton.cdiv(S, 64))](
        q, k, v, out, lse, H, H // k.shape[1], S, k.shape[2],
        *q.stride(), *k.stride(), *v.stride(), scale, D=D, BLOCK_M=64, BLOCK_N=32,
    )  # fmt: skip
    return out, lse
