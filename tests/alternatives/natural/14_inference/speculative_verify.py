# One program a request: a loop over the drafts, then two passes over the row to draw from.

import torch
import triton
import triton.language as tl


@triton.jit
def speculative_verify_kernel(
    drafts_ptr, q_ptr, p_ptr, uniform_ptr, tokens_ptr, accepted_ptr,
    K, V,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    n = 0
    going = True
    for j in range(K):
        x = tl.load(drafts_ptr + b * K + j)
        u = tl.load(uniform_ptr + b * (K + 1) + j)
        q = tl.load(q_ptr + (b * K + j) * V + x)
        p = tl.load(p_ptr + (b * (K + 1) + j) * V + x)
        going = going & (u * q < p)
        tl.store(tokens_ptr + b * (K + 1) + j, tl.where(going, x, -1))
        n += going.to(tl.int32)
    tl.store(accepted_ptr + b, n)

    p_row = p_ptr + (b * (K + 1) + n) * V
    q_row = q_ptr + (b * K + n) * V
    total = 0.0
    for start in range(0, V, BLOCK_V):
        offs = start + tl.arange(0, BLOCK_V)
        p = tl.load(p_row + offs, mask=offs < V, other=0.0)
        q = tl.load(q_row + offs, mask=(offs < V) & (n < K), other=0.0)
        total += tl.sum(tl.maximum(p - q, 0.0), axis=0)
    target = tl.load(uniform_ptr + b * (K + 1) + K) * total
    carry = 0.0
    token = V - 1
    for start in range(0, V, BLOCK_V):
        offs = start + tl.arange(0, BLOCK_V)
        p = tl.load(p_row + offs, mask=offs < V, other=0.0)
        q = tl.load(q_row + offs, mask=(offs < V) & (n < K), other=0.0)
        w = tl.maximum(p - q, 0.0)
        running = carry + tl.cumsum(w, axis=0)
        token = tl.minimum(token, tl.min(tl.where(running > target, offs, V), axis=0))
        carry += tl.sum(w, axis=0)
    tl.debug_barrier()
    for j in range(n, K + 1):
        tl.store(tokens_ptr + b * (K + 1) + j, tl.where(j == n, token, -1))


def speculative_verify(
    draft_tokens: torch.Tensor,
    draft_probs: torch.Tensor,
    target_probs: torch.Tensor,
    uniform: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    B, K = draft_tokens.shape
    V = draft_probs.shape[2]
    tokens = torch.empty((B, K + 1), dtype=torch.int64, device=uniform.device)
    accepted = torch.empty(B, dtype=torch.int32, device=uniform.device)
    speculative_verify_kernel[(B,)](
        draft_tokens, draft_probs, target_probs, uniform, tokens, accepted, K, V,
        BLOCK_V=min(4096, triton.next_power_of_2(V)), num_warps=8,
    )  # fmt: skip
    return tokens, accepted
