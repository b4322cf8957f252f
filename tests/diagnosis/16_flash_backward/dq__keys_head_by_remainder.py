# fault: head h takes the keys of head h % Hkv instead of h // GROUP
# cause: the wrong head of keys and values: h modulo their number instead of h divided by the group

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def walk(
    dq, q, dout, lse, delta, k_ptr, v_ptr, start, end,
    offs_m, T, factor,
    MASK: tl.constexpr, CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    for first in range(start, end, BLOCK_N):
        keys = first + offs_n
        at = keys[:, None] * D + offs_d[None, :]
        k = tl.load(k_ptr + at, mask=(keys < T)[:, None], other=0.0)
        v = tl.load(v_ptr + at, mask=(keys < T)[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * factor
        if MASK:
            seen = (keys < T)[None, :]
            if CAUSAL:
                seen = seen & (keys[None, :] <= offs_m[:, None])
            s = tl.where(seen, s, -float("inf"))
        p = tl.exp2(s - lse[:, None])
        dp = tl.dot(dout, tl.trans(v))
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    return dq


@triton.jit
def attention_dq_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dq_ptr,
    H, GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(S, BLOCK_M)
    bh = (tl.program_id(0) // tiles_m).to(tl.int64)
    tile = tiles_m - 1 - tl.program_id(0) % tiles_m
    heads = H // GROUP
    kv = bh // H * heads + bh % H % heads
    first_m = tile * BLOCK_M
    offs_m = first_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    mask_m = offs_m < S

    k_ptr += kv * T * D
    v_ptr += kv * T * D
    at = bh * S * D + offs_m[:, None] * D + offs_d[None, :]
    q = tl.load(q_ptr + at, mask=mask_m[:, None], other=0.0)
    dout = tl.load(dout_ptr + at, mask=mask_m[:, None], other=0.0)
    lse = tl.load(lse_ptr + bh * S + offs_m, mask=mask_m, other=0.0) * 1.4426950408889634
    delta = tl.load(delta_ptr + bh * S + offs_m, mask=mask_m, other=0.0)
    factor = scale * 1.4426950408889634

    # Whole tiles that all queries see, and then those on the diagonal or at the end.
    if CAUSAL:
        whole = tl.minimum(first_m, T) // BLOCK_N * BLOCK_N
        end = tl.minimum(first_m + BLOCK_M, T)
    else:
        whole = T // BLOCK_N * BLOCK_N
        end = T
    dq = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    dq = walk(
        dq, q, dout, lse, delta, k_ptr, v_ptr, 0, whole,
        offs_m, T, factor,
        MASK=False, CAUSAL=CAUSAL, D=D, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    dq = walk(
        dq, q, dout, lse, delta, k_ptr, v_ptr, whole, end,
        offs_m, T, factor,
        MASK=True, CAUSAL=CAUSAL, D=D, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    tl.store(dq_ptr + at, (dq * scale).to(dq_ptr.dtype.element_ty), mask=mask_m[:, None])


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
    if scale is None:
        scale = D**-0.5
    dq = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    BLOCK_M, BLOCK_N = 64, 64
    grid = (B * H * triton.cdiv(S, BLOCK_M),)
    attention_dq_kernel[grid](
        q, k, v, dout, lse, delta, dq,
        H, H // Hkv, S, T, scale,
        D=D, CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4,
    )  # fmt: skip
    return dq
