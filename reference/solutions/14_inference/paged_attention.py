"""14.3  Paged attention: one good answer.

Each sequence is cut into splits. The GPU alone knows the lengths: there are splits for the longest
that the tables allow, and those past the end leave at once. The heads of one page follow one
another, since they lie side by side in memory, and only the last tile of a split has a mask.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl


@triton.jit
def rows(ptr, strides, pages, places, g, mask, D: tl.constexpr, MASKED: tl.constexpr):
    """[BLOCK_N, D] of one head, at these places of these pages."""
    offs_d = tl.arange(0, D).to(tl.int64)
    ptrs = ptr + pages * strides[0] + places.to(tl.int64) * strides[1] + g * strides[2]
    ptrs = ptrs[:, None] + offs_d[None, :] * strides[3]
    return tl.load(ptrs, mask=mask[:, None], other=0.0) if MASKED else tl.load(ptrs)


@triton.jit
def attend(
    acc, m, total, q, key_cache_ptr, value_cache_ptr, table_ptr, stride_tw, key_strides,
    value_strides, g, start, last, log2_scale,
    MASKED: tl.constexpr, PAGE: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Take in a tile of keys. MASKED: it ends at `last`."""
    keys = start + tl.arange(0, BLOCK_N)
    mask = keys < last
    entries = table_ptr + (keys // PAGE).to(tl.int64) * stride_tw
    if MASKED:
        pages = tl.load(entries, mask=mask, other=0).to(tl.int64)
    else:
        pages = tl.load(entries).to(tl.int64)
    k = rows(key_cache_ptr, key_strides, pages, keys % PAGE, g, mask, D, MASKED)
    v = rows(value_cache_ptr, value_strides, pages, keys % PAGE, g, mask, D, MASKED)
    scores = tl.dot(q, k.T) * log2_scale  # [BLOCK_H, BLOCK_N]
    if MASKED:
        scores = tl.where(mask[None, :], scores, float("-inf"))
    m_new = tl.maximum(m, tl.max(scores, axis=1))
    p = tl.exp2(scores - m_new[:, None])
    correction = tl.exp2(m - m_new)
    acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None])
    return acc, m_new, total * correction + tl.sum(p, axis=1)


