"""17.4  Persistent attention

Tiles of unequal length, dealt so that all multiprocessors finish together.

    out[b, h, i] = sum_j softmax_j(q[b, h, i] . k[b, g, j] * scale) v[b, g, j],  g = h // (H // Hkv)
    over all j, or, if causal, over j <= i (also where S and T differ)
    PyTorch: k and v .repeat_interleave(H // Hkv, dim=1), then softmax(q @ k.mT * scale) @ v

Given     q (B, H, S, D), k and v (B, Hkv, T, D), Hkv divides H, D is 16, 32, 64 or 128: float16 or
          bfloat16, any strides, any other sizes >= 1, S and T may differ, causal or not
          scale: any float, 0 and below too; None is D ** -0.5
Return    out (B, H, S, D): dtype of q, contiguous, sums in float32
Raise     ValueError that names q if it is not 4-D, has another D or another dtype,
          k if it does not fit q in rank, B, D, dtype or heads, and v if its shape or dtype is
          not k's
New here  an order of tiles by their length, and a rule that deals them to programs
Traffic   at most multiprocessors(q.device) programs; q loaded once; each tile of queries, at most
          ceil(S / 64) a head, loads the keys and values of its group once, and if causal at most
          0.6 of them (at S and T 1024), and tl.dot does as little; out stored once, nothing else
          but a counter of tiles if you deal by one, one launch
Speed     at least 4x of PyTorch at B 1, H 16, S and T 4096, D 128, float16, causal

Run       pytest puzzles/17_persistent/test_persistent_attention.py
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
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_kt, stride_kd,
    stride_vb, stride_vh, stride_vt, stride_vd,
    scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_M queries of a head to their end, then the next that are its own
    pass


def persistent_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate out, choose a grid, launch
