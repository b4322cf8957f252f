"""The heads of a group lie side by side in one tile of queries, which loads their keys once."""

import torch
import triton
import triton.language as tl


@triton.jit
def load(ptr, strides, b, h, rows, inside, D: tl.constexpr):
    """[rows, D] of one head; rows and dims in int64."""
    dims = tl.arange(0, D).to(tl.int64)
    ptrs = ptr + b * strides[0] + h * strides[1]
    ptrs += rows[:, None] * strides[2] + dims[None, :] * strides[3]
    return tl.load(ptrs, mask=inside[:, None], other=0.0)


@triton.jit
def grouped_query_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    q_strides, k_strides, v_strides,
    HKV, GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0).to(tl.int64)
    b, g = head // HKV, head % HKV
    first = tl.program_id(1).to(tl.int64) * BLOCK_M
    packed = first + tl.arange(0, BLOCK_M)
    rows, h = packed // GROUP, g * GROUP + packed % GROUP
    dims = tl.arange(0, D).to(tl.int64)
    q_rows = q_ptr + b * q_strides[0] + h * q_strides[1] + rows * q_strides[2]
    q_ptrs = q_rows[:, None] + dims[None, :] * q_strides[3]
    q = tl.load(q_ptrs, mask=(rows < S)[:, None], other=0.0)
    highest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    end = tl.cast(T, tl.int64)
    if CAUSAL:
        end = tl.minimum(end, (first + BLOCK_M - 1) // GROUP + 1)
    for start in range(0, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside = keys < T
        k = load(k_ptr, k_strides, b, g, keys, inside, D)
        v = load(v_ptr, v_strides, b, g, keys, inside, D)
        seen = inside[None, :]
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        scores = tl.where(seen, tl.dot(q, k.T) * scale, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        p = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(highest - higher)
        total = shrink * total + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        highest = higher
    out_ptrs = out_ptr + (((b * HKV * GROUP + h) * S + rows) * D)[:, None] + dims[None, :]
    tl.store(out_ptrs, acc / total[:, None], mask=(rows < S)[:, None])


def check(q, k, v):
    if q.dim() != 4 or q.shape[3] not in (16, 32, 64, 128):
        raise ValueError(f"q must be 4-D with D 16, 32, 64 or 128, not {tuple(q.shape)}")
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"q must be float16 or bfloat16, not {q.dtype}")
    if k.dim() != 4 or k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3]:
        raise ValueError("k must have the rank, B and D of q")
    if k.dtype != q.dtype or q.shape[1] % k.shape[1]:
        raise ValueError("k must have the dtype of q and a number of heads that divides its")
    if v.shape != k.shape or v.dtype != k.dtype:
        raise ValueError("v must have the shape and dtype of k")


def grouped_query_attention(q, k, v, scale=None, causal=False):
    check(q, k, v)
    B, H, S, D = q.shape
    HKV, T = k.shape[1:3]
    scale = D**-0.5 if scale is None else scale
    out = torch.empty(B, H, S, D, dtype=q.dtype, device=q.device)
    grouped_query_kernel[B * HKV, triton.cdiv(S * (H // HKV), 64)](
        q, k, v, out, q.stride(), k.stride(), v.stride(), HKV, H // HKV, S, T,
        scale * 1.4426950408889634, D=D, CAUSAL=causal, BLOCK_M=64, BLOCK_N=32,
    )  # fmt: skip
    return out
