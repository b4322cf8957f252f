"""15.3  Products with experts

Multiply the row of each assignment by the weight of its expert, in one launch.

    y[a] = x[a // top_k] @ weights[e].T      for each assignment a in a block of e

Given     x (T, K), weights (E, N, K) as Linears have them: float16, bfloat16 or float32, both of
          one dtype, contiguous; order, block_experts: int32, as 15.2 returns them for T * top_k
          assignments: block = len(order) / len(block_experts) is 16, 32, 64 or 128; top_k: int
Return    y (T * top_k, N): dtype of x, contiguous, summed in float32 (float32 factors may round to
          tf32)
New here  a product whose rows are gathered before it and scattered after it; the weight of a tile
          is looked up; places in order that hold T * top_k are neither loaded nor stored
Traffic   each block that is used reads its expert's weight at most once, x is read at most
          ceil(top_k * N / 32) times, y stored once; weights and y coalesced; nothing is multiplied
          for unused blocks; one launch
Speed     at least 1x the speed of a loop over the experts at T = 8192, K = 2048, N = 2816, 64
          experts, top_k = 8, block 128, bfloat16

Run       pytest puzzles/15_moe/test_grouped_expert_gemm.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    strides of 0, unaligned views, offsets and results beyond 2**31 elements
Values    an assignment that no block has, because it was dropped, gets a row of 0; NaN and inf as
          in PyTorch, the whole range of float32 and bfloat16
Raise     ValueError that names x if it is not 2-D or has another dtype, weights if it is not 3-D,
          has no K columns, or has another dtype than x, order and block_experts if they are not
          1-D or not int32, order if it is not made of whole blocks of 16, 32, 64 or 128, and top_k
          if it is below 1. What order and block_experts hold is trusted.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/15_moe/production/test_grouped_expert_gemm.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def expert_gemm_kernel(
    x_ptr, weights_ptr, order_ptr, block_experts_ptr, y_ptr,
    M, N, K, top_k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes some columns of y for one block of order
    # M is T * top_k, and BLOCK_M is the length of a block. Add parameters as you need them.
    pass


def grouped_expert_gemm(
    x: torch.Tensor,
    weights: torch.Tensor,
    order: torch.Tensor,
    block_experts: torch.Tensor,
    top_k: int = 1,
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose a grid, launch
