"""16.3  The gradients of k and v

The same tiles the other way round: a program keeps a tile of keys and walks down the queries.

    p[i, j]  = exp(q[b, h, i] . k[b, g, j] * scale - lse[b, h, i]),  g = h // (H // Hkv)
    ds[i, j] = p[i, j] * (dout[b, h, i] . v[b, g, j] - delta[b, h, i])
    dv[b, g, j] = sum p[i, j] dout[b, h, i],  dk[b, g, j] = scale * sum ds[i, j] q[b, h, i]
    summed over the H // Hkv heads h of group g and all i, or all i >= j if causal

Given     q, dout (B, H, S, D), k, v (B, Hkv, T, D): float16 or bfloat16, all of one dtype, Hkv
          divides H, D is 16, 32, 64 or 128; lse, delta (B, H, S): float32; all contiguous; S and T
          may differ, causal too. scale: a float > 0; None is D ** -0.5
Return    (dk, dv), both (B, Hkv, T, D): dtype of k, sums in float32, also over the heads of a
          group; tiles of p and ds may be rounded to q's dtype
New here  two accumulators; products with a transposed tile; a sum over heads without atomics
Traffic   at most ceil(T / 64) programs a head of keys, each of which loads its part of k and v and
          its group's q, dout, lse and delta once (if causal, at most 0.6 of it at S = T = 768),
          with four products a tile; dk and dv stored once, nothing else, coalesced, one launch
Speed     at least 3.5x the speed of PyTorch at B 1, H 16, S and T 4096, D 128, float16

Run       pytest puzzles/16_flash_backward/test_dkdv.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0: autograd expands the gradient of a sum; unaligned views; offsets
          and results beyond 2**31 elements
Sizes     more than 65535 heads
Values    scale 0 or negative; the range of bfloat16
Raise     ValueError that names q if it is not 4-D, has another D or another dtype,
          k if it does not fit q in rank, B, D, dtype or heads, v if its shape or dtype is not
          k's, dout if they are not q's, lse and delta if they are not float32 (B, H, S).
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/16_flash_backward/production/test_dkdv.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def attention_dkdv_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    H, GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_N keys and walks along the queries that see them, head by head
    # GROUP is H // Hkv, and a tile has BLOCK_M queries and BLOCK_N keys. All tensors are
    # contiguous: their strides follow from the sizes. Add parameters as you need them.
    pass


def attention_dkdv(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dout: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: allocate dk and dv, choose a grid, launch
