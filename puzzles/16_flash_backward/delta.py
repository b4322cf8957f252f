"""16.1  Delta

One number a query, which the gradient of each of its scores needs: the row's part of softmax's
backward pass.

    delta[b, h, i] = sum_d out[b, h, i, d] * dout[b, h, i, d]
    PyTorch: (out.float() * dout.float()).sum(-1)
    source: Dao et al., "FlashAttention" (2022), its backward pass

Given     out and dout (B, H, S, D), D is 16, 32, 64 or 128: float16 or bfloat16, any strides, 0
          too, any other sizes >= 1
Return    delta (B, H, S): float32, contiguous, products and sums in float32
Raise     ValueError that names out if it is not 4-D, has another D or another dtype, and dout if
          its shape or dtype is not out's
New here  the same sum as sum_j p[i, j] * dp[i, j], without p: it is over D, not over T
Traffic   each input loaded once, delta stored once, one launch
Speed     at least 1.5x of PyTorch at B 4, H 32, S 4096, D 128, float16

Run       pytest puzzles/16_flash_backward/test_delta.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def attention_delta_kernel(
    out_ptr, dout_ptr, delta_ptr,
    H, S,
    stride_ob, stride_oh, stride_os, stride_od,
    stride_gb, stride_gh, stride_gs, stride_gd,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_M queries of one head
    pass


def attention_delta(out: torch.Tensor, dout: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate delta, choose a grid, launch
