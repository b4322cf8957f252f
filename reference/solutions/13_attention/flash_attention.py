"""13.2  FlashAttention: one good answer.

Only the last tile of keys has a mask, and the others have a loop of their own. The scale is applied
to the maximum and inside the exponent, a multiplication less for each score; the sign of a negative
scale goes into q. Where strides and alignment allow it, the tensor memory accelerator loads the
tiles.
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
    first, last, scale,
    MASKED: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Take in the keys from first to last. Only the last tile is MASKED: it may overrun."""
    offs_n = tl.arange(0, BLOCK_N)
    for start in range(first, last, BLOCK_N):
        keys = rows(k, b, h, start, last, BLOCK_N, D)
        scores = tl.dot(q, keys.T)  # [BLOCK_M, BLOCK_N]
        if MASKED:
            scores = tl.where(offs_n[None, :] < last - start, scores, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1) * scale)
        p = tl.exp2(scores * scale - m_new[:, None])
        correction = tl.exp2(m - m_new)
        m = m_new
        total = total * correction + tl.sum(p, axis=1)
        values = rows(v, b, h, start, last, BLOCK_N, D)
        acc = tl.dot(p.to(values.dtype), values, acc * correction[:, None])
    return acc, m, total


@triton.jit
def flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, q_descriptor, k_descriptor, v_descriptor, out_ptr, lse_ptr,
    H, GROUP, S, T,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_kt, stride_kd,
    stride_vb, stride_vh, stride_vt, stride_vd,
    scale,
    D: tl.constexpr, SIGN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # Neighbouring programs share a head, so that its keys and values stay in the L2 cache.
    tiles = tl.cdiv(S, BLOCK_M)
    tile, head = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    b, h = head // H, head % H
    q = q_ptr, q_descriptor, stride_qb, stride_qh, stride_qs, stride_qd
    k = k_ptr, k_descriptor, stride_kb, stride_kh, stride_kt, stride_kd
    v = v_ptr, v_descriptor, stride_vb, stride_vh, stride_vt, stride_vd
    q_tile = rows(q, b, h, tile * BLOCK_M, S, BLOCK_M, D)
    if SIGN != 1:  # else q stays in shared memory and takes no registers
        q_tile = q_tile * SIGN
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    whole = T // BLOCK_N * BLOCK_N
    acc, m, total = attend(
        acc, m, total, q_tile, k, v, b, h // GROUP,
        0, whole, scale, False, BLOCK_N, D,
    )  # fmt: skip
    acc, m, total = attend(
        acc, m, total, q_tile, k, v, b, h // GROUP,
        whole, T, scale, True, BLOCK_N, D,
    )  # fmt: skip

    offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    mask_m = offs_m < S
    out_rows = head.to(tl.int64) * S + offs_m
    out_ptrs = out_ptr + out_rows[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(out_ptrs, acc * (1.0 / total)[:, None], mask=mask_m[:, None])
    lse = (m + tl.log2(total)) * 0.6931471805599453  # from base 2 to e: log(2)
    tl.store(lse_ptr + out_rows, lse, mask=mask_m)


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


def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
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
    lse = torch.empty(B, H, S, dtype=torch.float32, device=q.device)
    # Tiles that leave room for two programs, or more, on a multiprocessor.
    BLOCK_M, BLOCK_N = (64, 128) if D == 64 else (128, 64)
    BLOCK_M = min(BLOCK_M, max(16, triton.next_power_of_2(S)))
    BLOCK_N = min(BLOCK_N, max(16, triton.next_power_of_2(T)))
    descriptors = [
        TensorDescriptor.from_tensor(x, [1, 1, block, D]) if tma_can(x) else None
        for x, block in ((q, BLOCK_M), (k, BLOCK_N), (v, BLOCK_N))
    ]
    num_stages, maxnreg = 2, None
    if D == 64 and all(descriptors):
        if few(triton.cdiv(S, BLOCK_M) * B * H, q.device):
            num_stages = 3  # 0.0176 ms instead of 0.0199 for 1 x 16 x 1024 x 64 (H100, 2026-11-27)
        elif T % 16:
            # The mask makes the compiler take 186 registers, with which two programs fit a
            # multiprocessor. With 168 three do: on an H200 0.50 ms instead of 0.63 for
            # 3 x 31 x 3001 x 64 (2026-11-26).
            maxnreg = 168
    flash_attention_kernel[(triton.cdiv(S, BLOCK_M) * B * H,)](
        q, k, v, *descriptors, out, lse, H, H // k.shape[1], S, T,
        *q.stride(), *k.stride(), *v.stride(), log2_scale,
        D=D, SIGN=sign, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4,
        num_stages=num_stages, maxnreg=maxnreg,
    )  # fmt: skip
    return out, lse
