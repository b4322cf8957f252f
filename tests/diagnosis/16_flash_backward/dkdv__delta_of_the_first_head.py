# fault: all heads of a group use the delta of the first
# cause: neighbours along dimension 1 of delta get what belongs to the first
# never: leaves out dimension

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def attention_dkdv_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    H, GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    LOG2E: tl.constexpr = 1.4426950408889634
    tiles = tl.cdiv(T, BLOCK_N)
    bg, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    Hkv = H // GROUP
    offs_n = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    keys = bg * T + offs_n
    valid = (offs_n < T)[:, None]
    k = tl.load(k_ptr + keys[:, None] * D + offs_d[None, :], mask=valid, other=0.0)
    v = tl.load(v_ptr + keys[:, None] * D + offs_d[None, :], mask=valid, other=0.0)
    first_head = bg // Hkv * H + bg % Hkv * GROUP
    q_base = q_ptr + first_head * S * D
    dout_base = dout_ptr + first_head * S * D
    lse_base = lse_ptr + first_head * S
    delta_base = delta_ptr + first_head * S
    begin = 0
    if CAUSAL:
        begin = tile * BLOCK_N // BLOCK_M * BLOCK_M
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    for _ in range(GROUP):
        for start in range(begin, S, BLOCK_M):
            offs_m = start + tl.arange(0, BLOCK_M)
            inside = (offs_m < S)[:, None]
            q = tl.load(q_base + offs_m[:, None] * D + offs_d[None, :], mask=inside, other=0.0)
            dout = tl.load(
                dout_base + offs_m[:, None] * D + offs_d[None, :], mask=inside, other=0.0
            )
            lse = tl.load(lse_base + offs_m, mask=offs_m < S, other=0.0) * LOG2E
            delta = tl.load(delta_base + offs_m, mask=offs_m < S, other=0.0)
            # Keys are the rows of these tiles.
            s = tl.dot(k, tl.trans(q)) * (scale * LOG2E)
            p = tl.exp2(s - lse[None, :])
            seen = (offs_m < S)[None, :]
            if CAUSAL:
                seen = seen & (offs_n[:, None] <= offs_m[None, :])
            p = tl.where(seen, p, 0.0)
            dv = tl.dot(p.to(dout.dtype), dout, dv)
            dp = tl.dot(v, tl.trans(dout))
            ds = p * (dp - delta[None, :])
            dk = tl.dot(ds.to(q.dtype), q, dk)
        q_base += S * D
        dout_base += S * D
        lse_base += S
    tl.store(dk_ptr + keys[:, None] * D + offs_d[None, :], dk * scale, mask=valid)
    tl.store(dv_ptr + keys[:, None] * D + offs_d[None, :], dv, mask=valid)


def attention_dkdv(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dout: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    B, H, S, D = q.shape
    Hkv, T = k.shape[1], k.shape[2]
    if scale is None:
        scale = D**-0.5
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    BLOCK_M, BLOCK_N = 32, 64
    attention_dkdv_kernel[(triton.cdiv(T, BLOCK_N) * B * Hkv,)](
        q, k, v, dout, lse, delta, dk, dv, H, H // Hkv, S, T, scale,
        D=D, CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4, num_stages=2,
    )  # fmt: skip
    return dk, dv
