# fault: dp is the product of dout with k
# cause: k is read where v is meant
import torch
import triton
import triton.language as tl


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
        seen = keys[None, :] < T
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        scores = tl.dot(q, tl.trans(k)) * scale
        p = tl.where(seen, tl.exp(scores - lse[:, None]), 0.0)
        ds = p * (tl.dot(dout, tl.trans(k)) - delta[:, None])
        dq += tl.dot(ds.to(k.dtype), k)
    tl.store(dq_ptr + tile, dq * scale, mask=inside[:, None])


def attention_dq(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dout: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    B, H, S, D = q.shape
    Hkv, T = k.shape[1:3]
    if scale is None:
        scale = D**-0.5
    dq = torch.empty_like(q)
    BLOCK_M, BLOCK_N = 64, 64
    attention_dq_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        q, k, v, dout, lse, delta, dq, H // Hkv, S, T, scale,
        D=D, CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    return dq
