"""A long tile and a short one make a pair, and a counter in memory deals the pairs."""

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
def one_tile(
    q_ptr, k_ptr, v_ptr, out_ptr,
    q_strides, k_strides, v_strides,
    H, GROUP, S, T, scale, head, tile,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    b, h = head // H, head % H
    rows = tl.cast(tile, tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    q = load(q_ptr, q_strides, b, h, rows, rows < S, D)
    highest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    end = tl.minimum(T, tile * BLOCK_M + BLOCK_M) if CAUSAL else T
    for start in range(0, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside = keys < T
        k = load(k_ptr, k_strides, b, h // GROUP, keys, inside, D)
        v = load(v_ptr, v_strides, b, h // GROUP, keys, inside, D)
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
    out_ptrs = out_ptr + (head * S + rows)[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(out_ptrs, acc / total[:, None], mask=(rows < S)[:, None])


@triton.jit
def persistent_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, counter_ptr,
    q_strides, k_strides, v_strides,
    B, H, GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(S, BLOCK_M)
    pairs = tl.cdiv(tiles, 2)
    place = tl.atomic_add(counter_ptr, 1)
    while place < B * H * pairs:
        head, short = tl.cast(place // pairs, tl.int64), place % pairs
        long = tiles - 1 - short
        one_tile(
            q_ptr, k_ptr, v_ptr, out_ptr, q_strides, k_strides, v_strides,
            H, GROUP, S, T, scale, head, long, D, CAUSAL, BLOCK_M, BLOCK_N,
        )  # fmt: skip
        if short != long:
            one_tile(
                q_ptr, k_ptr, v_ptr, out_ptr, q_strides, k_strides, v_strides,
                H, GROUP, S, T, scale, head, short, D, CAUSAL, BLOCK_M, BLOCK_N,
            )  # fmt: skip
        place = tl.atomic_add(counter_ptr, 1)


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


def multiprocessors(device):
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


def persistent_attention(q, k, v, scale=None, causal=False):
    check(q, k, v)
    B, H, S, D = q.shape
    T = k.shape[2]
    scale = D**-0.5 if scale is None else scale
    out = torch.empty(B, H, S, D, dtype=q.dtype, device=q.device)
    counter = torch.zeros(1, dtype=torch.int32, device=q.device)
    persistent_attention_kernel[(multiprocessors(q.device),)](
        q, k, v, out, counter, q.stride(), k.stride(), v.stride(), B, H, H // k.shape[1], S, T,
        scale * 1.4426950408889634, D=D, CAUSAL=causal, BLOCK_M=64, BLOCK_N=32,
    )  # fmt: skip
    return out
