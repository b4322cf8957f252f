# A 3-D grid, splits of 256 keys, parts that are not divided yet, and a merge part by part.

import torch
import triton
import triton.language as tl


@triton.jit
def split_kernel(
    q_ptr, k_ptr, v_ptr, parts_ptr, m_ptr, l_ptr,
    H, GROUP, T, scale,
    stride_kb, stride_kh, stride_kt,
    stride_vb, stride_vh, stride_vt,
    D: tl.constexpr, SPLIT: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    split, g, b = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    splits = tl.num_programs(0)
    dims = tl.arange(0, D)
    lanes = tl.arange(0, BLOCK_H)
    heads = b * H + g * GROUP + lanes
    q_ptrs = q_ptr + heads[:, None] * D + dims[None, :]
    q = tl.load(q_ptrs, mask=lanes[:, None] < GROUP, other=0.0)
    k_ptr += b * stride_kb + g * stride_kh
    v_ptr += b * stride_vb + g * stride_vh

    m = tl.full([BLOCK_H], float("-inf"), tl.float32)
    sums = tl.zeros([BLOCK_H], tl.float32)
    acc = tl.zeros([BLOCK_H, D], tl.float32)
    end = tl.minimum((split + 1) * SPLIT, T)
    for start in range(split * SPLIT, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k_ptrs = k_ptr + keys[None, :] * stride_kt + dims[:, None]
        k = tl.load(k_ptrs, mask=keys[None, :] < end, other=0.0)
        x = tl.dot(q, k) * scale
        x = tl.where(keys[None, :] < end, x, float("-inf"))
        m_new = tl.maximum(m, tl.max(x, axis=1))
        p = tl.exp(x - m_new[:, None])
        alpha = tl.exp(m - m_new)
        sums = sums * alpha + tl.sum(p, axis=1)
        v_ptrs = v_ptr + keys[:, None] * stride_vt + dims[None, :]
        v = tl.load(v_ptrs, mask=keys[:, None] < end, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = m_new

    rows = heads * splits + split
    mask = lanes < GROUP
    tl.store(m_ptr + rows, m, mask=mask)
    tl.store(l_ptr + rows, sums, mask=mask)
    tl.store(parts_ptr + rows[:, None] * D + dims[None, :], acc, mask=mask[:, None])


@triton.jit
def merge_kernel(parts_ptr, m_ptr, l_ptr, out_ptr, splits, D: tl.constexpr):
    head = tl.program_id(0)
    dims = tl.arange(0, D)
    m = float("-inf")
    total = 0.0
    acc = tl.zeros([D], tl.float32)
    for split in range(splits):
        row = head * splits + split
        m_part = tl.load(m_ptr + row)
        m_new = tl.maximum(m, m_part)
        alpha = tl.exp(m - m_new)
        beta = tl.exp(m_part - m_new)
        total = total * alpha + tl.load(l_ptr + row) * beta
        acc = acc * alpha + tl.load(parts_ptr + row * D + dims) * beta
        m = m_new
    tl.store(out_ptr + head * D + dims, acc / total)


def flash_decoding(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> torch.Tensor:
    B, H, D = q.shape
    Hkv, T = k.shape[1:3]
    if scale is None:
        scale = D**-0.5
    SPLIT = 256
    splits = triton.cdiv(T, SPLIT)
    parts = torch.empty((B, H, splits, D), dtype=torch.float32, device=q.device)
    m = torch.empty((B, H, splits), dtype=torch.float32, device=q.device)
    sums = torch.empty((B, H, splits), dtype=torch.float32, device=q.device)
    out = torch.empty((B, H, D), dtype=q.dtype, device=q.device)
    split_kernel[(splits, Hkv, B)](
        q, k, v, parts, m, sums, H, H // Hkv, T, scale,
        *k.stride()[:3], *v.stride()[:3],
        D=D, SPLIT=SPLIT, BLOCK_H=max(16, triton.next_power_of_2(H // Hkv)), BLOCK_N=64,
    )  # fmt: skip
    merge_kernel[(B * H,)](parts, m, sums, out, splits, D=D)
    return out
