# fault: backward returns three gradients for five arguments
# cause: (expected 5, got 3|number of gradients)
import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first, head = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    rows = first + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    inside = rows < S
    tile = (head * S + rows[:, None]) * D + dims[None, :]
    q = tl.load(q_ptr + tile, mask=inside[:, None], other=0.0)

    k_ptr += head // GROUP * T * D
    v_ptr += head // GROUP * T * D
    end = tl.minimum(T, first + BLOCK_M) if CAUSAL else T
    largest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        offsets = keys[:, None] * D + dims[None, :]
        k = tl.load(k_ptr + offsets, mask=keys[:, None] < T, other=0.0)
        v = tl.load(v_ptr + offsets, mask=keys[:, None] < T, other=0.0)
        seen = keys[None, :] < T
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        scores = tl.where(seen, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.exp(scores - larger[:, None])
        shrink = tl.exp(largest - larger)
        total = total * shrink + tl.sum(p, axis=1)
        acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v)
        largest = larger
    tl.store(out_ptr + tile, acc / total[:, None], mask=inside[:, None])
    tl.store(lse_ptr + head * S + rows, largest + tl.log(total), mask=inside)


@triton.jit
def attention_delta_kernel(
    out_ptr, dout_ptr, delta_ptr,
    S,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
):  # fmt: skip
    queries = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rows = tl.program_id(1) * S + queries
    inside = queries < S
    offsets = rows[:, None] * D + tl.arange(0, D)[None, :]
    out = tl.load(out_ptr + offsets, mask=inside[:, None], other=0.0).to(tl.float32)
    dout = tl.load(dout_ptr + offsets, mask=inside[:, None], other=0.0).to(tl.float32)
    tl.store(delta_ptr + rows, tl.sum(out * dout, axis=1), mask=inside)


@triton.jit
def attention_dq_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dq_ptr,
    GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first, head = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    rows = first + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    inside = rows < S
    tile = (head * S + rows[:, None]) * D + dims[None, :]
    q = tl.load(q_ptr + tile, mask=inside[:, None], other=0.0)
    dout = tl.load(dout_ptr + tile, mask=inside[:, None], other=0.0)
    lse = tl.load(lse_ptr + head * S + rows, mask=inside, other=0.0)
    delta = tl.load(delta_ptr + head * S + rows, mask=inside, other=0.0)

    # A head of q by its number in all batches, divided by GROUP, is its head of k and v.
    k_ptr += head // GROUP * T * D
    v_ptr += head // GROUP * T * D
    end = tl.minimum(T, first + BLOCK_M) if CAUSAL else T
    dq = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        offsets = keys[:, None] * D + dims[None, :]
        k = tl.load(k_ptr + offsets, mask=keys[:, None] < T, other=0.0)
        v = tl.load(v_ptr + offsets, mask=keys[:, None] < T, other=0.0)
        seen = keys[None, :] < T
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        scores = tl.dot(q, tl.trans(k)) * scale
        p = tl.where(seen, tl.exp(scores - lse[:, None]), 0.0)
        ds = p * (tl.dot(dout, tl.trans(v)) - delta[:, None])
        dq += tl.dot(ds.to(k.dtype), k)
    tl.store(dq_ptr + tile, dq * scale, mask=inside[:, None])


@triton.jit
def attention_dkdv_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first, kv_head = tl.program_id(0) * BLOCK_N, tl.program_id(1)
    keys = first + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, D)
    tile = (kv_head * T + keys[:, None]) * D + dims[None, :]
    k = tl.load(k_ptr + tile, mask=keys[:, None] < T, other=0.0)
    v = tl.load(v_ptr + tile, mask=keys[:, None] < T, other=0.0)

    dk = tl.zeros([BLOCK_N, D], tl.float32)
    dv = tl.zeros([BLOCK_N, D], tl.float32)
    begin = first // BLOCK_M * BLOCK_M if CAUSAL else 0
    for head in range(kv_head * GROUP, kv_head * GROUP + GROUP):
        for start in range(begin, S, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M)
            inside = rows < S
            offsets = (head * S + rows[:, None]) * D + dims[None, :]
            q = tl.load(q_ptr + offsets, mask=inside[:, None], other=0.0)
            dout = tl.load(dout_ptr + offsets, mask=inside[:, None], other=0.0)
            lse = tl.load(lse_ptr + head * S + rows, mask=inside, other=0.0)
            delta = tl.load(delta_ptr + head * S + rows, mask=inside, other=0.0)
            seen = inside[:, None] & (keys[None, :] < T)
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None])
            scores = tl.dot(q, tl.trans(k)) * scale
            p = tl.where(seen, tl.exp(scores - lse[:, None]), 0.0)
            dv += tl.dot(tl.trans(p.to(dout.dtype)), dout)
            ds = p * (tl.dot(dout, tl.trans(v)) - delta[:, None])
            dk += tl.dot(tl.trans(ds.to(q.dtype)), q)
    tl.store(dk_ptr + tile, dk * scale, mask=keys[:, None] < T)
    tl.store(dv_ptr + tile, dv, mask=keys[:, None] < T)


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, causal):
        B, H, S, D = q.shape
        Hkv, T = k.shape[1:3]
        out = torch.empty_like(q)
        lse = torch.empty((B, H, S), dtype=torch.float32, device=q.device)
        attention_kernel[(triton.cdiv(S, 64), B * H)](
            q, k, v, out, lse, H // Hkv, S, T, scale,
            D=D, CAUSAL=causal, BLOCK_M=64, BLOCK_N=64,
        )  # fmt: skip
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.scale = scale
        ctx.causal = causal
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, out, lse = ctx.saved_tensors
        B, H, S, D = q.shape
        Hkv, T = k.shape[1:3]
        sizes = H // Hkv, S, T, ctx.scale
        delta = torch.empty_like(lse)
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        attention_delta_kernel[(triton.cdiv(S, 64), B * H)](out, dout, delta, S, D=D, BLOCK_M=64)
        attention_dq_kernel[(triton.cdiv(S, 64), B * H)](
            q, k, v, dout, lse, delta, dq, *sizes, D=D, CAUSAL=ctx.causal, BLOCK_M=64, BLOCK_N=64
        )
        attention_dkdv_kernel[(triton.cdiv(T, 64), B * Hkv)](
            q, k, v, dout, lse, delta, dk, dv, *sizes,
            D=D, CAUSAL=ctx.causal, BLOCK_M=32, BLOCK_N=64,
        )  # fmt: skip
        return dq, dk, dv


def differentiable_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    if scale is None:
        scale = q.shape[3] ** -0.5
    return Attention.apply(q, k, v, scale, causal)
