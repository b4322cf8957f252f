"""16.4  Attention with a backward pass

Everything of chapters 13 and 16, as one function that autograd can differentiate.

    out[b, h, i] = sum_j softmax_j(q[b, h, i] . k[b, g, j] * scale) v[b, g, j],  g = h // (H // Hkv)
    over all j, or, if causal, over j <= i (also where S and T differ)
    dq, dk, dv = torch.autograd.grad(out, (q, k, v), dout)
    PyTorch: k and v .repeat_interleave(H // Hkv, dim=1), then softmax(q @ k.mT * scale) @ v

Given     q (B, H, S, D), k and v (B, Hkv, T, D): float16 or bfloat16, all of one dtype, contiguous,
          Hkv divides H, D is 16, 32, 64 or 128, S and T >= 1. scale: a float > 0; None is
          D ** -0.5. dout, which autograd passes to the backward pass: contiguous
Return    out (B, H, S, D): dtype of q. Its backward pass gives dq, dk and dv: dtype and shape of q,
          k and v, sums in float32, whatever was called in between
New here  torch.autograd.Function: what to keep for the backward pass, and what to make again
Traffic   kept for the backward pass: q, k, v and out, and 4 bytes a query; nothing larger than q is
          stored; at most nine products a tile, and if causal 0.6 of them (S and T 768); coalesced
Speed     forward and backward at least 1.5x PyTorch's speed at B 1, H 16, S and T 4096, D 64,
          float16

Run       pytest puzzles/16_flash_backward/test_autograd.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0: autograd expands the gradient of a sum; unaligned views; offsets
          and results beyond 2**31 elements
Sizes     more than 65535 heads
Values    scale 0 or negative; scores far below -1e9; the range of bfloat16; inputs that need no
          gradient, which change nothing in the gradients of the others; a second backward pass
Raise     ValueError that names q if it is not 4-D, has another D or another dtype,
          k if it does not fit q in rank, B, D, dtype or heads, and v if its shape or dtype is not
          k's.
          RuntimeError in the backward pass, as autograd has it, if q, k or v was changed in place
          since the forward pass
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/16_flash_backward/production/test_autograd.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# A file is graded by itself: copy here what the kernels of 16.1, 16.2 and 16.3 need.


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    H, GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: the forward pass: 13.4, which stores lse as 13.2 does
    # GROUP is H // Hkv, and a tile has BLOCK_M queries and BLOCK_N keys. All tensors are
    # contiguous: their strides follow from the sizes. The backward pass takes the kernels of 16.1
    # to 16.3: bring them along.
    pass


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, causal):
        # TODO: launch the forward pass; ctx.save_for_backward(...) what the backward pass needs
        raise NotImplementedError

    @staticmethod
    def backward(ctx, dout):
        # TODO: one gradient for each argument of forward, None for those that have none
        raise NotImplementedError


def differentiable_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    raise NotImplementedError  # TODO: Attention.apply(...)
