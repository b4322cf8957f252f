# fault: ds is p * dp - delta instead of p * (dp - delta)
# cause: delta is subtracted after p multiplies
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
    first_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1).to(tl.int64)
    kv_head = head // H * (H // GROUP) + head % H // GROUP
    offs_m = first_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    q_offs = (head * S + offs_m[:, None]) * D + offs_d[None, :]
    in_s = offs_m < S
    q = tl.load(q_ptr + q_offs, mask=in_s[:, None], other=0.0)
    dout = tl.load(dout_ptr + q_offs, mask=in_s[:, None], other=0.0)
    lse = tl.load(lse_ptr + head * S + offs_m, mask=in_s, other=0.0)
    delta = tl.load(delta_ptr + head * S + offs_m, mask=in_s, other=0.0)
    end = T
    if CAUSAL:
        end = tl.minimum(first_m + BLOCK_M, T)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    for start in range(0, end, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        in_t = offs_n < T
        kv_offs = (kv_head * T + offs_n[:, None]) * D + offs_d[None, :]
        k = tl.load(k_ptr + kv_offs, mask=in_t[:, None], other=0.0)
        v = tl.load(v_ptr + kv_offs, mask=in_t[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        p = tl.exp(s - lse[:, None])
        seen = in_t[None, :] & in_s[:, None]
        if CAUSAL:
            seen = seen & (offs_n[None, :] <= offs_m[:, None])
        p = tl.where(seen, p, 0.0)
        dp = tl.dot(dout, tl.trans(v))
        ds = p * dp - delta[:, None]
        acc = tl.dot(ds.to(k.dtype), k, acc)
    tl.store(dq_ptr + q_offs, (acc * scale).to(dq_ptr.dtype.element_ty), mask=in_s[:, None])


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
    B, H, S, D = q.shape
    Hkv, T = k.shape[1], k.shape[2]
    scale = D**-0.5 if scale is None else scale
    dq = torch.empty_like(q)
    BLOCK_M, BLOCK_N = 64, 32
    attention_dq_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        q, k, v, dout, lse, delta, dq, H, H // Hkv, S, T, scale,
        D=D, CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    return dq
