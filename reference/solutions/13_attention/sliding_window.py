"""13.5  Sliding window attention: one good answer.

There are three loops: tiles that the far edge of the window cuts, whole tiles without a mask, and
tiles that the diagonal cuts. Tiles are 64 x 64, as more of a large one lies outside the window. The
maximum begins at the least float32 instead of -inf, since a row may see nothing of its first tiles,
and -inf - -inf is NaN.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def rows(source, b, h, first, last, ROWS: tl.constexpr, D: tl.constexpr):
    """[ROWS, D] of head h from row first on; what is past the last row is 0."""
    ptr, descriptor, stride_b, stride_h, stride_r, stride_d = source
    if descriptor is None:
        offs_r = first.to(tl.int64) + tl.arange(0, ROWS)
        offs_d = tl.arange(0, D).to(tl.int64)
        ptrs = ptr + b.to(tl.int64) * stride_b + h.to(tl.int64) * stride_h
        ptrs += offs_r[:, None] * stride_r + offs_d[None, :] * stride_d
        tile = tl.load(ptrs, mask=(offs_r < last)[:, None], other=0.0)
    else:
        tile = descriptor.load([b, h, first, 0]).reshape(ROWS, D)
    return tile


@triton.jit
def attend(
    acc, m, total, q, k, v, b, h,
    offs_m, first, last, window, scale,
    MASKED: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Take in the keys from first to last. MASKED: an edge of the window cuts these tiles."""
    offs_n = tl.arange(0, BLOCK_N)
    for start in range(first, last, BLOCK_N):
        keys = rows(k, b, h, start, last, BLOCK_N, D)
        scores = tl.dot(q, keys.T)  # [BLOCK_M, BLOCK_N]
        if MASKED:
            # No query below S sees a key past it, so that this is the mask of the end as well.
            back = offs_m[:, None] - (start + offs_n[None, :])
            scores = tl.where((back >= 0) & (back < window), scores, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1) * scale)
        p = tl.exp2(scores * scale - m_new[:, None])
        correction = tl.exp2(m - m_new)
        m = m_new
        total = total * correction + tl.sum(p, axis=1)
        values = rows(v, b, h, start, last, BLOCK_N, D)
        acc = tl.dot(p.to(values.dtype), values, acc * correction[:, None])
    return acc, m, total


@triton.jit
def sliding_window_kernel(
    q_ptr, k_ptr, v_ptr, q_descriptor, k_descriptor, v_descriptor, out_ptr,
    H, GROUP, S,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    stride_vb, stride_vh, stride_vs, stride_vd,
    window, scale,
    D: tl.constexpr, SIGN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # Neighbouring programs share a head, so that its keys and values stay in the L2 cache.
    tiles = tl.cdiv(S, BLOCK_M)
    head = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    b, h = head // H, head % H
    q = q_ptr, q_descriptor, stride_qb, stride_qh, stride_qs, stride_qd
    k = k_ptr, k_descriptor, stride_kb, stride_kh, stride_ks, stride_kd
    v = v_ptr, v_descriptor, stride_vb, stride_vh, stride_vs, stride_vd
    q_tile = rows(q, b, h, tile * BLOCK_M, S, BLOCK_M, D)
    if SIGN != 1:  # else q stays in shared memory and takes no registers
        q_tile = q_tile * SIGN
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    # Not -inf: a row may see nothing of its first tiles, and -inf less -inf is NaN.
    m = tl.full((BLOCK_M,), -3.4e38, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    # Keys from first on are seen by some query of the tile, those from whole to diagonal by all.
    diagonal = tile * BLOCK_M  # BLOCK_N divides BLOCK_M
    first = tl.maximum(diagonal - window + 1, 0) // BLOCK_N * BLOCK_N
    whole = tl.cdiv(tl.maximum(diagonal + BLOCK_M - window, 0), BLOCK_N) * BLOCK_N
    whole = tl.minimum(whole, diagonal)
    last = tl.minimum(diagonal + BLOCK_M, S)
    offs_m = diagonal + tl.arange(0, BLOCK_M)
    acc, m, total = attend(
        acc, m, total, q_tile, k, v, b, h // GROUP,
        offs_m, first, whole, window, scale, True, BLOCK_N, D,
    )  # fmt: skip
    acc, m, total = attend(
        acc, m, total, q_tile, k, v, b, h // GROUP,
        offs_m, whole, diagonal, window, scale, False, BLOCK_N, D,
    )  # fmt: skip
    acc, m, total = attend(
        acc, m, total, q_tile, k, v, b, h // GROUP,
        offs_m, diagonal, last, window, scale, True, BLOCK_N, D,
    )  # fmt: skip

    mask_m = offs_m < S
    out_rows = head.to(tl.int64) * S + offs_m
    out_ptrs = out_ptr + out_rows[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(out_ptrs, acc * (1.0 / total)[:, None], mask=mask_m[:, None])


def tma_can(x: torch.Tensor) -> bool:
    """TMA wants a last stride of 1, and the address and the other strides multiples of 16 bytes."""
    if x.is_cuda and torch.cuda.get_device_capability(x.device)[0] < 9:
        return False  # it came with Hopper
    aligned = all(stride * x.element_size() % 16 == 0 for stride in x.stride()[:-1])
    return x.stride(-1) == 1 and aligned and x.data_ptr() % 16 == 0


def sliding_window_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int, scale: float | None = None
) -> torch.Tensor:
    if q.dim() != 4 or q.shape[3] not in (16, 32, 64, 128):
        raise ValueError(f"q must be (B, H, S, D) with D 16, 32, 64 or 128, not {tuple(q.shape)}")
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"q must be float16 or bfloat16, not {q.dtype}")
    B, H, S, D = q.shape
    if k.dim() != 4 or k.shape != (B, k.shape[1], S, D) or H % k.shape[1] or k.dtype != q.dtype:
        raise ValueError(
            f"k must be {q.dtype} ({B}, a divisor of {H}, {S}, {D}), not {k.dtype} {tuple(k.shape)}"
        )
    if v.shape != k.shape or v.dtype != k.dtype:
        raise ValueError(f"v must be {k.dtype} {tuple(k.shape)}, not {v.dtype} {tuple(v.shape)}")
    if window < 1:
        raise ValueError(f"window must be 1 or more, not {window}")
    scale = D**-0.5 if scale is None else scale
    # The kernel wants a positive scale, as then the largest product is the largest score. The sign
    # goes into q, where it is exact, and 0 too. log2(e) turns exp into exp2.
    sign = (scale > 0) - (scale < 0)
    log2_scale = abs(scale) * math.log2(math.e) if sign else 1.0

    out = torch.empty(B, H, S, D, dtype=q.dtype, device=q.device)
    # Small tiles: of a large one, more lies outside the window.
    BLOCK_M = min(64, max(16, triton.next_power_of_2(S)))
    BLOCK_N = min(64, BLOCK_M)
    descriptors = [
        TensorDescriptor.from_tensor(x, [1, 1, block, D]) if tma_can(x) else None
        for x, block in ((q, BLOCK_M), (k, BLOCK_N), (v, BLOCK_N))
    ]
    sliding_window_kernel[(triton.cdiv(S, BLOCK_M) * B * H,)](
        q, k, v, *descriptors, out, H, H // k.shape[1], S,
        *q.stride(), *k.stride(), *v.stride(), min(window, S), log2_scale,
        D=D, SIGN=sign, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4, num_stages=2,
    )  # fmt: skip
    return out
