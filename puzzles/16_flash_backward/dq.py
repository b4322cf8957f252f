"""16.2  The gradient of q

Each tile of probabilities is made again from q, k and lse, used, and dropped: nothing of size S x T
comes from memory or goes there.

    p[i, j]  = exp(q[b, h, i] . k[b, g, j] * scale - lse[b, h, i]),  g = h // (H // Hkv)
    dp[i, j] = dout[b, h, i] . v[b, g, j]
    ds[i, j] = p[i, j] * (dp[i, j] - delta[b, h, i])
    dq[b, h, i] = scale * sum_j ds[i, j] k[b, g, j]
    over all j, or, if causal, over j <= i (also where S and T differ)
    PyTorch: ds @ k.repeat_interleave(H // Hkv, dim=1) * scale
    source: Dao, "FlashAttention-2" (2023), its backward pass

Given     q and dout (B, H, S, D), k and v (B, Hkv, T, D), Hkv divides H, D is 16, 32, 64 or 128:
          float16 or bfloat16; lse and delta (B, H, S): float32; any strides, 0 too, any other
          sizes >= 1, S and T may differ, causal or not
          scale: any float, 0 and below too; None is D ** -0.5
Return    dq (B, H, S, D): dtype of q, contiguous, sums in float32; the tile of ds may be rounded to
          k's dtype for its product
Raise     ValueError that names q if it is not 4-D, has another D or another dtype,
          k if it does not fit q in rank, B, D, dtype or heads, v if its shape or dtype is not
          k's, dout if they are not q's, lse and delta if they are not float32 (B, H, S)
New here  recomputing from lse instead of the online softmax: no maximum, no rescaling
Traffic   one program for each tile of queries, at most ceil(S / 64) a head; q, dout, lse and delta
          loaded once; a program loads the keys and values of its group once, and if causal at most
          0.6 of them (at S and T 1024), and tl.dot does as little: three products a tile; dq stored
          once, nothing else, one launch
Speed     at least 2x of PyTorch at B 1, H 16, S and T 4096, D 128, float16

Run       pytest puzzles/16_flash_backward/test_dq.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def attention_dq_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, delta_ptr, dq_ptr,
    q_strides, k_strides, v_strides, dout_strides, lse_strides, delta_strides,
    H, GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_M queries of one head and walks along the keys that they see
    # (q_strides is q.stride(): a launch takes tuples, and the kernel reads q_strides[0])
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
    raise NotImplementedError  # TODO: check the inputs, allocate dq, choose a grid, launch
