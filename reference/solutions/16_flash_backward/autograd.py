"""16.4  Attention with a backward pass: one good answer.

The forward pass saves out and one number for each query beside its inputs, and the backward pass
makes the probabilities again. Gradients that nobody asked for are not computed. Only tiles that the
diagonal or the end cuts have a mask. Where it can, the tensor memory accelerator loads the tiles,
and lse and delta as well, whose rows are padded to whole tiles for it.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def rows(source, b, h, first, last, ROWS: tl.constexpr, D: tl.constexpr):
    """[ROWS, D] of head h from row first on; what is past the last row is 0."""
    ptr, descriptor, strides = source
    if descriptor is None:
        offs_r = first.to(tl.int64) + tl.arange(0, ROWS)
        offs_d = tl.arange(0, D).to(tl.int64)
        ptrs = ptr + b.to(tl.int64) * strides[0] + h.to(tl.int64) * strides[1]
        ptrs += offs_r[:, None] * strides[2] + offs_d[None, :] * strides[3]
        tile = tl.load(ptrs, mask=(offs_r < last)[:, None], other=0.0)
    else:
        tile = descriptor.load([b, h, first, 0]).reshape(ROWS, D)
    return tile


@triton.jit
def numbers(source, head, first, COUNT: tl.constexpr):
    """Some numbers of a head, one a query, from the first on."""
    ptr, descriptor, padded = source
    if descriptor is None:
        x = tl.load(ptr + head.to(tl.int64) * padded + first + tl.arange(0, COUNT))
    else:
        x = descriptor.load([head, first]).reshape(COUNT)
    return x


@triton.jit
def attend(
    acc, m, total, q, k, v,
    b, h, offs_m, first, last, scale,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Forward: take in the keys from first to last, as in chapter 13."""
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
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    q_descriptor, k_descriptor, v_descriptor,
    q_strides, k_strides, v_strides,
    H, GROUP, S, T, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, SIGN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(S, BLOCK_M)
    head = tl.program_id(0) // tiles
    tile = tiles - 1 - tl.program_id(0) % tiles
    b, h = head // H, head % H
    q = q_ptr, q_descriptor, q_strides
    k = k_ptr, k_descriptor, k_strides
    v = v_ptr, v_descriptor, v_strides
    q_tile = rows(q, b, h, tile * BLOCK_M, S, BLOCK_M, D)
    if SIGN != 1:  # else q stays in shared memory and takes no registers
        q_tile = q_tile * SIGN
    offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    whole, last = T // BLOCK_N * BLOCK_N, T
    if CAUSAL:
        whole = tl.minimum(whole, tile * BLOCK_M // BLOCK_N * BLOCK_N)
        last = tl.minimum(T, tile * BLOCK_M + BLOCK_M)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    m = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc, m, total = attend(
        acc, m, total, q_tile, k, v,
        b, h // GROUP, offs_m, 0, whole, scale, CAUSAL, False, BLOCK_N, D,
    )  # fmt: skip
    acc, m, total = attend(
        acc, m, total, q_tile, k, v,
        b, h // GROUP, offs_m, whole, last, scale, CAUSAL, True, BLOCK_N, D,
    )  # fmt: skip

    mask_m = offs_m < S
    out_rows = head.to(tl.int64) * S + offs_m
    out_ptrs = out_ptr + out_rows[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(out_ptrs, acc * (1.0 / total)[:, None], mask=mask_m[:, None])
    lse = (m + tl.log2(total)) * 0.6931471805599453  # from base 2 to e: log(2)
    tl.store(lse_ptr + out_rows, lse, mask=mask_m)


@triton.jit
def attention_delta_kernel(
    out_ptr, dout_ptr, lse_ptr, delta_ptr, lse2_ptr,
    H, S, padded,
    stride_ob, stride_oh, stride_os, stride_od,
    stride_gb, stride_gh, stride_gs, stride_gd,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
):  # fmt: skip
    """delta, and lse to the base 2, in rows of whole tiles.

    A query past the last has an lse of inf: exp2(score - inf) is 0, it has no probabilities.
    """
    tiles = tl.cdiv(padded, BLOCK_M)
    tile, head = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    b, h = head // H, head % H
    offs_m = tile.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D).to(tl.int64)
    mask_m = offs_m < S
    out_ptrs = out_ptr + b * stride_ob + h * stride_oh
    out_ptrs += offs_m[:, None] * stride_os + offs_d[None, :] * stride_od
    dout_ptrs = dout_ptr + b * stride_gb + h * stride_gh
    dout_ptrs += offs_m[:, None] * stride_gs + offs_d[None, :] * stride_gd
    out = tl.load(out_ptrs, mask=mask_m[:, None], other=0.0).to(tl.float32)
    dout = tl.load(dout_ptrs, mask=mask_m[:, None], other=0.0).to(tl.float32)
    lse = tl.load(lse_ptr + head * S + offs_m, mask=mask_m, other=float("inf"))
    places, inside = head * padded + offs_m, offs_m < padded
    tl.store(delta_ptr + places, tl.sum(out * dout, axis=1), mask=inside)
    tl.store(lse2_ptr + places, lse * 1.4426950408889634, mask=inside)  # log2(e)


@triton.jit
def take_keys(
    dq, q, dout, lse, delta, k, v,
    b, h, offs_m, first, last, scale,
    CAUSAL: tl.constexpr, MASKED: tl.constexpr,
    BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Take in the keys from first to last. MASKED: the diagonal cuts these tiles, or the end."""
    offs_n = tl.arange(0, BLOCK_N)
    for start in range(first, last, BLOCK_N):
        keys = rows(k, b, h, start, last, BLOCK_N, D)
        values = rows(v, b, h, start, last, BLOCK_N, D)
        p = tl.exp2(tl.dot(q, keys.T) * scale - lse[:, None])  # [BLOCK_M, BLOCK_N]
        if MASKED:
            seen = offs_n[None, :] < last - start
            if CAUSAL:
                seen = seen & (start + offs_n[None, :] <= offs_m[:, None])
            p = tl.where(seen, p, 0.0)
        ds = p * (tl.dot(dout, values.T) - delta[:, None])
        dq = tl.dot(ds.to(keys.dtype), keys, dq)
    return dq


@triton.jit
def attention_dq_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse2_ptr, delta_ptr, dq_ptr,
    q_descriptor, k_descriptor, v_descriptor, dout_descriptor,
    q_strides, k_strides, v_strides, dout_strides,
    H, GROUP, S, T, padded, scale, log2_scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # Neighbouring programs share a head, so that its keys and values stay in the L2 cache.
    tiles = tl.cdiv(S, BLOCK_M)
    head = tl.program_id(0) // tiles
    # If causal, the last queries see the most keys: begin with them, end with the short programs.
    tile = tiles - 1 - tl.program_id(0) % tiles
    b, h = head // H, head % H
    q = q_ptr, q_descriptor, q_strides
    k = k_ptr, k_descriptor, k_strides
    v = v_ptr, v_descriptor, v_strides
    dout = dout_ptr, dout_descriptor, dout_strides
    q_tile = rows(q, b, h, tile * BLOCK_M, S, BLOCK_M, D)
    dout_tile = rows(dout, b, h, tile * BLOCK_M, S, BLOCK_M, D)
    offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    if D == 128 and dout_descriptor is not None:
        # A select keeps dout in registers: its products then read half as much shared memory, whose
        # bandwidth limits them, and there is room for a third stage.
        dout_tile = tl.where((offs_m < S)[:, None], dout_tile, 0.0)
    lse = tl.load(lse2_ptr + head.to(tl.int64) * padded + offs_m)
    delta = tl.load(delta_ptr + head.to(tl.int64) * padded + offs_m)
    whole, last = T // BLOCK_N * BLOCK_N, T
    if CAUSAL:
        whole = tl.minimum(whole, tile * BLOCK_M // BLOCK_N * BLOCK_N)
        last = tl.minimum(T, tile * BLOCK_M + BLOCK_M)
    dq = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    dq = take_keys(
        dq, q_tile, dout_tile, lse, delta, k, v,
        b, h // GROUP, offs_m, 0, whole, log2_scale, CAUSAL, False, BLOCK_N, D,
    )  # fmt: skip
    dq = take_keys(
        dq, q_tile, dout_tile, lse, delta, k, v,
        b, h // GROUP, offs_m, whole, last, log2_scale, CAUSAL, True, BLOCK_N, D,
    )  # fmt: skip

    dq_rows = head.to(tl.int64) * S + offs_m
    dq_ptrs = dq_ptr + dq_rows[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(dq_ptrs, dq * scale, mask=(offs_m < S)[:, None])


@triton.jit
def take_queries(
    dk, dv, k, v, q, dout, lse, delta,
    b, h, head, offs_n, first, last, S, scale,
    MASKED: tl.constexpr, BLOCK_M: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Take in the queries of one head from first to last. MASKED: the diagonal cuts the tiles."""
    for start in range(first, last, BLOCK_M):
        q_tile = rows(q, b, h, start, S, BLOCK_M, D)
        lse_tile = numbers(lse, head, start, BLOCK_M)
        # Keys first: as p and ds are used transposed, they are made so.
        p = tl.exp2(tl.dot(k, q_tile.T) * scale - lse_tile[None, :])  # [BLOCK_N, BLOCK_M]
        if MASKED:
            offs_m = start + tl.arange(0, BLOCK_M)
            p = tl.where(offs_n[:, None] <= offs_m[None, :], p, 0.0)
        dout_tile = rows(dout, b, h, start, S, BLOCK_M, D)
        dv = tl.dot(p.to(dout_tile.dtype), dout_tile, dv)
        delta_tile = numbers(delta, head, start, BLOCK_M)
        ds = p * (tl.dot(v, dout_tile.T) - delta_tile[None, :])
        dk = tl.dot(ds.to(q_tile.dtype), q_tile, dk)
    return dk, dv


@triton.jit
def attention_dkdv_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse2_ptr, delta_ptr, dk_ptr, dv_ptr,
    q_descriptor, k_descriptor, v_descriptor, dout_descriptor, lse2_descriptor, delta_descriptor,
    q_strides, k_strides, v_strides, dout_strides,
    H, GROUP, S, T, padded, scale, log2_scale,
    D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # If the loop could be empty, the assembler would wait for every product as it is started.
    tl.assume(S > 0)
    # Neighbouring programs share a head, so that its queries stay in the L2 cache. If causal, the
    # first keys are seen by the most queries: they begin, and the short programs end.
    tiles = tl.cdiv(T, BLOCK_N)
    tile, head = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    b, h = head // (H // GROUP), head % (H // GROUP)
    q = q_ptr, q_descriptor, q_strides
    k = k_ptr, k_descriptor, k_strides
    v = v_ptr, v_descriptor, v_strides
    dout = dout_ptr, dout_descriptor, dout_strides
    lse, delta = (lse2_ptr, lse2_descriptor, padded), (delta_ptr, delta_descriptor, padded)
    k_tile = rows(k, b, h, tile * BLOCK_N, T, BLOCK_N, D)
    v_tile = rows(v, b, h, tile * BLOCK_N, T, BLOCK_N, D)
    offs_n = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    diagonal, below = 0, 0
    if CAUSAL:
        diagonal = tile * BLOCK_N // BLOCK_M * BLOCK_M
        below = tl.minimum(tl.cdiv(tile * BLOCK_N + BLOCK_N, BLOCK_M) * BLOCK_M, S)
    dk = tl.zeros((BLOCK_N, D), dtype=tl.float32)
    dv = tl.zeros((BLOCK_N, D), dtype=tl.float32)
    for member in range(GROUP):
        query_head = h * GROUP + member
        if CAUSAL:
            dk, dv = take_queries(
                dk, dv, k_tile, v_tile, q, dout, lse, delta,
                b, query_head, b * H + query_head, offs_n,
                diagonal, below, S, log2_scale, True, BLOCK_M, D,
            )  # fmt: skip
        dk, dv = take_queries(
            dk, dv, k_tile, v_tile, q, dout, lse, delta,
            b, query_head, b * H + query_head, offs_n,
            below, S, S, log2_scale, False, BLOCK_M, D,
        )  # fmt: skip

    mask_n = (offs_n < T)[:, None]
    kv_rows = head.to(tl.int64) * T + offs_n
    offsets = kv_rows[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(dk_ptr + offsets, dk * scale, mask=mask_n)
    tl.store(dv_ptr + offsets, dv, mask=mask_n)


def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raises ValueError that names the first argument that does not fit."""
    if q.dim() != 4 or q.shape[3] not in (16, 32, 64, 128):
        raise ValueError(f"q must be (B, H, S, D) with D 16, 32, 64 or 128, not {tuple(q.shape)}")
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"q must be float16 or bfloat16, not {q.dtype}")
    B, H, _, D = q.shape
    if k.dim() != 4 or k.shape[::3] != (B, D) or H % k.shape[1] or k.dtype != q.dtype:
        raise ValueError(
            f"k must be {q.dtype} ({B}, a divisor of {H}, T, {D}), not {k.dtype} {tuple(k.shape)}"
        )
    if v.shape != k.shape or v.dtype != k.dtype:
        raise ValueError(f"v must be {k.dtype} {tuple(k.shape)}, not {v.dtype} {tuple(v.shape)}")


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an H100's in the interpreter."""
    if device.type != "cuda":
        return 232448
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def tma_can(x: torch.Tensor) -> bool:
    """TMA wants a last stride of 1, and the address and the other strides multiples of 16 bytes.

    One row for all queries (stride 0, by expand) goes by pointers.
    """
    if x.is_cuda and torch.cuda.get_device_capability(x.device)[0] < 9:
        return False  # it came with Hopper
    aligned = all(stride * x.element_size() % 16 == 0 for stride in x.stride()[:-1])
    return x.stride(-1) == 1 and x.stride(-2) > 0 and aligned and x.data_ptr() % 16 == 0


def in_tiles(
    *tensors: torch.Tensor, BLOCK_M: int, BLOCK_N: int
) -> tuple[list[TensorDescriptor | None], dict[str, int]]:
    """Descriptors of q, k, v, and dout if there is one, and a kernel's meta-parameters."""
    q, k, *_ = tensors
    BLOCK_M = min(BLOCK_M, max(16, triton.next_power_of_2(q.shape[2])))
    BLOCK_N = min(BLOCK_N, max(16, triton.next_power_of_2(k.shape[2])))
    D = q.shape[3]
    blocks = (BLOCK_M, BLOCK_N, BLOCK_N, BLOCK_M)
    descriptors = [
        TensorDescriptor.from_tensor(x, [1, 1, block, D]) if tma_can(x) else None
        for x, block in zip(tensors, blocks, strict=False)
    ]
    return descriptors, {"D": D, "BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N}


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, causal):
        B, H, S, D = q.shape
        # The kernel wants a positive scale, as then the largest product is the largest score. The
        # sign goes into q, where it is exact, and 0 too. log2(e) turns exp into exp2.
        sign = (scale > 0) - (scale < 0)
        log2_scale = abs(scale) * math.log2(math.e) if sign else 1.0
        out = torch.empty(B, H, S, D, dtype=q.dtype, device=q.device)
        lse = torch.empty(B, H, S, dtype=torch.float32, device=q.device)
        BLOCK_M, BLOCK_N = (64, 128) if D == 64 else (128, 64)
        descriptors, meta = in_tiles(q, k, v, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
        # As in 13.2: where 16 does not divide T, three programs fit a multiprocessor only so.
        maxnreg = 168 if D == 64 and k.shape[2] % 16 and all(descriptors) else None
        attention_kernel[(triton.cdiv(S, meta["BLOCK_M"]) * B * H,)](
            q, k, v, out, lse, *descriptors, q.stride(), k.stride(), v.stride(),
            H, H // k.shape[1], S, k.shape[2], log2_scale,
            CAUSAL=causal, SIGN=sign, num_warps=4, num_stages=2, maxnreg=maxnreg, **meta,
        )  # fmt: skip
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.scale, ctx.causal = scale, causal
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        q, k, v, out, lse = ctx.saved_tensors
        (B, H, S, D), (_, Hkv, T, _) = q.shape, k.shape
        descriptors, meta = in_tiles(q, k, v, dout, BLOCK_M=64, BLOCK_N=64)
        padded = triton.cdiv(S, meta["BLOCK_M"]) * meta["BLOCK_M"]
        delta = torch.empty(B * H, padded, dtype=torch.float32, device=q.device)
        lse2 = torch.empty(B * H, padded, dtype=torch.float32, device=q.device)
        BLOCK_M = min(4096 // D, triton.next_power_of_2(S))
        attention_delta_kernel[(triton.cdiv(padded, BLOCK_M) * B * H,)](
            out, dout, lse, delta, lse2, H, S, padded, *out.stride(), *dout.stride(),
            D=D, BLOCK_M=BLOCK_M, num_warps=8,
        )  # fmt: skip

        strides = [x.stride() for x in (q, k, v, dout)]
        rest = (H, H // Hkv, S, T, padded, ctx.scale, ctx.scale * math.log2(math.e))
        dq = dk = dv = None
        if ctx.needs_input_grad[0]:
            dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
            # Two programs of three stages with D 128 take all shared memory of an H100.
            fits = all(descriptors) and shared_memory(q.device) >= 232448
            num_stages = 3 if D < 128 or fits else 2
            attention_dq_kernel[(triton.cdiv(S, meta["BLOCK_M"]) * B * H,)](
                q, k, v, dout, lse2, delta, dq, *descriptors, *strides, *rest,
                CAUSAL=ctx.causal, num_warps=4, num_stages=num_stages, **meta,
            )  # fmt: skip
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            dk = torch.empty(k.shape, dtype=k.dtype, device=k.device)
            dv = torch.empty(v.shape, dtype=v.dtype, device=v.device)
            # With 168 registers three programs fit a multiprocessor.
            maxnreg = 168 if D == 64 and all(descriptors) else None
            # TMA writes to multiples of 128 bytes, where not every stage of 16 numbers would lie.
            wide = meta["BLOCK_M"] >= 32
            numbers_in_tiles = [
                TensorDescriptor.from_tensor(x, [1, meta["BLOCK_M"]])
                if wide and tma_can(x)
                else None
                for x in (lse2, delta)
            ]
            attention_dkdv_kernel[(triton.cdiv(T, meta["BLOCK_N"]) * B * Hkv,)](
                q, k, v, dout, lse2, delta, dk, dv, *descriptors, *numbers_in_tiles,
                *strides, *rest,
                CAUSAL=ctx.causal, num_warps=4, num_stages=2 if D == 128 else 3, maxnreg=maxnreg,
                **meta,
            )  # fmt: skip
        return dq, dk, dv, None, None


def differentiable_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    check(q, k, v)
    return Attention.apply(q, k, v, q.shape[3] ** -0.5 if scale is None else scale, causal)
