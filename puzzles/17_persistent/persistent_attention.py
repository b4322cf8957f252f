"""17.4  Persistent attention

Tiles of unequal length, dealt so that all multiprocessors finish together.

    out[b, h, i] = sum_j softmax_j(q[b, h, i] . k[b, g, j] * scale) v[b, g, j],  g = h // (H // Hkv)
    over all j, or, if causal, over j <= i (also where S and T differ)
    PyTorch: k and v .repeat_interleave(H // Hkv, dim=1), then softmax(q @ k.mT * scale) @ v

Given     q (B, H, S, D), k and v (B, Hkv, T, D): float16 or bfloat16, all of one dtype, contiguous,
          Hkv divides H, D is 16, 32, 64 or 128, S and T are any sizes >= 1
          scale: a float > 0; None is D ** -0.5
Return    out (B, H, S, D): dtype of q, sums in float32
New here  an order of tiles by their length, and a rule that deals them to programs
Traffic   at most 4 multiprocessors(q.device) programs, since small ones share a multiprocessor;
          q loaded once; each tile of queries, at most ceil(S / 64) a head, loads the keys and
          values of its group once, and if causal at most 0.6 of them (at S and T 768), and tl.dot
          does as little; out stored once, nothing else but a counter of tiles if you deal by one,
          coalesced, one launch
Speed     at least 4.5x the speed of PyTorch at B 1, H 16, S and T 4096, D 128, float16, causal

Run       pytest puzzles/17_persistent/test_persistent_attention.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; unaligned views; offsets and results beyond 2**31 elements
Values    scale 0 or negative; scores far below -1e9; the range of bfloat16
Raise     ValueError that names q if it is not 4-D, has another D or another dtype,
          k if it does not fit q in rank, B, D, dtype or heads, and v if its shape or dtype is
          not k's.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/17_persistent/production/test_persistent_attention.py
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def persistent_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    B, H, GROUP, S, T,
    scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program finishes BLOCK_M queries of a head, then takes the next of its own
    # GROUP is H // Hkv, and a tile has BLOCK_M queries and BLOCK_N keys. All tensors are
    # contiguous: their strides follow from the sizes. Add parameters as you need them.
    pass


def persistent_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate out, choose a grid, launch