@triton.jit
def paged_attention_kernel(
    q_ptr, key_cache_ptr, value_cache_ptr, tables_ptr, lengths_ptr, parts_ptr, lse_ptr,
    H, GROUP, splits, size,
    stride_qb, stride_qh, stride_qd,
    key_strides, value_strides,
    stride_tb, stride_tw, stride_l,
    log2_scale,
    D: tl.constexpr, PAGE: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    split = tl.program_id(0) % splits
    head = (tl.program_id(0) // splits).to(tl.int64)
    b, g = head // (H // GROUP), head % (H // GROUP)
    length = tl.load(lengths_ptr + b * stride_l).to(tl.int32)
    first = split * size
    last = tl.minimum(first + size, length)
    # A sequence of no keys still has a result: its first split stores zeros.
    if (first < last) | (split == 0):
        offs_h, offs_d = tl.arange(0, BLOCK_H), tl.arange(0, D)
        heads = g * GROUP + offs_h
        mask_h = offs_h < GROUP
        q_ptrs = q_ptr + b * stride_qb + heads[:, None] * stride_qh
        q_ptrs += offs_d[None, :].to(tl.int64) * stride_qd
        q = tl.load(q_ptrs, mask=mask_h[:, None], other=0.0)  # [BLOCK_H, D]
        acc = tl.zeros((BLOCK_H, D), dtype=tl.float32)
        m = tl.full((BLOCK_H,), float("-inf"), dtype=tl.float32)
        total = tl.zeros((BLOCK_H,), dtype=tl.float32)
        table_ptr = tables_ptr + b * stride_tb
        whole = first + (last - first) // BLOCK_N * BLOCK_N
        for start in range(first, whole, BLOCK_N):
            acc, m, total = attend(
                acc, m, total, q, key_cache_ptr, value_cache_ptr, table_ptr, stride_tw,
                key_strides, value_strides, g, start, last, log2_scale, False, PAGE, BLOCK_N, D,
            )  # fmt: skip
        if whole < last:
            acc, m, total = attend(
                acc, m, total, q, key_cache_ptr, value_cache_ptr, table_ptr, stride_tw,
                key_strides, value_strides, g, whole, last, log2_scale, True, PAGE, BLOCK_N, D,
            )  # fmt: skip
        parts = (b * H + heads) * splits + split
        part_ptrs = parts_ptr + parts[:, None] * D + offs_d[None, :]
        means = tl.where(total > 0, 1 / total, 0.0)[:, None] * acc
        tl.store(part_ptrs, means, mask=mask_h[:, None])
        tl.store(lse_ptr + parts, m + tl.log2(total), mask=mask_h)


@triton.jit
def merge_kernel(
    parts_ptr, lse_ptr, lengths_ptr, out_ptr,
    H, splits, size, stride_l,
    D: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths_ptr + head // H * stride_l).to(tl.int32)
    used = tl.cdiv(length, size)
    offs_d = tl.arange(0, D)
    acc = tl.zeros((D,), dtype=tl.float32)
    total = 0.0
    m = float("-inf")
    for start in range(0, used, BLOCK_S):
        parts = start + tl.arange(0, BLOCK_S)
        offs = head * splits + parts
        lse = tl.load(lse_ptr + offs, mask=parts < used, other=float("-inf"))
        part_ptrs = parts_ptr + offs[:, None] * D + offs_d[None, :]
        part = tl.load(part_ptrs, mask=(parts < used)[:, None], other=0.0)
        m_new = tl.maximum(m, tl.max(lse, axis=0))
        weights = tl.exp2(lse - m_new)
        correction = tl.exp2(m - m_new)
        acc = acc * correction + tl.sum(weights[:, None] * part, axis=0)
        total = total * correction + tl.sum(weights, axis=0)
        m = m_new
    tl.store(out_ptr + head * D + offs_d, tl.where(used > 0, acc / total, 0.0))


def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


def paged_attention(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    if q.dim() != 3 or q.shape[2] not in (16, 32, 64, 128):
        raise ValueError(f"q must be (B, H, D) with D 16, 32, 64 or 128, not {tuple(q.shape)}")
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"q must be float16 or bfloat16, not {q.dtype}")
    B, H, D = q.shape
    fits = key_cache.dim() == 4 and key_cache.shape[3] == D and key_cache.shape[2]
    if not fits or H % key_cache.shape[2] or key_cache.dtype != q.dtype:
        raise ValueError(
            f"key_cache must be {q.dtype} (P, page, a divisor of {H}, {D}), "
            f"not {key_cache.dtype} {tuple(key_cache.shape)}"
        )
    if value_cache.shape != key_cache.shape or value_cache.dtype != key_cache.dtype:
        raise ValueError(
            f"value_cache must be as key_cache, not {value_cache.dtype} {tuple(value_cache.shape)}"
        )
    for name, x, rank in (("block_tables", block_tables, 2), ("lengths", lengths, 1)):
        of_integers = x.dtype in (torch.int32, torch.int64)
        if x.dim() != rank or x.shape[0] != B or not of_integers:
            raise ValueError(
                f"{name} must be of int32 or int64, {rank}-D and have {B} rows, "
                f"not {x.dtype} {tuple(x.shape)}"
            )
    page, Hkv = key_cache.shape[1:3]
    W = block_tables.shape[1]
    scale = D**-0.5 if scale is None else scale

    # The lengths are known to the GPU alone: there are splits for the longest that the tables
    # allow, and those past the end of their sequence leave at once.
    BLOCK_N = 64
    splits = triton.cdiv(32 * multiprocessors(q.device), max(B * Hkv, 1))
    size = max(triton.cdiv(triton.cdiv(W * page, splits), BLOCK_N), 4) * BLOCK_N
    splits = max(triton.cdiv(W * page, size), 1)
    out = torch.empty(B, H, D, dtype=q.dtype, device=q.device)
    lse = torch.empty(B, H, splits, dtype=torch.float32, device=q.device)
    parts = out
    if splits > 1:
        parts = torch.empty(B, H, splits, D, dtype=torch.float32, device=q.device)
    paged_attention_kernel[(B * Hkv * splits,)](
        q, key_cache, value_cache, block_tables, lengths, parts, lse,
        H, H // Hkv, splits, size,
        *q.stride(), key_cache.stride(), value_cache.stride(),
        *block_tables.stride(), lengths.stride(0), scale * math.log2(math.e),
        D=D, PAGE=page, BLOCK_H=max(16, triton.next_power_of_2(H // Hkv)), BLOCK_N=BLOCK_N,
        num_warps=4, num_stages=2,
    )  # fmt: skip
    if splits > 1:
        merge_kernel[(B * H,)](
            parts, lse, lengths, out, H, splits, size, lengths.stride(0),
            D=D, BLOCK_S=min(triton.next_power_of_2(splits), 64), num_warps=4,
        )  # fmt: skip
    return out
