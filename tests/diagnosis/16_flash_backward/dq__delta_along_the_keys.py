# fault: delta is subtracted along the other axis of the tile
# cause: delta is subtracted along the keys, not the queries

from __future__ import annotations

import torch
import triton
import triton.language as tl


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
    lse = tl.load(lse_ptr + head * S + offs_m, mask=rows, other=0.0) * 1.4426950408889634
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
        ds = p * (dp - delta[None, :])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + q_offs, dq * scale, mask=rows[:, None])


def attention_dq(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dout: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    (B, H, S, D), (Hkv, T) = q.shape, k.shape[1:3]
    if scale is None:
        scale = D**-0.5
    dq = torch.empty_like(q)
    BLOCK_M, BLOCK_N = 64, 64
    attention_dq_kernel[(triton.cdiv(S, BLOCK_M) * B * H,)](
        q, k, v, dout, lse, delta, dq, H, H // Hkv, S, T, scale,
        D=D, CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4,
    )  # fmt: skip
    return dq
