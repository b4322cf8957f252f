"""14.5  Speculative verification: one good answer.

Each chunk of the vocabulary has a program, and all programs of a request decide alike on the
drafts, so that none waits for another. The second kernel finds the chunk in which the running sum
passes the target, and loads that one alone.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

CHUNK = 4096


@triton.jit
def weights(
    q_ptr, p_ptr, V, chunk, is_refused, stride_qv, stride_pv, CHUNK: tl.constexpr
):  # fmt: skip
    """What a chunk of the vocabulary weighs in the draw: [CHUNK]."""
    offs = chunk.to(tl.int64) * CHUNK + tl.arange(0, CHUNK)
    p = tl.load(p_ptr + offs * stride_pv, mask=offs < V, other=0.0)
    q = tl.load(q_ptr + offs * stride_qv, mask=(offs < V) & is_refused, other=0.0)
    return tl.maximum(p - q, 0.0)


@triton.jit
def speculative_verify_kernel(
    drafts_ptr, q_ptr, p_ptr, uniform_ptr, accepted_ptr, refused_ptr, sums_ptr,
    K, V, chunks,
    stride_db, stride_dk,
    stride_qb, stride_qk, stride_qv,
    stride_pb, stride_pk, stride_pv,
    stride_ub, stride_uk,
    BLOCK_K: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """What a chunk of the row to draw from adds up to. All programs of a request decide alike."""
    b, chunk = (tl.program_id(0) // chunks).to(tl.int64), tl.program_id(0) % chunks
    q_ptr += b * stride_qb
    p_ptr += b * stride_pb
    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    mask = offs_k < K
    drafts = tl.load(drafts_ptr + b * stride_db + offs_k * stride_dk, mask=mask, other=-1)
    drafts = drafts.to(tl.int64)
    given = drafts >= 0
    u = tl.load(uniform_ptr + b * stride_ub + offs_k * stride_uk, mask=mask, other=0.0)
    q = tl.load(q_ptr + offs_k * stride_qk + drafts * stride_qv, mask=given, other=0.0)
    p = tl.load(p_ptr + offs_k * stride_pk + drafts * stride_pv, mask=given, other=0.0)
    taken = given & (u * q < p)
    n = tl.min(tl.where(taken, K, tl.minimum(offs_k, K)), axis=0)
    is_refused = tl.sum((given & (offs_k == n)).to(tl.int32), axis=0) > 0
    if chunk == 0:
        tl.store(accepted_ptr + b, n.to(tl.int32))
        tl.store(refused_ptr + b, is_refused.to(tl.int32))
    w = weights(
        q_ptr + n * stride_qk, p_ptr + n * stride_pk, V, chunk, is_refused,
        stride_qv, stride_pv, CHUNK,
    )  # fmt: skip
    tl.store(sums_ptr + tl.program_id(0).to(tl.int64), tl.sum(w, axis=0))


@triton.jit
def draw_kernel(
    drafts_ptr, q_ptr, p_ptr, uniform_ptr, accepted_ptr, refused_ptr, sums_ptr, tokens_ptr,
    K, V, chunks,
    stride_db, stride_dk,
    stride_qb, stride_qk, stride_qv,
    stride_pb, stride_pk, stride_pv,
    stride_ub, stride_uk,
    BLOCK_K: tl.constexpr, BLOCK_C: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Find the chunk in which the running sum passes the target, then the token in it."""
    b = tl.program_id(0).to(tl.int64)
    n = tl.load(accepted_ptr + b)
    is_refused = tl.load(refused_ptr + b) > 0
    offs_c = tl.arange(0, BLOCK_C)
    sums = tl.load(sums_ptr + b * chunks + offs_c, mask=offs_c < chunks, other=0.0)
    ends = tl.cumsum(sums, axis=0)
    u = tl.load(uniform_ptr + b * stride_ub + tl.cast(K, tl.int64) * stride_uk)
    target = u * tl.max(ends, axis=0)
    passed = tl.where((ends > target) & (sums > 0), offs_c, BLOCK_C)
    # Rounding may leave no sum above the target: then it is the last that weighs something.
    last = tl.max(tl.where(sums > 0, offs_c, 0), axis=0)
    chunk = tl.minimum(tl.min(passed, axis=0), last)
    before = tl.sum(tl.where(offs_c == chunk, ends - sums, 0.0), axis=0)

    row = n.to(tl.int64)
    w = weights(
        q_ptr + b * stride_qb + row * stride_qk, p_ptr + b * stride_pb + row * stride_pk,
        V, chunk, is_refused, stride_qv, stride_pv, CHUNK,
    )  # fmt: skip
    lanes = tl.arange(0, CHUNK)
    found = tl.where((before + tl.cumsum(w, axis=0) > target) & (w > 0), lanes, CHUNK)
    last = tl.max(tl.where(w > 0, lanes, 0), axis=0)
    token = chunk.to(tl.int64) * CHUNK + tl.minimum(tl.min(found, axis=0), last)

    offs_k = tl.arange(0, BLOCK_K).to(tl.int64)
    drafts_ptrs = drafts_ptr + b * stride_db + offs_k * stride_dk
    drafts = tl.load(drafts_ptrs, mask=offs_k < n, other=-1).to(tl.int64)
    tokens = tl.where(offs_k == n, token, drafts)
    tl.store(tokens_ptr + b * (K + 1) + offs_k, tokens, mask=offs_k <= K)


def speculative_verify(
    draft_tokens: torch.Tensor,
    draft_probs: torch.Tensor,
    target_probs: torch.Tensor,
    uniform: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    of_integers = draft_tokens.dtype in (torch.int32, torch.int64)
    if draft_tokens.dim() != 2 or not draft_tokens.shape[1] or not of_integers:
        raise ValueError(
            "draft_tokens must be (B, K) of int32 or int64 with K >= 1, "
            f"not {draft_tokens.dtype} {tuple(draft_tokens.shape)}"
        )
    B, K = draft_tokens.shape
    V = draft_probs.shape[-1] if draft_probs.dim() else 0
    for name, x, shape in (
        ("draft_probs", draft_probs, (B, K, V)),
        ("target_probs", target_probs, (B, K + 1, V)),
        ("uniform", uniform, (B, K + 1)),
    ):
        if x.shape != shape or x.dtype != torch.float32:
            raise ValueError(f"{name} must be float32 {shape}, not {x.dtype} {tuple(x.shape)}")
    device = uniform.device
    chunks = triton.cdiv(V, CHUNK)
    tokens = torch.empty(B, K + 1, dtype=torch.int64, device=device)
    accepted = torch.empty(B, dtype=torch.int32, device=device)
    refused = torch.empty(B, dtype=torch.int32, device=device)
    sums = torch.empty(B, chunks, dtype=torch.float32, device=device)
    strides = (
        *draft_tokens.stride(), *draft_probs.stride(), *target_probs.stride(), *uniform.stride()
    )  # fmt: skip
    BLOCK_K = triton.next_power_of_2(K + 1)
    speculative_verify_kernel[(B * chunks,)](
        draft_tokens, draft_probs, target_probs, uniform, accepted, refused, sums,
        K, V, chunks, *strides, BLOCK_K=BLOCK_K, CHUNK=CHUNK, num_warps=8,
    )  # fmt: skip
    draw_kernel[(B,)](
        draft_tokens, draft_probs, target_probs, uniform, accepted, refused, sums, tokens,
        K, V, chunks, *strides,
        BLOCK_K=BLOCK_K, BLOCK_C=triton.next_power_of_2(chunks), CHUNK=CHUNK, num_warps=8,
    )  # fmt: skip
    return tokens, accepted
