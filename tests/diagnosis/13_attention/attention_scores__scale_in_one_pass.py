# fault: the second pass does not scale the scores
# cause: scale.*(second|one pass|only|first)
import torch
import triton
import triton.language as tl


@triton.jit
def attention_scores_kernel(
    q_ptr, k_ptr, p_ptr,
    H, GROUP, S, T,
    stride_qb, stride_qh, stride_qs,
    stride_kb, stride_kh, stride_kt,
    scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(1) // H, tl.program_id(1) % H
    q_ptr += b * stride_qb + h * stride_qh
    k_ptr += b * stride_kb + h // GROUP * stride_kh
    p_ptr += tl.program_id(1) * S * T

    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    q_ptrs = q_ptr + rows[:, None] * stride_qs + dims[None, :]
    q = tl.load(q_ptrs, mask=rows[:, None] < S, other=0.0)  # [BLOCK_M, D]

    largest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, T, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k_ptrs = k_ptr + keys[None, :] * stride_kt + dims[:, None]
        k = tl.load(k_ptrs, mask=keys[None, :] < T, other=0.0)  # [D, BLOCK_N]
        scores = tl.where(keys[None, :] < T, tl.dot(q, k) * scale, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(scores - larger[:, None]), axis=1)
        largest = larger

    for start in range(0, T, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k_ptrs = k_ptr + keys[None, :] * stride_kt + dims[:, None]
        k = tl.load(k_ptrs, mask=keys[None, :] < T, other=0.0)
        p = tl.exp(tl.dot(q, k) - largest[:, None]) / total[:, None]
        p_ptrs = p_ptr + rows[:, None] * T + keys[None, :]
        tl.store(p_ptrs, p, mask=(rows[:, None] < S) & (keys[None, :] < T))


def attention_scores(q: torch.Tensor, k: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    B, H, S, D = q.shape
    Hkv, T = k.shape[1:3]
    if scale is None:
        scale = D**-0.5
    p = torch.empty((B, H, S, T), dtype=q.dtype, device=q.device)
    BLOCK_M, BLOCK_N = 64, 64
    attention_scores_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        q, k, p, H, H // Hkv, S, T, *q.stride()[:3], *k.stride()[:3], scale,
        D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    return p
