"""16.2  The gradient of q

Recompute each tile of probabilities from q, k and lse: nothing of size S x T is loaded or stored.

    p[i, j]  = exp(q[b, h, i] . k[b, g, j] * scale - lse[b, h, i]),  g = h // (H // Hkv)
    ds[i, j] = p[i, j] * (dout[b, h, i] . v[b, g, j] - delta[b, h, i])
    dq[b, h, i] = scale * sum_j ds[i, j] k[b, g, j] over all j, or over j <= i if causal
    PyTorch: ds @ k.repeat_interleave(H // Hkv, dim=1) * scale

Given     q, dout (B, H, S, D), k, v (B, Hkv, T, D): float16 or bfloat16, all of one dtype, Hkv
          divides H, D is 16, 32, 64 or 128; lse, delta (B, H, S): float32; all contiguous; S and T
          may differ, causal too. scale: a float > 0; None is D ** -0.5
Return    dq (B, H, S, D): dtype of q, sums in float32; tiles of ds may be rounded to k's dtype
New here  recomputing from lse instead of the online softmax: no maximum, no rescaling
Traffic   at most ceil(S / 64) programs a head, each of which loads its part of q, dout, lse and
          delta and its group's keys and values once (if causal, at most 0.6 of it at S = T = 768),
          with three products a tile; dq stored once, nothing else, coalesced, one launch
Speed     at least 4x the speed of PyTorch at B 1, H 16, S and T 4096, D 128, float16

Run       pytest puzzles/16_flash_backward/test_dq.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0: autograd expands the gradient of a sum; unaligned views; offsets
          and results beyond 2**31 elements
Sizes     more than 65535 heads
Values    scale 0 or negative; the range of bfloat16
Raise     ValueError that names q if it is not 4-D, has another D or another dtype,
          k if it does not fit q in rank, B, D, dtype or heads, v if its shape or dtype is not
          k's, dout if they are not q's, lse and delta if they are not float32 (B, H, S).
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/16_flash_backward/production/test_dq.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def attention_dq_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dq_ptr,
    H, GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_M queries of one head and walks along the keys that they see
    # GROUP is H // Hkv, and a tile has BLOCK_M queries and BLOCK_N keys. All tensors are
    # contiguous: their strides follow from the sizes. Add parameters as you need them.
    pass


def attention_dq(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dout: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate dq, choose a grid, launch
