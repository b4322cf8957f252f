"""15.1  Choose k experts

A router gives each token one logit for each expert. Choose the best k and weight them.

    experts[t, :] = indices of the k largest of logits[t, :], largest first; of equal logits the one
                    with the lower index comes first
    weights[t, :] = softmax of those k logits
    balance       = E * sum_e f[e] * P[e], which is 1 if all experts are used alike:
                    f[e] is the share of e in experts, P[e] the mean of softmax(logits)[:, e]

Given     logits (T, E): float16, bfloat16 or float32, contiguous, at most 1024 experts; some may be
          -inf, of experts that are masked out; k: int, 1 <= k <= E (here at most 8)
Return    weights (T, k) float32, experts (T, k) int32, balance () float32, computed in float32;
          the same bits on every run
New here  choosing by repeated maxima; two sums over all tokens, besides a result for each
Traffic   logits read once, coalesced, weights and experts written once, at most two launches; what
          programs store for one another is at most a quarter of that
Speed     at least 1x the speed of PyTorch at 262144 tokens, 64 experts, k = 8, bfloat16

Run       pytest puzzles/15_moe/test_route_top_k.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; offsets and results beyond 2**31 elements
Sizes     k up to E, E up to 1024
Values    as torch.sort(logits, descending=True, stable=True) orders them: NaN above inf, -0.0 equal
          to 0.0. A token with NaN, or whose logits are all -inf, has weights of NaN. Large logits
Raise     ValueError that names logits if it is not 2-D, has another dtype or more than 1024
          columns, and k if it is below 1 or above E.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/15_moe/production/test_route_top_k.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def route_kernel(
    logits_ptr, weights_ptr, experts_ptr, parts_ptr,
    T, E,
    K: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    # TODO: choose for some tokens, and store this program's part of the sums over tokens
    # K is k; BLOCK_T tokens are taken at a time; BLOCK_E is triton.next_power_of_2(E). Add
    # parameters as you need them.
    pass


@triton.jit
def balance_kernel(
    parts_ptr, balance_ptr,
    T, E, parts,
    K: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    # TODO: add the parts
    # parts is how many programs stored one.
    pass


def route_top_k(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: allocate, choose a grid, launch twice
