"""14.5  Speculative verification

Decide which of K drafted tokens a large model accepts, and draw the token that follows them.

    With x = draft_tokens[b], q = draft_probs[b], p = target_probs[b], u = uniform[b], draft j is
    taken if all before it were and u[j] * q[j, x[j]] < p[j, x[j]]. Of n taken drafts,
    w = max(p[n] - q[n], 0) if n < K, else p[K]; the token drawn from w is
    the first i with sum_{j <= i} w[j] > u[K] * sum_j w[j]
    source: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding" (2023)

Given     draft_tokens (B, K): int64 in [0, V), K >= 1; draft_probs (B, K, V), target_probs
          (B, K + 1, V), uniform (B, K + 1): float32, contiguous; each row of probabilities adds up
          to about 1
Return    tokens (B, K + 1): int64, the drafts taken, then the token drawn, then -1;
          accepted (B,): int32, n
New here  a decision that says what to read: only row n of p and q
Traffic   one row of draft_probs and of target_probs for each b loaded, at most twice, besides the
          drafts' probabilities; nothing of that size stored; at most 2 launches
Speed     at least 3.5x the speed of PyTorch at B 64, K 4, V 128256

Run       pytest puzzles/14_inference/test_speculative_verify.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; offsets beyond 2**31 elements
Drafts    int32 too; -1 from some j on where fewer were drafted: nothing is refused there, and the
          token is drawn from target_probs[b, j] itself
Values    0, -0.0, subnormal and equal probabilities; uniform in [0, 1); ties as the formulas say.
          Where no w is above 0, the token drawn is free
Waiting   the launcher reads nothing back
Raise     ValueError that names draft_tokens (not 2-D, K = 0, not int32 or int64), or draft_probs,
          target_probs or uniform (another shape, not float32)
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/14_inference/production/test_speculative_verify.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def speculative_verify_kernel(
    drafts_ptr, q_ptr, p_ptr, uniform_ptr, accepted_ptr,
    K, V,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: one program verifies the drafts of one request, or a part of its row. Draw and store too
    # q_ptr and p_ptr are the draft's and the target's probabilities, and BLOCK_K is
    # triton.next_power_of_2(K + 1). Add tokens_ptr, and a constexpr for how many of the V columns
    # it takes at a time.
    pass


def speculative_verify(
    draft_tokens: torch.Tensor,
    draft_probs: torch.Tensor,
    target_probs: torch.Tensor,
    uniform: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: allocate both results, choose a grid, launch
