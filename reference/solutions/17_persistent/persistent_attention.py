"""17.4  Persistent attention: one good answer.

Two or three programs stay on each multiprocessor, as tiles are small enough: while one
exponentiates, another multiplies. If causal, a program takes a long tile of a head and then the
short one that makes up for it, so that all pairs have about the same work. Neighbouring programs
share a head, whose keys and values stay in the L2 cache. Only tiles that the diagonal or the end
cuts have a mask.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an H100's in the interpreter."""
    if device.type != "cuda":
        return 227 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


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
    CAUSAL: tl.constexpr, MASKED: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Take in the keys from first to last. MASKED: the diagonal cuts these tiles, or the end."""
    offs_n = tl.arange(0, BLOCK_N)
    for start in range(first, last, BLOCK_N):
        keys = rows(k, b, h, start, last, BLOCK_N, D)
        scores = tl.dot(q, keys.T)  # [BLOCK_M, BLOCK_N]
        if MASKED:
            seen = offs_n[None, :] < last - start
            if CAUSAL:
                seen = seen & (start + offs_n[None, :] <= offs_m[:, None])
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
def persistent_attention_kernel(
    q_ptr, k_ptr, v_ptr, q_descriptor, k_descriptor, v_descriptor, out_ptr,
    B, H, GROUP, S, T,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_kt, stride_kd,
    stride_vb, stride_vh, stride_vt, stride_vd,
    sign, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, PAIRS: tl.constexpr, REGISTERS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    q = q_ptr, q_descriptor, stride_qb, stride_qh, stride_qs, stride_qd
    k = k_ptr, k_descriptor, stride_kb, stride_kh, stride_kt, stride_kd
    v = v_ptr, v_descriptor, stride_vb, stride_vh, stride_vt, stride_vd
    # What is dealt is a tile, or a pair: the last of a head and its first, which see the most keys
    # and the fewest, then the last but one and the second, and so on to the middle.
    EACH: tl.constexpr = 2 if PAIRS else 1
    heads, tiles = B * H, tl.cdiv(S, BLOCK_M)
    shares = tl.cdiv(tiles, EACH)
    programs = tl.num_programs(0)
    for turn in range(EACH * tl.cdiv(heads * shares - tl.program_id(0), programs)):
        place = turn // EACH * programs + tl.program_id(0)
        head, tile = place // shares, place % shares
        if turn % EACH == 0:
            tile = tiles - 1 - tile
        # The middle of an odd number of tiles is a pair by itself.
        if (turn % EACH == 0) | (tile != tiles - 1 - tile):
            b, h = head // H, head % H
            q_tile = rows(q, b, h, tile * BLOCK_M, S, BLOCK_M, D)
            if REGISTERS:  # else q stays in shared memory and takes no registers
                q_tile = (q_tile * sign).to(q_tile.dtype)
            acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
            m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
            total = tl.zeros((BLOCK_M,), dtype=tl.float32)
            whole, last = T // BLOCK_N * BLOCK_N, T
            if CAUSAL:
                whole = tl.minimum(whole, tile * BLOCK_M // BLOCK_N * BLOCK_N)
                last = tl.minimum(T, tile * BLOCK_M + BLOCK_M)
            offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
            acc, m, total = attend(
                acc, m, total, q_tile, k, v, b, h // GROUP,
                offs_m, 0, whole, scale, CAUSAL, False, BLOCK_N, D,
            )  # fmt: skip
            acc, m, total = attend(
                acc, m, total, q_tile, k, v, b, h // GROUP,
                offs_m, whole, last, scale, CAUSAL, True, BLOCK_N, D,
            )  # fmt: skip

            out_rows = head.to(tl.int64) * S + offs_m
            out_ptrs = out_ptr + out_rows[:, None] * D + tl.arange(0, D)[None, :]
            tl.store(out_ptrs, acc * (1.0 / total)[:, None], mask=(offs_m < S)[:, None])


def tma_can(x: torch.Tensor) -> bool:
    """TMA wants a last stride of 1, and the address and the other strides multiples of 16 bytes."""
    if x.is_cuda and torch.cuda.get_device_capability(x.device)[0] < 9:
        return False  # it came with Hopper
    aligned = all(stride * x.element_size() % 16 == 0 for stride in x.stride()[:-1])
    return x.stride(-1) == 1 and min(x.stride()) > 0 and aligned and x.data_ptr() % 16 == 0


def persistent_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    if q.dim() != 4 or q.shape[3] not in (16, 32, 64, 128):
        raise ValueError(f"q must be (B, H, S, D) with D 16, 32, 64 or 128, not {tuple(q.shape)}")
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"q must be float16 or bfloat16, not {q.dtype}")
    B, H, S, D = q.shape
    if k.dim() != 4 or k.shape[::3] != (B, D) or H % k.shape[1] or k.dtype != q.dtype:
        raise ValueError(
            f"k must be {q.dtype} ({B}, a divisor of {H}, T, {D}), not {k.dtype} {tuple(k.shape)}"
        )
    if v.shape != k.shape or v.dtype != k.dtype:
        raise ValueError(f"v must be {k.dtype} {tuple(k.shape)}, not {v.dtype} {tuple(v.shape)}")
    T = k.shape[2]
    scale = D**-0.5 if scale is None else scale
    # The kernel wants a positive scale, as then the largest product is the largest score. The sign
    # goes into q, where it is exact, and 0 too. log2(e) turns exp into exp2.
    sign = (scale > 0) - (scale < 0)
    log2_scale = abs(scale) * math.log2(math.e) if sign else 1.0

    out = torch.empty(B, H, S, D, dtype=q.dtype, device=q.device)
    # Tiles that leave room for two programs on a multiprocessor, and for three with D 64.
    BLOCK_M, BLOCK_N = (64, 128) if D == 64 else (128, 64)
    BLOCK_M = min(BLOCK_M, max(16, triton.next_power_of_2(S)))
    BLOCK_N = min(BLOCK_N, max(16, triton.next_power_of_2(T)))
    descriptors = [
        TensorDescriptor.from_tensor(x, [1, 1, block, D]) if tma_can(x) else None
        for x, block in ((q, BLOCK_M), (k, BLOCK_N), (v, BLOCK_N))
    ]
    tiles = triton.cdiv(S, BLOCK_M) * B * H
    each, num_stages, maxnreg = 2, 2, None
    if D == 64 and all(descriptors):
        if tiles > each * multiprocessors(q.device):
            # With 168 registers a thread three programs fit a multiprocessor.
            each, maxnreg = 3, 168
        elif shared_memory(q.device) >= 200 * 1024:
            num_stages = 3
    programs = min(tiles, each * multiprocessors(q.device))
    persistent_attention_kernel[(programs,)](
        q, k, v, *descriptors, out, B, H, H // k.shape[1], S, T,
        *q.stride(), *k.stride(), *v.stride(), float(sign), log2_scale,
        D=D, CAUSAL=causal, PAIRS=causal and tiles > programs, REGISTERS=sign != 1,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4, num_stages=num_stages, maxnreg=maxnreg,
    )  # fmt: skip
    return out
