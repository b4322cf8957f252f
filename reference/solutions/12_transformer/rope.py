"""12.1  Rotary position embedding: one good answer.

A program takes 8 positions and turns all heads of q and k at them, so that cos and sin are loaded
once for all heads. It has 2048 pairs at a time, 32 for each thread, so that enough loads are under
way. The backward pass is the same kernel with the sign of sin turned.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def turn_heads(
    x_ptr, out_ptr, cos, sin,
    b, offs_s, H, S, D, half,
    stride_b, stride_h, stride_s, stride_d,
    BLOCK_H: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_REST: tl.constexpr,
):  # fmt: skip
    """Turn all heads of one tensor. cos, sin: [1, BLOCK_S, BLOCK_I]; offs_s: [1, BLOCK_S, 1]."""
    offs_i = tl.arange(0, BLOCK_I).to(tl.int64)[None, None, :]
    for start in range(0, H, BLOCK_H):
        head = (start + tl.arange(0, BLOCK_H)).to(tl.int64)[:, None, None]
        inside = (head < H) & (offs_s < S)
        mask = inside & (offs_i < half)
        rows = x_ptr + b * stride_b + head * stride_h + offs_s * stride_s
        out_rows = out_ptr + ((b * H + head) * S + offs_s) * D
        first = tl.load(rows + offs_i * stride_d, mask=mask, other=0.0).to(tl.float32)
        second = tl.load(rows + (offs_i + half) * stride_d, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_rows + offs_i, first * cos - second * sin, mask=mask)
        tl.store(out_rows + offs_i + half, second * cos + first * sin, mask=mask)
        if BLOCK_REST > 1:
            for begin in range(2 * half, D, BLOCK_REST):
                offs_rest = begin + tl.arange(0, BLOCK_REST).to(tl.int64)[None, None, :]
                mask_rest = inside & (offs_rest < D)
                rest = tl.load(rows + offs_rest * stride_d, mask=mask_rest, other=0.0)
                tl.store(out_rows + offs_rest, rest, mask=mask_rest)


@triton.jit
def rope_kernel(
    q_ptr, k_ptr, cos_ptr, sin_ptr, q_out_ptr, k_out_ptr,
    H, Hkv, S, D, half,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    stride_cs, stride_cd, stride_ss, stride_sd,
    INVERSE: tl.constexpr,
    BLOCK_S: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_REST: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(S, BLOCK_S)
    b, tile = (tl.program_id(0) // tiles).to(tl.int64), tl.program_id(0) % tiles
    offs_s = (tile.to(tl.int64) * BLOCK_S + tl.arange(0, BLOCK_S))[None, :, None]
    offs_i = tl.arange(0, BLOCK_I).to(tl.int64)[None, None, :]
    mask = (offs_s < S) & (offs_i < half)
    cos_ptrs = cos_ptr + offs_s * stride_cs + offs_i * stride_cd
    sin_ptrs = sin_ptr + offs_s * stride_ss + offs_i * stride_sd
    cos = tl.load(cos_ptrs, mask=mask, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptrs, mask=mask, other=0.0).to(tl.float32)
    if INVERSE:
        sin = -sin
    turn_heads(
        q_ptr, q_out_ptr, cos, sin, b, offs_s, H, S, D, half,
        stride_qb, stride_qh, stride_qs, stride_qd, BLOCK_H, BLOCK_I, BLOCK_REST,
    )  # fmt: skip
    turn_heads(
        k_ptr, k_out_ptr, cos, sin, b, offs_s, Hkv, S, D, half,
        stride_kb, stride_kh, stride_ks, stride_kd, BLOCK_H, BLOCK_I, BLOCK_REST,
    )  # fmt: skip


def check(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    """Raises ValueError that names the first argument that does not fit."""
    dtypes = torch.float16, torch.bfloat16, torch.float32
    if q.dim() != 4 or q.dtype not in dtypes or q.shape[3] % 2:
        raise ValueError(
            "q must be (B, H, S, D) with an even D, float16, bfloat16 or float32, "
            f"not {q.dtype} {tuple(q.shape)}"
        )
    B, _, S, D = q.shape
    if k.dim() != 4 or (k.shape[0], *k.shape[2:]) != (B, S, D) or k.dtype != q.dtype:
        raise ValueError(
            f"k must be {q.dtype} ({B}, Hkv, {S}, {D}), not {k.dtype} {tuple(k.shape)}"
        )
    fits = cos.dim() == 2 and cos.shape[0] >= S and 1 <= cos.shape[1] <= D // 2
    if not fits or cos.dtype not in (q.dtype, torch.float32):
        raise ValueError(
            f"cos must be float32 or {q.dtype} with at least {S} rows and 1 to {D // 2} columns, "
            f"not {cos.dtype} {tuple(cos.shape)}"
        )
    if sin.shape != cos.shape or sin.dtype != cos.dtype:
        raise ValueError(
            f"sin must be {cos.dtype} {tuple(cos.shape)}, not {sin.dtype} {tuple(sin.shape)}"
        )


def rope(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    inverse: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    check(q, k, cos, sin)
    (B, H, S, D), Hkv, half = q.shape, k.shape[1], cos.shape[1]
    q_out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    k_out = torch.empty((B, Hkv, S, D), dtype=k.dtype, device=k.device)
    BLOCK_I, BLOCK_S = triton.next_power_of_2(half), 8
    # 2048 pairs at a time, 32 for each thread: enough loads are under way.
    BLOCK_H = max(1, min(2048 // (BLOCK_S * BLOCK_I), triton.next_power_of_2(H)))
    rope_kernel[(triton.cdiv(S, BLOCK_S) * B,)](
        q, k, cos, sin, q_out, k_out,
        H, Hkv, S, D, half,
        *q.stride(), *k.stride(), *cos.stride(), *sin.stride(),
        INVERSE=inverse, BLOCK_S=BLOCK_S, BLOCK_H=BLOCK_H, BLOCK_I=BLOCK_I,
        BLOCK_REST=min(triton.next_power_of_2(D - 2 * half + 1), 128), num_warps=2,
    )  # fmt: skip
    return q_out, k_out
