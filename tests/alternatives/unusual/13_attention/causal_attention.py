# Scores lie with keys on axis 0, and all that is carried is a row of queries; the sum is divided
# by at every step, so that acc is a weighted mean at any time.
import torch
import triton
import triton.language as tl


@triton.jit
def causal_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, S, H, GROUP, scale, strides_q, strides_k, strides_v,
    D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    head, tile = tl.program_id(0), tl.program_id(1)
    b, h = head // H, head % H
    i, d = tile * ROWS + tl.arange(0, ROWS), tl.arange(0, D)
    q_ptrs = q_ptr + b * strides_q[0] + h * strides_q[1] + i[None, :] * strides_q[2] + d[:, None]
    q = tl.load(q_ptrs, mask=(i < S)[None, :], other=0)
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    weight = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((D, ROWS), tl.float32)
    for start in range(0, tl.minimum(S, (tile + 1) * ROWS), KEYS):
        j = start + tl.arange(0, KEYS)
        k_ptrs = k_ptr + b * strides_k[0] + h // GROUP * strides_k[1]
        k = tl.load(k_ptrs + j[:, None] * strides_k[2] + d, mask=(j < S)[:, None], other=0)
        v_ptrs = v_ptr + b * strides_v[0] + h // GROUP * strides_v[1]
        v = tl.load(v_ptrs + j * strides_v[2] + d[:, None], mask=(j < S)[None, :], other=0)
        x = tl.where(j[:, None] <= i[None, :], tl.dot(k, q) * scale, float("-inf"))
        grown = tl.maximum(top, tl.max(x, 0))
        p = tl.exp(x - grown)
        before = weight * tl.exp(top - grown)
        weight = before + tl.sum(p, 0)
        acc = acc * (before / weight) + tl.dot(v, (p / weight).to(v.dtype))
        top = grown
    out_ptrs = out_ptr + (head * S + i[None, :]) * D + d[:, None]
    tl.store(out_ptrs, acc, mask=(i < S)[None, :])


def causal_attention(q, k, v, scale=None):
    B, H, S, D = q.shape
    out = torch.empty((B * H, S, D), dtype=q.dtype, device=q.device)
    strides = (x.stride()[:3] for x in (q, k, v))
    causal_attention_kernel[(B * H, triton.cdiv(S, 64))](
        q, k, v, out, S, H, H // k.shape[1], scale or D**-0.5, *strides, D=D, ROWS=64, KEYS=32
    )
    return out.unflatten(0, (B, H))
