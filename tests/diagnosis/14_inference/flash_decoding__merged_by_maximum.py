# fault: parts divided by their sums are merged with the weights of their maxima
# cause: maxima alone

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def split_kernel(
    q_ptr, k_ptr, v_ptr, parts_ptr, lse_ptr,
    H, GROUP, T, splits, length,
    stride_kb, stride_kh, stride_kt,
    stride_vb, stride_vh, stride_vt,
    log2_scale,
    D: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    split = pid % splits
    heads = H // GROUP
    b, g = pid // splits // heads, pid // splits % heads
    offs_h = tl.arange(0, BLOCK_H)
    offs_d = tl.arange(0, D)
    rows = b * H + g * GROUP + offs_h
    mask_h = offs_h < GROUP
    q = tl.load(q_ptr + rows[:, None] * D + offs_d[None, :], mask=mask_h[:, None], other=0.0)
    k_base = k_ptr + b * stride_kb + g * stride_kh + offs_d[:, None]
    v_base = v_ptr + b * stride_vb + g * stride_vh + offs_d[None, :]
    m = tl.full((BLOCK_H,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_H,), tl.float32)
    acc = tl.zeros((BLOCK_H, D), tl.float32)
    for start in range(split * length, tl.minimum((split + 1) * length, T), BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_base + offs_n[None, :] * stride_kt, mask=offs_n[None, :] < T, other=0.0)
        x = tl.dot(q, k) * log2_scale
        x = tl.where(offs_n[None, :] < T, x, float("-inf"))
        new = tl.maximum(m, tl.max(x, axis=1))
        alpha = tl.exp2(m - new)
        p = tl.exp2(x - new[:, None])
        total = total * alpha + tl.sum(p, axis=1)
        v = tl.load(v_base + offs_n[:, None] * stride_vt, mask=offs_n[:, None] < T, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = new
    place = rows * splits + split
    part_ptrs = parts_ptr + place[:, None] * D + offs_d[None, :]
    tl.store(part_ptrs, acc / total[:, None], mask=mask_h[:, None])
    tl.store(lse_ptr + place, m, mask=mask_h)


@triton.jit
def merge_kernel(
    parts_ptr, lse_ptr, out_ptr,
    splits,
    D: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    s = tl.arange(0, BLOCK_S)
    offs_d = tl.arange(0, D)
    lse = tl.load(lse_ptr + row * splits + s, mask=s < splits, other=float("-inf"))
    weight = tl.exp2(lse - tl.max(lse, axis=0))
    part_ptrs = parts_ptr + (row * splits + s)[:, None] * D + offs_d[None, :]
    parts = tl.load(part_ptrs, mask=(s < splits)[:, None], other=0.0)
    out = tl.sum(parts * weight[:, None], axis=0) / tl.sum(weight, axis=0)
    tl.store(out_ptr + row * D + offs_d, out)


def flash_decoding(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> torch.Tensor:
    B, H, D = q.shape
    Hkv, T = k.shape[1:3]
    GROUP = H // Hkv
    scale = D**-0.5 if scale is None else scale
    out = torch.empty((B, H, D), dtype=q.dtype, device=q.device)
    BLOCK_N = 64
    length = triton.cdiv(triton.cdiv(T, BLOCK_N), 16) * BLOCK_N
    splits = triton.cdiv(T, length)
    parts = torch.empty((B * H, splits, D), dtype=torch.float32, device=q.device)
    lse = torch.empty((B * H, splits), dtype=torch.float32, device=q.device)
    split_kernel[(B * Hkv * splits,)](
        q, k, v, parts, lse, H, GROUP, T, splits, length,
        *k.stride()[:3], *v.stride()[:3], float(scale) * 1.4426950408889634,
        D=D, BLOCK_H=max(16, triton.next_power_of_2(GROUP)), BLOCK_N=BLOCK_N,
    )  # fmt: skip
    merge_kernel[(B * H,)](parts, lse, out, splits, D=D, BLOCK_S=triton.next_power_of_2(splits))
    return out
