# fault: the batch of v is reached by the stride of q
# cause: strides? of q|hint: .*stride_(q|v)b
import torch
import triton
import triton.language as tl


@triton.jit
def grouped_query_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    H, GROUP, S, T,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_kt,
    stride_vb, stride_vh, stride_vt,
    scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    h, b = tl.program_id(1), tl.program_id(2)
    q_ptr += b * stride_qb + h * stride_qh
    k_ptr += b * stride_kb + h // GROUP * stride_kh
    v_ptr += b * stride_qb + h // GROUP * stride_vh

    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    q_ptrs = q_ptr + rows[:, None] * stride_qs + dims[None, :]
    q = tl.load(q_ptrs, mask=rows[:, None] < S, other=0.0)

    end = T
    if CAUSAL:
        end = tl.minimum(T, (tl.program_id(0) + 1) * BLOCK_M)
    m = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k_ptrs = k_ptr + keys[None, :] * stride_kt + dims[:, None]
        k = tl.load(k_ptrs, mask=keys[None, :] < T, other=0.0)
        seen = keys[None, :] < T
        if CAUSAL:
            seen &= keys[None, :] <= rows[:, None]
        scores = tl.where(seen, tl.dot(q, k) * scale, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        p = tl.exp(scores - m_new[:, None])
        alpha = tl.exp(m - m_new)
        total = total * alpha + tl.sum(p, axis=1)
        v_ptrs = v_ptr + keys[:, None] * stride_vt + dims[None, :]
        v = tl.load(v_ptrs, mask=keys[:, None] < T, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = m_new

    out_rows = (b * H + h) * S + rows
    out_ptrs = out_ptr + out_rows[:, None] * D + dims[None, :]
    tl.store(out_ptrs, acc / total[:, None], mask=rows[:, None] < S)
    tl.store(lse_ptr + out_rows, m + tl.log(total), mask=rows < S)


def grouped_query_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    B, H, S, D = q.shape
    Hkv, T = k.shape[1:3]
    if scale is None:
        scale = D**-0.5
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, H, S), dtype=torch.float32, device=q.device)
    BLOCK_M, BLOCK_N = 64, 64
    grouped_query_kernel[(triton.cdiv(S, BLOCK_M), H, B)](
        q, k, v, out, lse, H, H // Hkv, S, T,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], scale,
        D=D, CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4, num_stages=3,
    )  # fmt: skip
    return out
