"""16.1  Delta

One number a query, which the gradient of each of its scores needs: the row's part of the backward
pass of softmax.

    delta[b, h, i] = sum_d out[b, h, i, d] * dout[b, h, i, d]
    PyTorch: (out.float() * dout.float()).sum(-1)
    source: Dao et al., "FlashAttention" (2022), its backward pass

Given     out and dout (B, H, S, D): float16 or bfloat16, both of one dtype, contiguous,
          D is 16, 32, 64 or 128, any other sizes >= 1
Return    delta (B, H, S): float32; products and sums in float32
New here  the same sum as sum_j p[i, j] * dp[i, j], without p: it is over D, not over T
Traffic   each input loaded once, delta stored once, coalesced, one launch
Speed     at least 3x the speed of PyTorch at B 4, H 32, S 4096, D 128, float16

Run       pytest puzzles/16_flash_backward/test_delta.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0: autograd expands the gradient of a sum; unaligned views; offsets
          and results beyond 2**31 elements
Sizes     more than 65535 heads
Raise     ValueError that names out if it is not 4-D, has another D or another dtype, and dout if
          its shape or dtype is not out's.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/16_flash_backward/production/test_delta.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def attention_delta_kernel(
    out_ptr, dout_ptr, delta_ptr,
    S,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_M queries of one head
    # Both tensors are contiguous: B * H matrices of S rows. Add parameters as you need them.
    pass


def attention_delta(out: torch.Tensor, dout: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate delta, choose a grid, launch
