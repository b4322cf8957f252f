# fault: the total is summed from p - q without the maximum with 0
# cause: p - q: with tl\.maximum\(p - q, 0\.0\) in its place
from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def speculative_verify_kernel(
    drafts_ptr, q_ptr, p_ptr, uniform_ptr, accepted_ptr, tokens_ptr,
    K, V,
    BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BLOCK_K)
    drafted = j < K
    x = tl.load(drafts_ptr + b * K + j, mask=drafted, other=0)
    qx = tl.load(q_ptr + (b * K + j) * V + x, mask=drafted, other=0.0)
    px = tl.load(p_ptr + (b * (K + 1) + j) * V + x, mask=drafted, other=0.0)
    u = tl.load(uniform_ptr + b * (K + 1) + j, mask=drafted, other=0.0)
    taken = drafted & (u * qx < px)
    n = tl.min(tl.where(taken, BLOCK_K, j))
    q_row = q_ptr + (b * K + n) * V
    p_row = p_ptr + (b * (K + 1) + n) * V
    total = 0.0
    for start in range(0, V, BLOCK_V):
        v = start + tl.arange(0, BLOCK_V)
        p = tl.load(p_row + v, mask=v < V, other=0.0)
        q = tl.load(q_row + v, mask=(v < V) & (n < K), other=0.0)
        total += tl.sum(p - q)
    limit = tl.load(uniform_ptr + b * (K + 1) + K) * total
    carry = 0.0
    token = V
    last = 0
    for start in range(0, V, BLOCK_V):
        v = start + tl.arange(0, BLOCK_V)
        p = tl.load(p_row + v, mask=v < V, other=0.0)
        q = tl.load(q_row + v, mask=(v < V) & (n < K), other=0.0)
        w = tl.maximum(p - q, 0.0)
        sums = carry + tl.cumsum(w, axis=0)
        token = tl.minimum(token, tl.min(tl.where((sums > limit) & (v < V), v, V)))
        last = tl.maximum(last, tl.max(tl.where(w > 0, v, 0)))
        carry += tl.sum(w)
    token = tl.where(token < V, token, last)
    result = tl.where(j < n, x, tl.where(j == n, token.to(tl.int64), -1))
    tl.store(tokens_ptr + b * (K + 1) + j, result, mask=j <= K)
    tl.store(accepted_ptr + b, n)


def speculative_verify(
    draft_tokens: torch.Tensor,
    draft_probs: torch.Tensor,
    target_probs: torch.Tensor,
    uniform: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    B, K, V = draft_probs.shape
    tokens = torch.empty(B, K + 1, dtype=torch.int64, device=draft_tokens.device)
    accepted = torch.empty(B, dtype=torch.int32, device=draft_tokens.device)
    speculative_verify_kernel[(B,)](
        draft_tokens, draft_probs, target_probs, uniform, accepted, tokens, K, V,
        BLOCK_K=triton.next_power_of_2(K + 1), BLOCK_V=1024,
    )  # fmt: skip
    return tokens, accepted
