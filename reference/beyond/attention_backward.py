"""The summit beyond chapters 16 and 19: the backward pass of attention, below Triton.

One kernel computes all three gradients for heads of 128, and each score once. A program has 128
keys, 64 for each of two consumers, whose sums for dk and dv stay in registers while a producer
brings the queries in blocks of 64 through a ring. dq belongs to all programs of a head: they add to
it in float32, by TMA, and a last kernel rounds it.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

DTYPES = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16, torch.float32: gl.float32}

if hasattr(tma, "async_atomic_add"):
    async_atomic_add = tma.async_atomic_add
else:  # Triton 3.6 and 3.7 have the instruction, but no name for it
    from triton._C.libtriton import ir

    @gl._core.builtin
    def async_atomic_add(tensor_desc, coord, src, _semantic=None):
        coord = _semantic._convert_to_ir_values(coord, require_i64=False)
        kind = ir.DESCRIPTOR_REDUCE_KIND.ADD
        _semantic.builder.create_async_tma_reduce(kind, tensor_desc.handle, coord, src.handle)


@triton.jit
def prepare_kernel(
    out_ptr, dout_ptr, lse_ptr, lse2_ptr, delta_ptr, sums_ptr,
    H, S, padded,
    stride_ob, stride_oh, stride_os, stride_od,
    stride_gb, stride_gh, stride_gs, stride_gd,
    D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """For each query lse to the base 2 and delta, as chapter 16 has them; and dq's sums of 0.

    Queries past the last have an lse of inf: exp2(score - inf) is 0, and so they count for nothing.
    """
    tiles = tl.cdiv(padded, BLOCK)
    head, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    b, h = (head // H).to(tl.int64), (head % H).to(tl.int64)
    offs_s = tile.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    offs_d = tl.arange(0, D).to(tl.int64)
    inside = offs_s < S
    out_ptrs = out_ptr + b * stride_ob + h * stride_oh
    out_ptrs += offs_s[:, None] * stride_os + offs_d[None, :] * stride_od
    dout_ptrs = dout_ptr + b * stride_gb + h * stride_gh
    dout_ptrs += offs_s[:, None] * stride_gs + offs_d[None, :] * stride_gd
    out = tl.load(out_ptrs, mask=inside[:, None], other=0.0).to(tl.float32)
    dout = tl.load(dout_ptrs, mask=inside[:, None], other=0.0).to(tl.float32)
    rows = head.to(tl.int64) * S + offs_s
    lse = tl.load(lse_ptr + rows, mask=inside, other=float("inf"))
    numbers = head.to(tl.int64) * padded + offs_s
    tl.store(lse2_ptr + numbers, lse * 1.4426950408889634)  # log2(e)
    tl.store(delta_ptr + numbers, tl.sum(out * dout, axis=1))
    sums_ptrs = sums_ptr + rows[:, None] * D + offs_d[None, :]
    tl.store(sums_ptrs, tl.zeros((BLOCK, D), tl.float32), mask=inside[:, None])


@triton.jit
def finish_kernel(sums_ptr, dq_ptr, n, scale, BLOCK: tl.constexpr):
    """Scale and round dq."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dq_ptr + offsets, tl.load(sums_ptr + offsets, mask=offsets < n) * scale, mask=offsets < n)


@gluon.jit
def place_of_program(H, tiles, HALF: gl.constexpr, CAUSAL: gl.constexpr):
    """Head, first key, and first query that sees it. If causal, the longest programs begin."""
    head = gl.program_id(0) // tiles
    key = gl.program_id(0) % tiles * (2 * HALF)
    first = 0
    if CAUSAL:
        first = key
    return head, key, first


