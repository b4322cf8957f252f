# One program for a sequence and a head of keys, however long; one loop, one mask, int32 offsets.

import torch
import triton
import triton.language as tl


@triton.jit
def paged_attention_kernel(
    q_ptr, key_cache_ptr, value_cache_ptr, tables_ptr, lengths_ptr, out_ptr,
    H, GROUP, W, scale,
    stride_kp, stride_ks, stride_kh,
    D: tl.constexpr, PAGE: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    b, g = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths_ptr + b)
    dims = tl.arange(0, D)
    lanes = tl.arange(0, BLOCK_H)
    heads = b * H + g * GROUP + lanes
    mask_h = lanes[:, None] < GROUP
    q = tl.load(q_ptr + heads[:, None] * D + dims[None, :], mask=mask_h, other=0.0)
    m = tl.full([BLOCK_H], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_H], tl.float32)
    acc = tl.zeros([BLOCK_H, D], tl.float32)
    for start in range(0, length, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        mask = keys < length
        pages = tl.load(tables_ptr + b * W + keys // PAGE, mask=mask, other=0)
        rows = pages * stride_kp + keys % PAGE * stride_ks + g * stride_kh
        offs = rows[:, None] + dims[None, :]
        k = tl.load(key_cache_ptr + offs, mask=mask[:, None], other=0.0)
        x = tl.where(mask[None, :], tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        m_new = tl.maximum(m, tl.max(x, axis=1))
        p = tl.exp(x - m_new[:, None])
        alpha = tl.exp(m - m_new)
        total = total * alpha + tl.sum(p, axis=1)
        v = tl.load(value_cache_ptr + offs, mask=mask[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = m_new
    out = acc / total[:, None]
    tl.store(out_ptr + heads[:, None] * D + dims[None, :], out, mask=mask_h)


def paged_attention(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    lengths: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    B, H, D = q.shape
    page, Hkv = key_cache.shape[1:3]
    if scale is None:
        scale = D**-0.5
    out = torch.empty_like(q)
    paged_attention_kernel[(B, Hkv)](
        q, key_cache, value_cache, block_tables, lengths, out,
        H, H // Hkv, block_tables.shape[1], scale,
        *key_cache.stride()[:3],
        D=D, PAGE=page, BLOCK_H=max(16, triton.next_power_of_2(H // Hkv)), BLOCK_N=64,
    )  # fmt: skip
    return out
