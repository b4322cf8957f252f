"""14.4  Top-k sampling

Draw one token a row from its k most likely, or the fewest of those that reach probability p.

    x = logits / temperature; a token stays if its logit is at least the k-th largest of the row,
    equal ones too; w = softmax over those that stay. Of these a token stays if the tokens that are
    strictly more likely have together less than p.
    token[b] = the first i with sum_{j <= i} w[j] > uniform[b] * sum_j w[j], over those that stay
    PyTorch: topk, masked_fill, softmax, sort, cumsum, masked_fill, cumsum, argmax

Given     logits (B, V): float32, float16 or bfloat16, contiguous, without NaN and +inf; -inf bans a
          token, at least one is finite; uniform (B,): float32 in [0, 1); k >= 1, V and more keep
          all; temperature > 0; 0 < p <= 1
Return    token (B,): int64, computed in float32
New here  a threshold found by bisection: the largest t with count(x >= t) >= k, bit by bit of the
          number's pattern, and the same with a mass in place of a count. Nothing is sorted
Traffic   logits loaded at most 40 times if p is 1, else 72 times; token stored once, and
          no tensor of more than B * V / 8 elements
Speed     at least 0.8x PyTorch's speed at B 64, V 128256, k 50, temperature 0.7, p 0.9, float32

Run       pytest puzzles/14_inference/test_top_k_sampling.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; offsets beyond 2**31 elements; more than 65535 rows
Values    -0.0 is as likely as 0.0; the largest and the smallest logits; uniform of either zero and
          the largest below 1; ties of half precision
Raise     ValueError that names logits (not 2-D, no elements, another dtype), uniform (not (B,), not
          float32), k (below 1), temperature (not above 0, or not finite) or p (not in (0, 1])
Speed     at least 3x the speed of PyTorch, and at least 0.9x the speed of our solution
Run       pytest puzzles/14_inference/production/test_top_k_sampling.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def top_k_sampling_kernel(
    logits_ptr, uniform_ptr, token_ptr,
    V, k, temperature, p,
    HAS_P: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program draws from one row
    # BLOCK columns at a time, as V is large; HAS_P is whether p is below 1. Add parameters as you
    # need them.
    pass


def top_k_sampling(
    logits: torch.Tensor,
    uniform: torch.Tensor,
    k: int,
    temperature: float = 1.0,
    p: float = 1.0,
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate token, choose a grid, launch
