"""14.2  Flash decoding: one good answer.

The keys are cut into so many splits that there are some four programs for each multiprocessor, of
which three run at once, or one where there are many keys. The query heads that share a head of keys
are the rows of one tile, so that keys are loaded once for all of them. The second kernel merges up
to 64 parts at a time.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl


@triton.jit
def attend(
    acc, m, total, q, k_ptr, v_ptr, stride_kt, stride_kd, stride_vt, stride_vd,
    start, last, log2_scale,
    MASKED: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Take in the tile of keys that begins at start. MASKED: it ends at last."""
    offs_n = start + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D).to(tl.int64)
    k_ptrs = k_ptr + offs_n.to(tl.int64)[:, None] * stride_kt + offs_d[None, :] * stride_kd
    v_ptrs = v_ptr + offs_n.to(tl.int64)[:, None] * stride_vt + offs_d[None, :] * stride_vd
    if MASKED:
        k = tl.load(k_ptrs, mask=(offs_n < last)[:, None], other=0.0)
        v = tl.load(v_ptrs, mask=(offs_n < last)[:, None], other=0.0)
    else:
        k, v = tl.load(k_ptrs), tl.load(v_ptrs)
    scores = tl.dot(q, k.T) * log2_scale  # [BLOCK_H, BLOCK_N]
    if MASKED:
        scores = tl.where((offs_n < last)[None, :], scores, float("-inf"))
    m_new = tl.maximum(m, tl.max(scores, axis=1))
    p = tl.exp2(scores - m_new[:, None])
    correction = tl.exp2(m - m_new)
    acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None])
    return acc, m_new, total * correction + tl.sum(p, axis=1)


@triton.jit
def split_kernel(
    q_ptr, k_ptr, v_ptr, parts_ptr, lse_ptr,
    H, GROUP, T, splits, length,
    stride_qb, stride_qh, stride_qd,
    stride_kb, stride_kh, stride_kt, stride_kd,
    stride_vb, stride_vh, stride_vt, stride_vd,
    log2_scale,
    D: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    split = tl.program_id(0) % splits
    head = (tl.program_id(0) // splits).to(tl.int64)
    b, g = head // (H // GROUP), head % (H // GROUP)
    offs_h = tl.arange(0, BLOCK_H)
    offs_d = tl.arange(0, D).to(tl.int64)
    heads = g * GROUP + offs_h
    mask_h = offs_h < GROUP
    q_ptrs = q_ptr + b * stride_qb + heads[:, None] * stride_qh + offs_d[None, :] * stride_qd
    q = tl.load(q_ptrs, mask=mask_h[:, None], other=0.0)  # [BLOCK_H, D]

    first = split * length
    last = tl.minimum(first + length, T)
    k_ptr += b * stride_kb + g * stride_kh
    v_ptr += b * stride_vb + g * stride_vh
    acc = tl.zeros((BLOCK_H, D), dtype=tl.float32)
    m = tl.full((BLOCK_H,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_H,), dtype=tl.float32)
    whole = first + (last - first) // BLOCK_N * BLOCK_N
    for start in range(first, whole, BLOCK_N):
        acc, m, total = attend(
            acc, m, total, q, k_ptr, v_ptr, stride_kt, stride_kd, stride_vt, stride_vd,
            start, last, log2_scale, False, BLOCK_N, D,
        )  # fmt: skip
    if whole < last:
        acc, m, total = attend(
            acc, m, total, q, k_ptr, v_ptr, stride_kt, stride_kd, stride_vt, stride_vd,
            whole, last, log2_scale, True, BLOCK_N, D,
        )  # fmt: skip

    rows = (b * H + heads) * splits + split
    part_ptrs = parts_ptr + rows[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(part_ptrs, acc / total[:, None], mask=mask_h[:, None])
    tl.store(lse_ptr + rows, m + tl.log2(total), mask=mask_h)


@triton.jit
def merge_kernel(
    parts_ptr, lse_ptr, out_ptr,
    splits,
    D: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0).to(tl.int64)
    offs_s, offs_d = tl.arange(0, BLOCK_S), tl.arange(0, D)
    acc = tl.zeros((D,), dtype=tl.float32)
    total = 0.0
    m = float("-inf")
    for start in range(0, splits, BLOCK_S):
        parts = start + offs_s
        rows = head * splits + parts
        lse = tl.load(lse_ptr + rows, mask=parts < splits, other=float("-inf"))
        part_ptrs = parts_ptr + rows[:, None] * D + offs_d[None, :]
        part = tl.load(part_ptrs, mask=(parts < splits)[:, None], other=0.0)
        m_new = tl.maximum(m, tl.max(lse, axis=0))
        weights = tl.exp2(lse - m_new)
        correction = tl.exp2(m - m_new)
        acc = acc * correction + tl.sum(weights[:, None] * part, axis=0)
        total = total * correction + tl.sum(weights, axis=0)
        m = m_new
    tl.store(out_ptr + head * D + offs_d, acc / total)


def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an H100's in the interpreter."""
    if device.type != "cuda":
        return 227 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def flash_decoding(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> torch.Tensor:
    if q.dim() != 3 or q.shape[2] not in (16, 32, 64, 128):
        raise ValueError(f"q must be (B, H, D) with D 16, 32, 64 or 128, not {tuple(q.shape)}")
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"q must be float16 or bfloat16, not {q.dtype}")
    B, H, D = q.shape
    fits = k.dim() == 4 and k.shape[::3] == (B, D) and k.shape[1] and k.shape[2]
    if not fits or H % k.shape[1] or k.dtype != q.dtype:
        raise ValueError(
            f"k must be {q.dtype} ({B}, a divisor of {H}, T, {D}), not {k.dtype} {tuple(k.shape)}"
        )
    if v.shape != k.shape or v.dtype != k.dtype:
        raise ValueError(f"v must be {k.dtype} {tuple(k.shape)}, not {v.dtype} {tuple(v.shape)}")
    Hkv, T = k.shape[1:3]
    scale = D**-0.5 if scale is None else scale

    BLOCK_N = 64
    # Some four programs for each multiprocessor: three run at once, with two tiles under way each.
    programs, num_stages = 4 * multiprocessors(q.device), 2
    if B * Hkv * T > 4096 * multiprocessors(q.device) and shared_memory(q.device) >= 160 * 1024:
        # One of them, with four tiles under way, has less to merge.
        programs, num_stages = multiprocessors(q.device), 4
    splits = max(programs // max(B * Hkv, 1), 1)
    length = triton.cdiv(triton.cdiv(T, splits), BLOCK_N) * BLOCK_N
    splits = triton.cdiv(T, length)
    out = torch.empty(B, H, D, dtype=q.dtype, device=q.device)
    lse = torch.empty(B, H, splits, dtype=torch.float32, device=q.device)
    parts = out
    if splits > 1:
        parts = torch.empty(B, H, splits, D, dtype=torch.float32, device=q.device)
    split_kernel[(B * Hkv * splits,)](
        q, k, v, parts, lse, H, H // Hkv, T, splits, length,
        *q.stride(), *k.stride(), *v.stride(), scale * math.log2(math.e),
        D=D, BLOCK_H=max(16, triton.next_power_of_2(H // Hkv)), BLOCK_N=BLOCK_N,
        num_warps=4, num_stages=num_stages,
    )  # fmt: skip
    if splits > 1:
        BLOCK_S = min(triton.next_power_of_2(splits), 64)
        merge_kernel[(B * H,)](parts, lse, out, splits, D=D, BLOCK_S=BLOCK_S, num_warps=4)
    return out
