"""17.4  Persistent attention: one good answer.

The deal reverses every turn: a program that got the longest tile gets the shortest next, so that
all have about the same work. If causal, the last queries of all heads come first; otherwise
neighbours share a head, whose keys stay in the L2 cache. Only tiles that the diagonal or the end
cuts have a mask. Where there is much to do, descriptors load the tiles, as in 17.3, and narrow
heads have tiles of 256 queries in 16 warps, of which some multiply while others exponentiate.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# Multiplications of q with k from which on descriptors gain time.
LARGE = 2**26


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def attend(
    acc, m, total, q, k_ptrs, v_ptrs, k_descriptor, v_descriptor, b, g,
    offs_m, first, last,
    step_k, step_v,
    scale,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Take in the keys from first to last. MASKED: the diagonal cuts these tiles, or the end."""
    offs_n = tl.arange(0, BLOCK_N)
    for start in range(first, last, BLOCK_N):
        inside = offs_n < last - start
        if k_descriptor is None:
            k = tl.load(k_ptrs, mask=inside[None, :], other=0.0) if MASKED else tl.load(k_ptrs)
        else:
            k = k_descriptor.load([b, g, start, 0]).reshape(BLOCK_N, D).T  # 0 past the end
        scores = tl.dot(q, k)  # [BLOCK_M, BLOCK_N]
        if MASKED:
            seen = inside[None, :]
            if CAUSAL:
                seen = seen & (start + offs_n[None, :] <= offs_m[:, None])
            scores = tl.where(seen, scores, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1) * scale)
        p = tl.exp2(scores * scale - m_new[:, None])
        correction = tl.exp2(m - m_new)
        m = m_new
        total = total * correction + tl.sum(p, axis=1)
        if v_descriptor is None:
            v = tl.load(v_ptrs, mask=inside[:, None], other=0.0) if MASKED else tl.load(v_ptrs)
        else:
            v = v_descriptor.load([b, g, start, 0]).reshape(BLOCK_N, D)
        acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None])
        k_ptrs += step_k
        v_ptrs += step_v
    return acc, m, total


@triton.jit
def persistent_attention_kernel(
    q_ptr, k_ptr, v_ptr, q_descriptor, k_descriptor, v_descriptor, out_ptr,
    B, H, GROUP, S, T,
    stride_qb, stride_qh, stride_qs, stride_qd,
    stride_kb, stride_kh, stride_kt, stride_kd,
    stride_vb, stride_vh, stride_vt, stride_vd,
    sign, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    offs_n = tl.arange(0, BLOCK_N).to(tl.int64)
    offs_d = tl.arange(0, D).to(tl.int64)
    step_k = tl.cast(stride_kt, tl.int64) * BLOCK_N
    step_v = tl.cast(stride_vt, tl.int64) * BLOCK_N
    tiles = tl.cdiv(S, BLOCK_M)
    programs = tl.num_programs(0)
    for turn in range(tl.cdiv(B * H * tiles, programs)):
        # The deal reverses every turn: a program that got the longest tile gets the shortest next.
        forth = turn * programs + tl.program_id(0)
        back = (turn + 1) * programs - 1 - tl.program_id(0)
        place = tl.where(turn % 2 == 0, forth, back)
        if place < B * H * tiles:
            if CAUSAL:
                # The last queries of all heads come first: they see the most keys.
                head, tile = place % (B * H), tiles - 1 - place // (B * H)
            else:
                # All are equally long. Neighbours share a head, whose keys stay in the L2 cache.
                head, tile = place // tiles, place % tiles
            head = tl.cast(head, tl.int64)
            b, h = head // H, head % H
            offs_m = tl.cast(tile, tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
            mask_m = offs_m < S
            q_ptrs = q_ptr + b * stride_qb + h * stride_qh
            q_ptrs += offs_m[:, None] * stride_qs + offs_d[None, :] * stride_qd
            k_ptrs = k_ptr + b * stride_kb + h // GROUP * stride_kh
            k_ptrs += offs_n[None, :] * stride_kt + offs_d[:, None] * stride_kd
            v_ptrs = v_ptr + b * stride_vb + h // GROUP * stride_vh
            v_ptrs += offs_n[:, None] * stride_vt + offs_d[None, :] * stride_vd

            q_b, q_h = (head // H).to(tl.int32), (head % H).to(tl.int32)
            if q_descriptor is None:
                q = tl.load(q_ptrs, mask=mask_m[:, None], other=0.0)
                q = (q * sign).to(q_ptr.dtype.element_ty)
            else:  # stays in shared memory, for which sign must be 1
                q = q_descriptor.load([q_b, q_h, tile * BLOCK_M, 0]).reshape(BLOCK_M, D)
            acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
            m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
            total = tl.zeros((BLOCK_M,), dtype=tl.float32)
            whole, last = T // BLOCK_N * BLOCK_N, T
            if CAUSAL:
                whole = tl.minimum(whole, tile * BLOCK_M // BLOCK_N * BLOCK_N)
                last = tl.minimum(T, tile * BLOCK_M + BLOCK_M)
            acc, m, total = attend(
                acc, m, total, q, k_ptrs, v_ptrs, k_descriptor, v_descriptor, q_b, q_h // GROUP,
                offs_m, 0, whole, step_k, step_v, scale, CAUSAL, False, BLOCK_N, D,
            )  # fmt: skip
            k_ptrs += tl.cast(stride_kt, tl.int64) * whole
            v_ptrs += tl.cast(stride_vt, tl.int64) * whole
            acc, m, total = attend(
                acc, m, total, q, k_ptrs, v_ptrs, k_descriptor, v_descriptor, q_b, q_h // GROUP,
                offs_m, whole, last, step_k, step_v, scale, CAUSAL, True, BLOCK_N, D,
            )  # fmt: skip

            rows = head * S + offs_m
            out_ptrs = out_ptr + rows[:, None] * D + offs_d[None, :]
            tl.store(out_ptrs, acc / total[:, None], mask=mask_m[:, None])


def tma_can(x: torch.Tensor) -> bool:
    """TMA wants a last stride of 1, and the address and the other strides multiples of 16 bytes."""
    if x.is_cuda:
        properties = torch.cuda.get_device_properties(x.device)
        # It came with Hopper, and three stages of the widest tiles take 132 KB of shared memory.
        if properties.major < 9 or properties.shared_memory_per_block_optin < 160 * 1024:
            return False
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
    BLOCK_M = min(128, max(16, triton.next_power_of_2(S)))
    BLOCK_N = min(64, max(16, triton.next_power_of_2(T)))
    descriptors = [None] * 3
    if sign == 1 and B * H * S * T * D >= LARGE and all(tma_can(x) for x in (q, k, v)):
        BLOCK_N = 64
        if D <= 64 and triton.cdiv(S, 256) * B * H >= multiprocessors(q.device):
            BLOCK_M = 256
        blocks = (q, BLOCK_M), (k, BLOCK_N), (v, BLOCK_N)
        descriptors = [TensorDescriptor.from_tensor(x, [1, 1, rows, D]) for x, rows in blocks]
    tiles = triton.cdiv(S, BLOCK_M) * B * H
    persistent_attention_kernel[(min(tiles, multiprocessors(q.device)),)](
        q, k, v, *descriptors, out, B, H, H // k.shape[1], S, T,
        *q.stride(), *k.stride(), *v.stride(),
        float(sign), log2_scale,
        D=D, CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
        num_warps=max(4, BLOCK_M // 16), num_stages=3,
    )  # fmt: skip
    return out