@gluon.jit
def producer(
    q_desc, k_desc, v_desc, dout_desc, lse_desc, delta_desc,
    keys, queries,
    H, tiles,
    CAUSAL: gl.constexpr,
):  # fmt: skip
    k_tiles, v_tiles, kv_full = keys
    q_slots, dout_slots, lse_slots, delta_slots, full, empty = queries
    HALF: gl.constexpr = k_tiles.shape[3]
    D: gl.constexpr = k_tiles.shape[4]
    SLOTS: gl.constexpr = q_slots.shape[0]
    BLOCK: gl.constexpr = q_slots.shape[3]
    head, key, first = place_of_program(H, tiles, HALF, CAUSAL)
    last = tiles * (2 * HALF)
    b, h = head // H, head % H
    bar = kv_full.index(0)
    mbarrier.expect(bar, 4 * HALF * D * 2)
    for half in gl.static_range(2):
        row = key + half * HALF
        tma.async_copy_global_to_shared(k_desc, [b, h, row, 0], bar, k_tiles.index(half))
        tma.async_copy_global_to_shared(v_desc, [b, h, row, 0], bar, v_tiles.index(half))
    step = 0
    for row in range(first, last, BLOCK):
        slot, phase = step % SLOTS, step // SLOTS & 1
        bar = full.index(slot)
        mbarrier.wait(empty.index(slot), phase ^ 1)
        mbarrier.expect(bar, 2 * BLOCK * (D * 2 + 4))
        tma.async_copy_global_to_shared(q_desc, [b, h, row, 0], bar, q_slots.index(slot))
        tma.async_copy_global_to_shared(dout_desc, [b, h, row, 0], bar, dout_slots.index(slot))
        number = head * last + row
        tma.async_copy_global_to_shared(lse_desc, [number], bar, lse_slots.index(slot))
        tma.async_copy_global_to_shared(delta_desc, [number], bar, delta_slots.index(slot))
        step += 1


