"""13.3  Causal attention: one good answer.

Tiles below the diagonal go without a mask, in a loop of their own, and only those that it cuts have
one. The last queries see the most keys: they begin, and the short programs end. Where strides and
alignment allow it, the tensor memory accelerator loads the tiles.
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
    offs_m, first, last, scale,
    MASKED: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Take in the keys from first to last. MASKED: the diagonal cuts these tiles, or the end."""
    offs_n = tl.arange(0, BLOCK_N)
    for start in range(first, last, BLOCK_N):
        keys = rows(k, b, h, start, last, BLOCK_N, D)
        scores = tl.dot(q, keys.T)  # [BLOCK_M, BLOCK_N]
        if MASKED:
            # No query below S sees a key past it, so that this is the mask of the end as well.
            seen = start + offs_n[None, :] <= offs_m[:, None]
            scores = tl.where(seen, scores, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1) * scale)
        p = tl.exp2(scores * scale - m_new[:, None])
        correction = tl.exp2(m - m_new)
        m = m_new
        total = total * correction + tl.sum(p, axis=1)
        values = rows(v, b, h, start, last, BLOCK_N, D)
        acc = tl.dot(p.to(values.dtype), values, acc * correction[:, None])
    return acc, m, total


@triton.jit
def causal_attention_kernel(
    q_ptr, k_ptr, v_ptr, q_descriptor, k_descriptor, v_descriptor, out_ptr,
    H, GROUP, S,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_ks, stride_kd,
    stride_vb, stride_vh, stride_vs, stride_vd,
    sign, scale,
    D: tl.constexpr, REGISTERS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # Neighbouring programs share a head, so that its keys and values stay in the L2 cache.
    tiles = tl.cdiv(S, BLOCK_M)
    head = tl.program_id(0) // tiles
    # The last queries see the most keys: begin with them, and end with the short programs.
    tile = tiles - 1 - tl.program_id(0) % tiles
    b, h = head // H, head % H
    q = q_ptr, q_descriptor, stride_qb, stride_qh, stride_qs, stride_qd
    k = k_ptr, k_descriptor, stride_kb, stride_kh, stride_ks, stride_kd
    v = v_ptr, v_descriptor, stride_vb, stride_vh, stride_vs, stride_vd
    q_tile = rows(q, b, h, tile * BLOCK_M, S, BLOCK_M, D)
    if REGISTERS:
        q_tile = (q_tile * sign).to(q_tile.dtype)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    diagonal = tile * BLOCK_M // BLOCK_N * BLOCK_N
    last = tl.minimum(tile * BLOCK_M + BLOCK_M, S)
    offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    acc, m, total = attend(
        acc, m, total, q_tile, k, v, b, h // GROUP,
        offs_m, 0, diagonal, scale, False, BLOCK_N, D,
    )  # fmt: skip
    acc, m, total = attend(
        acc, m, total, q_tile, k, v, b, h // GROUP,
        offs_m, diagonal, last, scale, True, BLOCK_N, D,
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


def few(tiles: int, device: torch.device) -> bool:
    """Whether two programs a multiprocessor take all tiles, and have room for three stages."""
    if device.type != "cuda":
        return False
    properties = torch.cuda.get_device_properties(device)
    # GPUs of workstations, with 99 KiB of shared memory, have other numbers.
    large = properties.major in (9, 10)
    return large and tiles <= 2 * properties.multi_processor_count


def causal_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
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
    scale = D**-0.5 if scale is None else scale
    # The kernel wants a positive scale, as then the largest product is the largest score. The sign
    # goes into q, where it is exact, and 0 too. log2(e) turns exp into exp2.
    sign = (scale > 0) - (scale < 0)
    log2_scale = abs(scale) * math.log2(math.e) if sign else 1.0

    out = torch.empty(B, H, S, D, dtype=q.dtype, device=q.device)
    BLOCK_M = min(128 if D == 128 else 64, max(16, triton.next_power_of_2(S)))
    BLOCK_N = min(64, BLOCK_M)
    aligned = D == 64 and all(map(tma_can, (q, k, v)))
    wide = aligned and few(triton.cdiv(S, BLOCK_M) * B * H, q.device)
    if wide:
        BLOCK_N = 128  # 0.0175 ms instead of 0.0189 for 1 x 16 x 1024 x 64 (H100, 2026-11-27)
    descriptors = [
        TensorDescriptor.from_tensor(x, [1, 1, block, D]) if tma_can(x) else None
        for x, block in ((q, BLOCK_M), (k, BLOCK_N), (v, BLOCK_N))
    ]
    # What is multiplied stays in registers, and the tensor cores read it there: q takes nothing of
    # the bandwidth of shared memory then. With D 128 there are no registers left for it.
    registers = sign != 1 or (D < 128 and not wide)
    # Two stages of D 128 leave room for two programs on a multiprocessor.
    causal_attention_kernel[(triton.cdiv(S, BLOCK_M) * B * H,)](
        q, k, v, *descriptors, out, H, H // k.shape[1], S,
        *q.stride(), *k.stride(), *v.stride(), float(sign), log2_scale,
        D=D, REGISTERS=registers, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
        num_warps=4, num_stages=2 if D == 128 else 3,
    )  # fmt: skip
    return out
