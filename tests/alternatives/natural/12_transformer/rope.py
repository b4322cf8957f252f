# One program a token, as in Liger: its heads are a tile of two dimensions, padded to powers of two.

import torch
import triton
import triton.language as tl


@triton.jit
def rope_kernel(
    q_ptr, k_ptr, cos_ptr, sin_ptr, q_out_ptr, k_out_ptr,
    H, Hkv, S, D,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    INVERSE: tl.constexpr,
    PADDED_H: tl.constexpr, PADDED_HKV: tl.constexpr, PADDED_HALF: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    b = pid // S
    s = pid % S
    half = D // 2
    cols = tl.arange(0, PADDED_HALF)
    cos = tl.load(cos_ptr + s * half + cols, mask=cols < half).to(tl.float32)
    sin = tl.load(sin_ptr + s * half + cols, mask=cols < half).to(tl.float32)
    if INVERSE:
        sin = -sin

    heads = tl.arange(0, PADDED_H)
    mask = (heads[:, None] < H) & (cols[None, :] < half)
    q_ptrs = q_ptr + b * stride_qb + s * stride_qs + heads[:, None] * stride_qh
    left = tl.load(q_ptrs + cols[None, :] * stride_qd, mask=mask).to(tl.float32)
    right = tl.load(q_ptrs + (cols[None, :] + half) * stride_qd, mask=mask).to(tl.float32)
    out_ptrs = q_out_ptr + b * H * S * D + heads[:, None] * S * D + s * D + cols[None, :]
    tl.store(out_ptrs, left * cos - right * sin, mask=mask)
    tl.store(out_ptrs + half, right * cos + left * sin, mask=mask)

    kv_heads = tl.arange(0, PADDED_HKV)
    mask = (kv_heads[:, None] < Hkv) & (cols[None, :] < half)
    k_ptrs = k_ptr + b * stride_kb + s * stride_ks + kv_heads[:, None] * stride_kh
    left = tl.load(k_ptrs + cols[None, :] * stride_kd, mask=mask).to(tl.float32)
    right = tl.load(k_ptrs + (cols[None, :] + half) * stride_kd, mask=mask).to(tl.float32)
    out_ptrs = k_out_ptr + b * Hkv * S * D + kv_heads[:, None] * S * D + s * D + cols[None, :]
    tl.store(out_ptrs, left * cos - right * sin, mask=mask)
    tl.store(out_ptrs + half, right * cos + left * sin, mask=mask)


def rope(q, k, cos, sin, inverse=False):
    B, H, S, D = q.shape
    Hkv = k.shape[1]
    q_out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    k_out = torch.empty((B, Hkv, S, D), dtype=q.dtype, device=q.device)
    rope_kernel[(B * S,)](
        q, k, cos, sin, q_out, k_out, H, Hkv, S, D, *q.stride(), *k.stride(),
        INVERSE=inverse,
        PADDED_H=triton.next_power_of_2(H),
        PADDED_HKV=triton.next_power_of_2(Hkv),
        PADDED_HALF=triton.next_power_of_2(D // 2),
    )  # fmt: skip
    return q_out, k_out
