# fault: lse is in base 2 for one kernel, and natural for the other
# cause: lse is in base 2, but the backward pass takes exp

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    H, GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(S, BLOCK_M)
    pid, head = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    offs_m = pid * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    rows = offs_m < S
    q_offs = (head * S + offs_m)[:, None] * D + offs_d[None, :]
    q = tl.load(q_ptr + q_offs, mask=rows[:, None], other=0.0)
    base = head // GROUP * T * D
    qk_scale = scale * 1.4426950408889634
    m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    end = T
    if CAUSAL:
        end = tl.minimum(T, (pid + 1) * BLOCK_M)
    for start in range(0, end, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        keys = offs_n < T
        kv_offs = base + offs_n[:, None] * D + offs_d[None, :]
        k = tl.load(k_ptr + kv_offs, mask=keys[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * qk_scale
        seen = keys[None, :]
        if CAUSAL:
            seen = seen & (offs_n[None, :] <= offs_m[:, None])
        s = tl.where(seen, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, axis=1))
        alpha = tl.exp2(m - m_new)
        p = tl.exp2(s - m_new[:, None])
        total = total * alpha + tl.sum(p, axis=1)
        v = tl.load(v_ptr + kv_offs, mask=keys[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = m_new
    tl.store(out_ptr + q_offs, acc / total[:, None], mask=rows[:, None])
    # In base 2, as exp2 of the backward pass takes it.
    tl.store(lse_ptr + head * S + offs_m, m + tl.log2(total), mask=rows)


@triton.jit
def attention_delta_kernel(
    out_ptr, dout_ptr, delta_ptr,
    ROWS,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    mask = rows < ROWS
    offs = rows[:, None] * D + tl.arange(0, D)[None, :]
    out = tl.load(out_ptr + offs, mask=mask[:, None], other=0.0).to(tl.float32)
    dout = tl.load(dout_ptr + offs, mask=mask[:, None], other=0.0).to(tl.float32)
    tl.store(delta_ptr + rows, tl.sum(out * dout, axis=1), mask=mask)


@triton.jit
def attention_dq_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dq_ptr,
    H, GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(S, BLOCK_M)
    pid, head = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    offs_m = pid * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    rows = offs_m < S
    q_offs = (head * S + offs_m)[:, None] * D + offs_d[None, :]
    q = tl.load(q_ptr + q_offs, mask=rows[:, None], other=0.0)
    dout = tl.load(dout_ptr + q_offs, mask=rows[:, None], other=0.0)
    lse = tl.load(lse_ptr + head * S + offs_m, mask=rows, other=0.0)
    delta = tl.load(delta_ptr + head * S + offs_m, mask=rows, other=0.0)
    base = head // GROUP * T * D
    qk_scale = scale * 1.4426950408889634
    dq = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    end = T
    if CAUSAL:
        end = tl.minimum(T, (pid + 1) * BLOCK_M)
    for start in range(0, end, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        keys = offs_n < T
        kv_offs = base + offs_n[:, None] * D + offs_d[None, :]
        k = tl.load(k_ptr + kv_offs, mask=keys[:, None], other=0.0)
        v = tl.load(v_ptr + kv_offs, mask=keys[:, None], other=0.0)
        p = tl.exp2(tl.dot(q, tl.trans(k)) * qk_scale - lse[:, None])
        seen = keys[None, :]
        if CAUSAL:
            seen = seen & (offs_n[None, :] <= offs_m[:, None])
        p = tl.where(seen, p, 0.0)
        dp = tl.dot(dout, tl.trans(v))
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + q_offs, dq * scale, mask=rows[:, None])


@triton.jit
def attention_dkdv_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    H, GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(T, BLOCK_N)
    pid, kv_head = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    offs_n = pid * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    keys = offs_n < T
    kv_offs = (kv_head * T + offs_n)[:, None] * D + offs_d[None, :]
    k = tl.load(k_ptr + kv_offs, mask=keys[:, None], other=0.0)
    v = tl.load(v_ptr + kv_offs, mask=keys[:, None], other=0.0)
    dk = tl.zeros((BLOCK_N, D), dtype=tl.float32)
    dv = tl.zeros((BLOCK_N, D), dtype=tl.float32)
    first = 0
    if CAUSAL:
        first = pid * BLOCK_N // BLOCK_M * BLOCK_M
    for head in range(kv_head * GROUP, (kv_head + 1) * GROUP):
        for start in range(first, S, BLOCK_M):
            offs_m = start + tl.arange(0, BLOCK_M)
            rows = offs_m < S
            q_offs = (head * S + offs_m)[:, None] * D + offs_d[None, :]
            q = tl.load(q_ptr + q_offs, mask=rows[:, None], other=0.0)
            dout = tl.load(dout_ptr + q_offs, mask=rows[:, None], other=0.0)
            lse = tl.load(lse_ptr + head * S + offs_m, mask=rows, other=0.0) * 1.4426950408889634
            delta = tl.load(delta_ptr + head * S + offs_m, mask=rows, other=0.0)
            p = tl.exp2(tl.dot(q, tl.trans(k)) * (scale * 1.4426950408889634) - lse[:, None])
            seen = rows[:, None] & keys[None, :]
            if CAUSAL:
                seen = seen & (offs_n[None, :] <= offs_m[:, None])
            p = tl.where(seen, p, 0.0)
            dv = tl.dot(tl.trans(p.to(dout.dtype)), dout, dv)
            ds = p * (tl.dot(dout, tl.trans(v)) - delta[:, None])
            dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk)
    tl.store(dk_ptr + kv_offs, dk * scale, mask=keys[:, None])
    tl.store(dv_ptr + kv_offs, dv, mask=keys[:, None])


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, causal):
        (B, H, S, D), (Hkv, T) = q.shape, k.shape[1:3]
        out = torch.empty_like(q)
        lse = torch.empty(B, H, S, dtype=torch.float32, device=q.device)
        attention_kernel[(triton.cdiv(S, 64) * B * H,)](
            q, k, v, out, lse, H, H // Hkv, S, T, scale,
            D=D, CAUSAL=causal, BLOCK_M=64, BLOCK_N=64,
        )  # fmt: skip
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.scale, ctx.causal = scale, causal
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, out, lse = ctx.saved_tensors
        (B, H, S, D), (Hkv, T) = q.shape, k.shape[1:3]
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        delta = torch.empty_like(lse)
        attention_delta_kernel[(triton.cdiv(B * H * S, 64),)](
            out, dout, delta, B * H * S, D=D, BLOCK_M=64
        )
        attention_dq_kernel[(triton.cdiv(S, 64) * B * H,)](
            q, k, v, dout, lse, delta, dq, H, H // Hkv, S, T, ctx.scale,
            D=D, CAUSAL=ctx.causal, BLOCK_M=64, BLOCK_N=64,
        )  # fmt: skip
        attention_dkdv_kernel[(triton.cdiv(T, 64) * B * Hkv,)](
            q, k, v, dout, lse, delta, dk, dv, H, H // Hkv, S, T, ctx.scale,
            D=D, CAUSAL=ctx.causal, BLOCK_M=32, BLOCK_N=64,
        )  # fmt: skip
        return dq, dk, dv, None, None


def differentiable_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    return Attention.apply(q, k, v, q.shape[3] ** -0.5 if scale is None else scale, causal)
