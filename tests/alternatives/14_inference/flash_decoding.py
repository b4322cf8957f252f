"""One launch: the program of a head that ends last merges the parts, in the order of their keys."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def split_and_merge_kernel(
    q_ptr, k_ptr, v_ptr, parts_ptr, m_ptr, sums_ptr, count_ptr, out_ptr,
    H, GROUP, T, splits, length,
    q_strides, k_strides, v_strides,
    scale,
    D: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    split = tl.program_id(0) % splits
    head = (tl.program_id(0) // splits).to(tl.int64)
    b, g = head // (H // GROUP), head % (H // GROUP)
    dims = tl.arange(0, D).to(tl.int64)
    lanes = tl.arange(0, BLOCK_H)
    heads = g * GROUP + lanes
    mask = lanes < GROUP
    q_ptrs = q_ptr + b * q_strides[0] + heads[:, None] * q_strides[1] + dims[None, :] * q_strides[2]
    q = tl.load(q_ptrs, mask=mask[:, None], other=0.0)
    k_ptr += b * k_strides[0] + g * k_strides[1]
    v_ptr += b * v_strides[0] + g * v_strides[1]
    m = tl.full([BLOCK_H], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_H], tl.float32)
    acc = tl.zeros([BLOCK_H, D], tl.float32)
    end = tl.minimum((split + 1) * length, T)
    for start in range(split * length, end, BLOCK_N):
        keys = start.to(tl.int64) + tl.arange(0, BLOCK_N)
        inside = keys < end
        k_ptrs = k_ptr + keys[:, None] * k_strides[2] + dims[None, :] * k_strides[3]
        v_ptrs = v_ptr + keys[:, None] * v_strides[2] + dims[None, :] * v_strides[3]
        x = tl.dot(q, tl.load(k_ptrs, mask=inside[:, None], other=0.0).T) * scale
        x = tl.where(inside[None, :], x, float("-inf"))
        m_new = tl.maximum(m, tl.max(x, axis=1))
        p = tl.exp2(x - m_new[:, None])
        total = total * tl.exp2(m - m_new) + tl.sum(p, axis=1)
        v = tl.load(v_ptrs, mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * tl.exp2(m - m_new)[:, None])
        m = m_new
    rows = (b * H + heads) * splits + split
    tl.store(m_ptr + rows, m, mask=mask)
    tl.store(sums_ptr + rows, total, mask=mask)
    tl.store(parts_ptr + rows[:, None] * D + dims[None, :], acc, mask=mask[:, None])

    # All threads store before one of them counts this program.
    tl.debug_barrier()
    if tl.atomic_add(count_ptr + head, 1, sem="acq_rel") == splits - 1:
        first = (b * H + heads) * splits
        m = tl.load(m_ptr + first, mask=mask, other=0.0)
        total = tl.load(sums_ptr + first, mask=mask, other=1.0)
        acc = tl.load(parts_ptr + first[:, None] * D + dims[None, :], mask=mask[:, None], other=0.0)
        for part in range(1, splits):
            row = first + part
            m_part = tl.load(m_ptr + row, mask=mask, other=0.0)
            m_new = tl.maximum(m, m_part)
            old, new = tl.exp2(m - m_new), tl.exp2(m_part - m_new)
            total = total * old + tl.load(sums_ptr + row, mask=mask, other=1.0) * new
            part_ptrs = parts_ptr + row[:, None] * D + dims[None, :]
            acc = (
                acc * old[:, None]
                + tl.load(part_ptrs, mask=mask[:, None], other=0.0) * new[:, None]
            )
            m = m_new
        out_ptrs = out_ptr + (b * H + heads)[:, None] * D + dims[None, :]
        tl.store(out_ptrs, acc / total[:, None], mask=mask[:, None])


def flash_decoding(q, k, v, scale=None):
    if q.dim() != 3 or q.shape[2] not in (16, 32, 64, 128):
        raise ValueError("q")
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError("q")
    B, H, D = q.shape
    if k.dim() != 4 or k.shape[::3] != (B, D) or H % k.shape[1] or k.dtype != q.dtype:
        raise ValueError("k")
    if v.shape != k.shape or v.dtype != k.dtype:
        raise ValueError("v")
    Hkv, T = k.shape[1:3]
    length = 256
    splits = triton.cdiv(T, length)
    scale = D**-0.5 if scale is None else scale
    out = torch.empty(B, H, D, dtype=q.dtype, device=q.device)
    parts = torch.empty(B, H, splits, D, dtype=torch.float32, device=q.device)
    m, sums = (torch.empty(B, H, splits, dtype=torch.float32, device=q.device) for _ in range(2))
    count = torch.zeros(B * Hkv, dtype=torch.int32, device=q.device)
    split_and_merge_kernel[(B * Hkv * splits,)](
        q, k, v, parts, m, sums, count, out, H, H // Hkv, T, splits, length,
        q.stride(), k.stride(), v.stride(), scale * math.log2(math.e),
        D=D, BLOCK_H=max(16, triton.next_power_of_2(H // Hkv)), BLOCK_N=64, num_warps=4,
    )  # fmt: skip
    return out