@gluon.jit
def start_dq(step, half: gl.constexpr, k_tiles, ds_slots, ds_full):
    """Start dq of a step from the keys of both consumers: half of its columns each."""
    HALF: gl.constexpr = k_tiles.shape[3]
    D: gl.constexpr = k_tiles.shape[4]
    BLOCK: gl.constexpr = ds_slots.shape[2]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D // 2, 16])
    slot = step % 2
    mbarrier.wait(ds_full.index(slot), step // 2 & 1)
    dq = gl.zeros([BLOCK, D // 2], gl.float32, layout)
    for other in gl.static_range(2):
        ds = ds_slots.index(2 * slot + other).permute([1, 0])
        k = k_tiles.index(other).reshape([HALF, D]).slice(half * (D // 2), D // 2, dim=1)
        dq = warpgroup_mma(ds, k, dq, use_acc=other > 0, is_async=True)
    return dq


@gluon.jit
def start_dk(step, half: gl.constexpr, dk, q_slots, ds_slots):
    """Start the product of a step with its queries."""
    BLOCK: gl.constexpr = q_slots.shape[3]
    D: gl.constexpr = q_slots.shape[4]
    q = q_slots.index(step % q_slots.shape[0]).reshape([BLOCK, D])
    return warpgroup_mma(ds_slots.index(step % 2 * 2 + half), q, dk, is_async=True)


@gluon.jit
def add_dq(dq, dq_desc, dq_slot, b, h, row, column):
    """Add to dq in global memory, once shared memory has been read for the sum before."""
    tma.store_wait(0)
    dq_slot.reshape(dq.shape).store(dq)
    fence_async_shared()
    async_atomic_add(dq_desc, [b, h, row, column], dq_slot)


@gluon.jit
def take_queries(
    step, half: gl.constexpr, dk, dv,
    dq_desc, dq_slots,
    keys, queries, scores,
    b, h, key, row, scale,
    FIRST: gl.constexpr, MASKED: gl.constexpr,
):  # fmt: skip
    """Take in a block of queries, and finish the block before: its dq and dk.

    Where a step ends only dv is under way: with more the assembler would make every product wait.
    """
    k_tiles, v_tiles, kv_full = keys
    q_slots, dout_slots, lse_slots, delta_slots, full, empty = queries
    ds_slots, ds_full = scores
    HALF: gl.constexpr = k_tiles.shape[3]
    D: gl.constexpr = k_tiles.shape[4]
    SLOTS: gl.constexpr = q_slots.shape[0]
    BLOCK: gl.constexpr = q_slots.shape[3]
    dtype: gl.constexpr = q_slots.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK, 16])
    row_layout: gl.constexpr = gl.SliceLayout(0, s_layout)
    dv_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, dv_layout, 2)
    zeros = gl.zeros([HALF, BLOCK], gl.float32, s_layout)
    slot = step % SLOTS
    q = q_slots.index(slot).reshape([BLOCK, D])
    dout = dout_slots.index(slot).reshape([BLOCK, D])
    k = k_tiles.index(half).reshape([HALF, D])
    v = v_tiles.index(half).reshape([HALF, D])
    if FIRST:
        mbarrier.wait(full.index(slot), step // SLOTS & 1)
        s = warpgroup_mma(k, q.permute([1, 0]), zeros, use_acc=False, is_async=True)
        dp = warpgroup_mma(v, dout.permute([1, 0]), zeros, use_acc=False, is_async=True)
        s = warpgroup_mma_wait(num_outstanding=1, deps=(s,))
    else:
        before = (step + SLOTS - 1) % SLOTS
        dq = start_dq(step - 1, half, k_tiles, ds_slots, ds_full)
        dk = start_dk(step - 1, half, dk, q_slots, ds_slots)
        mbarrier.wait(full.index(slot), step // SLOTS & 1)
        s = warpgroup_mma(k, q.permute([1, 0]), zeros, use_acc=False, is_async=True)
        dv, dq = warpgroup_mma_wait(num_outstanding=2, deps=(dv, dq))
        add_dq(dq, dq_desc, dq_slots.index(half), b, h, row - BLOCK, half * (D // 2))
        dp = warpgroup_mma(v, dout.permute([1, 0]), zeros, use_acc=False, is_async=True)
        dk, s = warpgroup_mma_wait(num_outstanding=1, deps=(dk, s))
        mbarrier.arrive(empty.index(before), count=1)
    p = gl.exp2(s * scale - lse_slots.index(slot).load(row_layout)[None, :])
    if MASKED:
        if row < key + HALF:
            offs_n = gl.arange(0, HALF, gl.SliceLayout(1, s_layout)) + (key - row)
            p = gl.where(offs_n[:, None] <= gl.arange(0, BLOCK, row_layout)[None, :], p, 0.0)
    dv = warpgroup_mma(gl.convert_layout(p.to(dtype), p_layout), dout, dv, is_async=True)
    dp = warpgroup_mma_wait(num_outstanding=1, deps=(dp,))
    ds = p * (dp - delta_slots.index(slot).load(row_layout)[None, :])
    # The other consumer has arrived a step ago, when its dq of two steps ago was over.
    ds_slots.index(step % 2 * 2 + half).store(ds.to(dtype))
    fence_async_shared()
    mbarrier.arrive(ds_full.index(step % 2), count=1)
    return dk, dv


@gluon.jit
def consumer(
    half: gl.constexpr,
    dq_desc, dk_desc, dv_desc, dq_slots,
    keys, queries, scores,
    H, tiles, scale, log2_scale,
    CAUSAL: gl.constexpr,
):  # fmt: skip
    k_tiles, v_tiles, kv_full = keys
    q_slots, dout_slots, lse_slots, delta_slots, full, empty = queries
    ds_slots, ds_full = scores
    HALF: gl.constexpr = k_tiles.shape[3]
    D: gl.constexpr = k_tiles.shape[4]
    BLOCK: gl.constexpr = q_slots.shape[3]
    dtype: gl.constexpr = q_slots.dtype
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    head, key, first = place_of_program(H, tiles, HALF, CAUSAL)
    b, h = head // H, head % H
    key += half * HALF
    steps = (tiles * (2 * HALF) - first) // BLOCK
    dk = gl.zeros([HALF, D], gl.float32, layout)
    dv = gl.zeros([HALF, D], gl.float32, layout)
    mbarrier.wait(kv_full.index(0), 0)
    dk, dv = take_queries(
        0, half, dk, dv, dq_desc, dq_slots, keys, queries, scores,
        b, h, key, first, log2_scale, True, CAUSAL,
    )  # fmt: skip
    # If causal, the diagonal cuts two blocks.
    begin: gl.constexpr = 2 if CAUSAL else 1
    if CAUSAL:
        dk, dv = take_queries(
            1, half, dk, dv, dq_desc, dq_slots, keys, queries, scores,
            b, h, key, first + BLOCK, log2_scale, False, True,
        )  # fmt: skip
    for step in range(begin, steps):
        dk, dv = take_queries(
            step, half, dk, dv, dq_desc, dq_slots, keys, queries, scores,
            b, h, key, first + step * BLOCK, log2_scale, False, False,
        )  # fmt: skip
    dq = start_dq(steps - 1, half, k_tiles, ds_slots, ds_full)
    dk = start_dk(steps - 1, half, dk, q_slots, ds_slots)
    dk, dv, dq = warpgroup_mma_wait(num_outstanding=0, deps=(dk, dv, dq))
    row = first + (steps - 1) * BLOCK
    add_dq(dq, dq_desc, dq_slots.index(half), b, h, row, half * (D // 2))
    # Only this consumer reads these values.
    out = v_tiles.index(half)
    out.reshape([HALF, D]).store(dv.to(dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(dv_desc, [b, h, key, 0], out)
    tma.store_wait(0)
    out.reshape([HALF, D]).store((dk * scale).to(dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(dk_desc, [b, h, key, 0], out)
    tma.store_wait(0)


@gluon.jit
def barriers(number: gl.constexpr, count: gl.constexpr):
    bars = gl.allocate_shared_memory(gl.int64, [number, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(number):
        mbarrier.init(bars.index(i), count=count)
    return bars


@gluon.jit
def attention_backward_kernel(
    q_desc, k_desc, v_desc, dout_desc, lse_desc, delta_desc, dq_desc, dk_desc, dv_desc,
    H, tiles, scale, log2_scale,
    D: gl.constexpr, HALF: gl.constexpr, BLOCK: gl.constexpr, SLOTS: gl.constexpr,
    CAUSAL: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_desc.dtype
    ds_layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([HALF, BLOCK], dtype)
    k_tiles = gl.allocate_shared_memory(dtype, [2, 1, 1, HALF, D], k_desc.layout)
    v_tiles = gl.allocate_shared_memory(dtype, [2, 1, 1, HALF, D], v_desc.layout)
    q_slots = gl.allocate_shared_memory(dtype, [SLOTS, 1, 1, BLOCK, D], q_desc.layout)
    dout_slots = gl.allocate_shared_memory(dtype, [SLOTS, 1, 1, BLOCK, D], dout_desc.layout)
    lse_slots = gl.allocate_shared_memory(gl.float32, [SLOTS, BLOCK], lse_desc.layout)
    delta_slots = gl.allocate_shared_memory(gl.float32, [SLOTS, BLOCK], delta_desc.layout)
    ds_slots = gl.allocate_shared_memory(dtype, [4, HALF, BLOCK], ds_layout)
    dq_slots = gl.allocate_shared_memory(gl.float32, [2, 1, 1, BLOCK, D // 2], dq_desc.layout)
    keys = (k_tiles, v_tiles, barriers(1, 1))
    full, empty = barriers(SLOTS, 1), barriers(SLOTS, 2)
    queries = (q_slots, dout_slots, lse_slots, delta_slots, full, empty)
    scores = (ds_slots, barriers(2, 2))
    fence_async_shared()
    results = (dq_desc, dk_desc, dv_desc, dq_slots)
    gl.warp_specialize(
        [
            (consumer, (0, dq_desc, dk_desc, dv_desc, dq_slots, keys, queries, scores, H, tiles, scale, log2_scale, CAUSAL)),
            (consumer, (1, dq_desc, dk_desc, dv_desc, dq_slots, keys, queries, scores, H, tiles, scale, log2_scale, CAUSAL)),
            (producer, (q_desc, k_desc, v_desc, dout_desc, lse_desc, delta_desc, keys, queries, H, tiles, CAUSAL)),
        ],
        [4, 1],
        [240, 24],
    )


def describe(x: torch.Tensor, *block: int) -> TensorDescriptor:
    """A descriptor for so many rows of a head, or so many numbers."""
    layout = gl.NVMMASharedLayout.get_default_for(list(block), DTYPES[x.dtype])
    return TensorDescriptor.from_tensor(x, list(block), layout)


def attention_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    dout: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    B, H, S, D = q.shape
    scale = D**-0.5 if scale is None else scale
    HALF, BLOCK = 64, 64
    tiles = triton.cdiv(S, 2 * HALF)
    padded = tiles * 2 * HALF
    lse2, delta = torch.empty(2, B * H * padded, dtype=torch.float32, device=q.device)
    sums = torch.empty(q.shape, dtype=torch.float32, device=q.device)
    dq, dk, dv = (torch.empty(q.shape, dtype=q.dtype, device=q.device) for _ in range(3))
    prepare_kernel[(padded // 32 * B * H,)](
        out, dout, lse, lse2, delta, sums, H, S, padded, *out.stride(), *dout.stride(),
        D=D, BLOCK=32,
    )  # fmt: skip
    attention_backward_kernel[(tiles * B * H,)](
        *(describe(x, 1, 1, BLOCK, D) for x in (q, k, v, dout)),
        describe(lse2, BLOCK), describe(delta, BLOCK), describe(sums, 1, 1, BLOCK, D // 2),
        describe(dk, 1, 1, HALF, D), describe(dv, 1, 1, HALF, D),
        H, tiles, scale, scale * math.log2(math.e),
        D=D, HALF=HALF, BLOCK=BLOCK, SLOTS=2, CAUSAL=causal, num_warps=4, maxnreg=168,
    )  # fmt: skip
    finish_kernel[(triton.cdiv(sums.numel(), 4096),)](sums, dq, sums.numel(), scale, BLOCK=4096)
    return dq, dk, dv
