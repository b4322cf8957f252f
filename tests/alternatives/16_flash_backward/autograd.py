"""FlashAttention-2's way back: one kernel over tiles of keys, which adds up dq by atomics."""

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
def forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    q_strides, k_strides, v_strides,
    H, GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0).to(tl.int64)
    b, h = head // H, head % H
    rows = tl.program_id(1).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    q = load(q_ptr, q_strides, b, h, rows, rows < S, D)
    highest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    end = tl.minimum(T, tl.program_id(1) * BLOCK_M + BLOCK_M) if CAUSAL else T
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
    # To base 2: nobody but the backward pass reads it.
    tl.store(lse_ptr + head * S + rows, highest + tl.log2(total), mask=rows < S)
    out_ptrs = out_ptr + (head * S + rows)[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(out_ptrs, acc / total[:, None], mask=(rows < S)[:, None])


@triton.jit
def backward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, dout_ptr, lse_ptr, dq_ptr, dk_ptr, dv_ptr,
    q_strides, k_strides, v_strides, out_strides, dout_strides,
    HKV, GROUP, S, T, scale, log2_scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0).to(tl.int64)
    b, g = head // HKV, head % HKV
    keys = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = keys < T
    k = load(k_ptr, k_strides, b, g, keys, inside, D)
    v = load(v_ptr, v_strides, b, g, keys, inside, D)
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    dims = tl.arange(0, D)
    first = tl.program_id(1) * BLOCK_N // BLOCK_M * BLOCK_M if CAUSAL else 0
    for h in range(g * GROUP, g * GROUP + GROUP):
        for start in range(first, S, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M).to(tl.int64)
            here = (b * HKV * GROUP + h) * S + rows
            q = load(q_ptr, q_strides, b, h, rows, rows < S, D)
            out = load(out_ptr, out_strides, b, h, rows, rows < S, D)
            dout = load(dout_ptr, dout_strides, b, h, rows, rows < S, D)
            lse = tl.load(lse_ptr + here, mask=rows < S, other=float("inf"))
            delta = tl.sum(out.to(tl.float32) * dout.to(tl.float32), 1)
            seen = inside[None, :]
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None])
            scores = tl.dot(q, k.T) * log2_scale - lse[:, None]
            p = tl.exp2(tl.where(seen, scores, float("-inf")))
            ds = (p * (tl.dot(dout, v.T) - delta[:, None])).to(q.dtype)
            dv = tl.dot(p.to(q.dtype).T, dout, dv)
            dk = tl.dot(ds.T, q, dk)
            dq_ptrs = dq_ptr + here[:, None] * D + dims[None, :]
            tl.atomic_add(dq_ptrs, tl.dot(ds, k) * scale, mask=(rows < S)[:, None])
    offsets = (head * T + keys)[:, None] * D + dims[None, :]
    tl.store(dk_ptr + offsets, dk * scale, mask=inside[:, None])
    tl.store(dv_ptr + offsets, dv, mask=inside[:, None])


@triton.jit
def round_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < N, other=0.0), mask=offs < N)


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, causal):
        B, H, S, D = q.shape
        out = torch.empty(B, H, S, D, dtype=q.dtype, device=q.device)
        lse = torch.empty(B, H, S, dtype=torch.float32, device=q.device)
        forward_kernel[B * H, triton.cdiv(S, 64)](
            q, k, v, out, lse, q.stride(), k.stride(), v.stride(), H, H // k.shape[1], S,
            k.shape[2], scale * 1.4426950408889634, D=D, CAUSAL=causal, BLOCK_M=64, BLOCK_N=64,
        )  # fmt: skip
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.scale, ctx.causal = scale, causal
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, out, lse = ctx.saved_tensors
        B, H, S, D = q.shape
        HKV, T = k.shape[1:3]
        sums = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
        dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        dk, dv = (torch.empty(k.shape, dtype=k.dtype, device=k.device) for _ in range(2))
        backward_kernel[B * HKV, triton.cdiv(T, 64)](
            q, k, v, out, dout, lse, sums, dk, dv,
            q.stride(), k.stride(), v.stride(), out.stride(), dout.stride(), HKV, H // HKV, S, T,
            ctx.scale, ctx.scale * 1.4426950408889634,
            D=D, CAUSAL=ctx.causal, BLOCK_M=32, BLOCK_N=64,
        )  # fmt: skip
        round_kernel[(triton.cdiv(dq.numel(), 1024),)](sums, dq, dq.numel(), BLOCK=1024)
        return dq, dk, dv, None, None


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


def differentiable_attention(q, k, v, scale=None, causal=False):
    check(q, k, v)
    return Attention.apply(q, k, v, q.shape[3] ** -0.5 if scale is None else scale, causal)
