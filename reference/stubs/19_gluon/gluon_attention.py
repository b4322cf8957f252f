"""19.7  Gluon attention

FlashAttention-3: two warpgroups in turn, the softmax of one under the products of the other.

    out[b, h, i] = sum_j softmax_j(q[b, h, i] . k[b, g, j] * scale) v[b, g, j],  g = h // (H // Hkv)
    over all j, or, if causal, over j <= i (also where S and T differ)     as 17.4
    source: Shah et al., "FlashAttention-3" (2024)

Given     q (B, H, S, D), k and v (B, Hkv, T, D): float16 or bfloat16, all of one dtype, contiguous,
          Hkv divides H, D is 64 or 128, any S and T; scale: a float > 0; None is D ** -0.5
Return    out (B, H, S, D): dtype of q, sums in float32
New here  probabilities that stay in registers; exponentials under a product; consumers in turn
Traffic   q loaded once; each tile of queries, at most ceil(S / 64) a head, loads the keys of its
          group once, if causal at most 0.6 of them (at S 768), for two products; out stored once,
          nothing else, coalesced, one launch; copies under way while one product is computed, by
          TMA; most exponentials of loops taken while a product of the same warpgroup is under
          way; no thread spills registers
Speed     at least 2.5x the speed of PyTorch at B 1, H 16, S and T 4096, D 128, bfloat16

Run       pytest puzzles/19_gluon/test_gluon_attention.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    heads inside rows: x.transpose(1, 2) of x (B, S, H, D); parts of larger tensors
Values    infinity and NaN reach only what they belong to; scores of any finite size
Raise     ValueError that names q if it is not 4-D, has another D or another dtype, k if it does not
          fit q in rank, B, D, dtype or heads, and v if its shape or dtype is not that of k;
          ValueError that names a q, k or v that TMA cannot address.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/19_gluon/production/test_gluon_attention.py
"""

from __future__ import annotations

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@gluon.jit
def gluon_attention_kernel(
    q_desc, k_desc, v_desc, out_desc,
    H, GROUP, S, T,
    scale,
    D: gl.constexpr, SLOTS: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    # TODO: rings and barriers, two consumers that take turns, and a producer
    # GROUP is H // Hkv. Add parameters as you need them.
    pass


def gluon_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    # TODO: allocate out, make descriptors, choose a grid, launch
    raise NotImplementedError
