# fault: the first tile of keys is not clipped to 0
# cause: the whole tile is before k
import torch
import triton
import triton.language as tl


@triton.jit
def sliding_window_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    H, GROUP, S,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_ks,
    stride_vb, stride_vh, stride_vs,
    window, scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(1) // H, tl.program_id(1) % H
    q_ptr += b * stride_qb + h * stride_qh
    k_ptr += b * stride_kb + h // GROUP * stride_kh
    v_ptr += b * stride_vb + h // GROUP * stride_vh

    first_row = tl.program_id(0) * BLOCK_M
    rows = first_row + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    q_ptrs = q_ptr + rows[:, None] * stride_qs + dims[None, :]
    q = tl.load(q_ptrs, mask=rows[:, None] < S, other=0.0)

    m = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    first_key = first_row - window + 1
    for start in range(first_key // BLOCK_N * BLOCK_N, tl.minimum(first_row + BLOCK_M, S), BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        inside = keys[:, None] < S
        k = tl.load(k_ptr + keys[:, None] * stride_ks + dims[None, :], mask=inside, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * stride_vs + dims[None, :], mask=inside, other=0.0)
        seen = (keys[None, :] <= rows[:, None]) & (keys[None, :] > rows[:, None] - window)
        scores = tl.where(seen, tl.dot(q, k.T) * scale, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.exp(scores - m_safe[:, None])
        alpha = tl.exp(m - m_safe)
        total = total * alpha + tl.sum(p, axis=1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = m_new

    out_ptrs = out_ptr + (tl.program_id(1) * S + rows)[:, None] * D + dims[None, :]
    tl.store(out_ptrs, acc / total[:, None], mask=rows[:, None] < S)


def sliding_window_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int, scale: float | None = None
) -> torch.Tensor:
    B, H, S, D = q.shape
    if scale is None:
        scale = D**-0.5
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    BLOCK_M, BLOCK_N = 64, 64
    sliding_window_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        q, k, v, out, H, H // k.shape[1], S,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], window, scale,
        D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4, num_stages=2,
    )  # fmt: skip
    return out
