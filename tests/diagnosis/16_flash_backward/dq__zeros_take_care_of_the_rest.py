# fault: keys past T have a score of 0 and are not masked: exp(0 - lse) overflows
# cause: it is one that lse leaves out
# never: is not the largest value
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
    head = (tl.program_id(0) // tiles).to(tl.int64)  # b * H + h
    group = head // H * (H // GROUP) + head % H // GROUP  # b * Hkv + g
    first = tl.program_id(0) % tiles * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    offs = (head * S + rows[:, None]) * D + d[None, :]
    q = tl.load(q_ptr + offs, mask=rows[:, None] < S, other=0.0)
    dout = tl.load(dout_ptr + offs, mask=rows[:, None] < S, other=0.0)
    lse = tl.load(lse_ptr + head * S + rows, mask=rows < S, other=0.0) * 1.4426950408889634
    delta = tl.load(delta_ptr + head * S + rows, mask=rows < S, other=0.0)
    factor = scale * 1.4426950408889634
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    end = T
    if CAUSAL:
        end = tl.minimum(T, first + BLOCK_M)
    for start in range(0, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        kv = (group * T + keys[:, None]) * D + d[None, :]
        k = tl.load(k_ptr + kv, mask=keys[:, None] < T, other=0.0)
        v = tl.load(v_ptr + kv, mask=keys[:, None] < T, other=0.0)
        s = tl.dot(q, tl.trans(k)) * factor
        if CAUSAL:
            s = tl.where(keys[None, :] <= rows[:, None], s, float("-inf"))
        p = tl.exp2(s - lse[:, None])
        dp = tl.dot(dout, tl.trans(v))
        ds = p * (dp - delta[:, None])
        acc = tl.dot(ds.to(k.dtype), k, acc)
    tl.store(dq_ptr + offs, acc * scale, mask=rows[:, None] < S)


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
    (B, H, S, D), (_, Hkv, T, _) = q.shape, k.shape
    if scale is None:
        scale = D**-0.5
    dq = torch.empty_like(q)
    BLOCK_M, BLOCK_N = 64, 64
    attention_dq_kernel[(B * H * triton.cdiv(S, BLOCK_M),)](
        q, k, v, dout, lse, delta, dq, H, H // Hkv, S, T, float(scale),
        D=D, CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    return dq
