"""15.4  Mixture of experts

The whole layer: each token goes through k experts, and their results are added with its weights.

    out[t] = sum_j weights[t, j] * (silu(g) * u) @ down[e].T, where e = experts[t, j] and
    g, u   = the first and the second half of x[t] @ gate_up[e].T
    experts and weights are those of 15.1 for logits and k; silu(v) = v * sigmoid(v)

Given     x (T, D): float16 or bfloat16; logits (T, E): float32 or x's dtype; gate_up (E, 2 F, D)
          and down (E, D, F) of x's dtype; all contiguous; k: int, 1 <= k <= E <= 1024
Return    out (T, D): dtype of x, contiguous, the same bits on every run. All sums in float32;
          silu(g) * u is rounded to x's dtype, as each expert's result may be. No token is dropped,
          however many choose the same expert
New here  everything in a row: 15.1, 15.2, a grouped product whose epilogue is SwiGLU, another one,
          and a sum over the choices in a fixed order. Bring the kernels of 15.1 and 15.2 along
Traffic   at most 8 launches; products in blocks of 16 to 128 assignments of one expert; logits
          read once, each weight at most once a block; out stored once, gate and up never
Speed     at least 1.5x the speed of a loop over the experts at T = 4096, D = 2048, F = 1408, 64
          experts, k = 8, bfloat16

Run       pytest puzzles/15_moe/test_fused_moe.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; offsets beyond 2**31 elements
Values    the whole range of bfloat16; NaN in x or logits stays in its token; weights in float32
Raise     ValueError that names x if it is not 2-D or has another dtype, logits if it is not (T, E)
          or neither float32 nor of x's dtype, gate_up if it is not (E, 2 F, D) with E at most
          1024, down if it is not (E, D, F), either if it has not x's dtype, and k if it is below 1
          or above E.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/15_moe/production/test_fused_moe.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gate_up_kernel(
    x_ptr, gate_up_ptr, order_ptr, block_experts_ptr, h_ptr,
    N, D, F, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: silu(g) * u for one block of order; N = T * k assignments
    # BLOCK_M is the length of a block. Add GROUP_M or other parameters as you need them.
    pass


@triton.jit
def down_kernel(
    h_ptr, down_ptr, order_ptr, block_experts_ptr, y_ptr,
    N, D, F,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: what the expert returns for each assignment of one block
    # Add parameters as you need them.
    pass


@triton.jit
def combine_kernel(
    y_ptr, weights_ptr, out_ptr,
    T, D,
    K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # TODO: add the k results of each token with its weights
    # K is k, and BLOCK_D is how many columns it takes at a time.
    pass


def fused_moe(
    x: torch.Tensor, logits: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, k: int
) -> torch.Tensor:
    raise NotImplementedError  # TODO: choose, sort, multiply twice, add
