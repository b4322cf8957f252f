"""The summit beyond chapters 16 and 19: the backward pass of attention, below Triton.

One kernel computes all three gradients for heads of 128, and each score once. A program has 128
keys, 64 for each of two consumers, whose sums for dk and dv stay in registers while a producer
brings the queries in blocks of 64 through a ring. dq belongs to all programs of a head: they add to
it in float32, from registers and in the order in which threads hold it, and a last kernel puts it
in order and rounds it. dq and dk of a block wait for the next one: its scores are under way while
dq leaves, and its exponentials run under the product for dp.
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


@triton.jit
def prepare_kernel(
    out_ptr, dout_ptr, lse_ptr, lse2_ptr, delta_ptr, sums_ptr,
    H, S, padded,
    stride_ob, stride_oh, stride_os, stride_od,
    stride_gb, stride_gh, stride_gs, stride_gd,
    D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """lse to the base 2 and delta of each query, and the zeros that dq is added to.

    A query past the last has an lse of inf: exp2(score - inf) is 0, and it counts for nothing.
    """
    blocks = tl.cdiv(padded, BLOCK)
    head = (tl.program_id(0) // blocks).to(tl.int64)
    offs_s = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    offs_d = tl.arange(0, D).to(tl.int64)
    inside = offs_s < S
    b, h = head // H, head % H
    out_ptrs = out_ptr + b * stride_ob + h * stride_oh
    out_ptrs += offs_s[:, None] * stride_os + offs_d[None, :] * stride_od
    dout_ptrs = dout_ptr + b * stride_gb + h * stride_gh
    dout_ptrs += offs_s[:, None] * stride_gs + offs_d[None, :] * stride_gd
    out = tl.load(out_ptrs, mask=inside[:, None], other=0.0).to(tl.float32)
    dout = tl.load(dout_ptrs, mask=inside[:, None], other=0.0).to(tl.float32)
    rows = head * S + offs_s
    lse = tl.load(lse_ptr + rows, mask=inside, other=float("inf"))
    tl.store(lse2_ptr + head * padded + offs_s, lse * 1.4426950408889634)  # log2(e)
    tl.store(delta_ptr + head * padded + offs_s, tl.sum(out * dout, axis=1))
    sums_ptrs = sums_ptr + (head * padded + offs_s)[:, None] * D + offs_d[None, :]
    tl.store(sums_ptrs, tl.zeros((BLOCK, D), tl.float32))


@triton.jit
def finish_kernel(sums_ptr, dq_ptr, S, padded, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    """dq of a block of 64 queries, out of the order in which add_dq has it in memory."""
    pid = tl.program_id(0).to(tl.int64)
    head, block = pid // (padded // BLOCK), pid % (padded // BLOCK)
    sums = tl.load(sums_ptr + pid * (BLOCK * D) + tl.arange(0, BLOCK * D)) * scale
    # Half of the columns, warp, 8 columns, row, thread of a row, half of the warp's rows, the
    # thread's two columns.
    sums = sums.reshape(2, 4, 8, 8, 4, 2, 2).permute(1, 5, 3, 0, 2, 4, 6).reshape(BLOCK, D)
    offs_s = block * BLOCK + tl.arange(0, BLOCK)
    dq_ptrs = dq_ptr + (head * S + offs_s)[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(dq_ptrs, sums, mask=(offs_s < S)[:, None])


@gluon.jit
def place_of_program(heads, tiles, KEYS: gl.constexpr, CAUSAL: gl.constexpr):
    """The head, the first key, and the first query that sees it."""
    number = gl.program_id(0)
    if CAUSAL:
        # Of four heads at a time, which the L2 cache holds, the longest programs begin.
        beginning = number // (4 * tiles) * 4
        some = gl.minimum(heads - beginning, 4)
        place = number - beginning * tiles
        head, key = beginning + place % some, place // some * KEYS
        first = key
    else:
        head, key = number // tiles, number % tiles * KEYS
        first = 0
    return head, key, first


@gluon.jit
def producer(
    q_desc, k_desc, v_desc, dout_desc, lse_desc, delta_desc,
    keys, queries,
    sizes,
    CAUSAL: gl.constexpr,
):  # fmt: skip
    k_tiles, v_tiles, kv_full = keys
    q_slots, dout_slots, lse_slots, delta_slots, full, dout_full, empty = queries
    heads, H, _, tiles = sizes
    HALF: gl.constexpr = k_tiles.shape[3]
    D: gl.constexpr = k_tiles.shape[4]
    SLOTS: gl.constexpr = q_slots.shape[0]
    BLOCK: gl.constexpr = q_slots.shape[3]
    head, key, first = place_of_program(heads, tiles, 2 * HALF, CAUSAL)
    b, h = head // H, head % H
    bar = kv_full.index(0)
    mbarrier.expect(bar, 4 * HALF * D * 2)
    for half in gl.static_range(2):
        row = key + half * HALF
        tma.async_copy_global_to_shared(k_desc, [b, h, row, 0], bar, k_tiles.index(half))
        tma.async_copy_global_to_shared(v_desc, [b, h, row, 0], bar, v_tiles.index(half))
    padded = tiles * (2 * HALF)
    for step in range((padded - first) // BLOCK):
        row = first + step * BLOCK
        slot, phase = step % SLOTS, step // SLOTS & 1
        bar = full.index(slot)
        number = head * padded + row
        mbarrier.wait(empty.index(slot), phase ^ 1)
        mbarrier.expect(bar, BLOCK * (D * 2 + 4))
        tma.async_copy_global_to_shared(q_desc, [b, h, row, 0], bar, q_slots.index(slot))
        tma.async_copy_global_to_shared(lse_desc, [number], bar, lse_slots.index(slot))
        bar = dout_full.index(slot)
        mbarrier.expect(bar, BLOCK * (D * 2 + 4))
        tma.async_copy_global_to_shared(dout_desc, [b, h, row, 0], bar, dout_slots.index(slot))
        tma.async_copy_global_to_shared(delta_desc, [number], bar, delta_slots.index(slot))


@gluon.jit
def start_dk(step, ds, dk, q_slots):
    """Start the product of a step's ds with its queries."""
    BLOCK: gl.constexpr = q_slots.shape[3]
    D: gl.constexpr = q_slots.shape[4]
    q = q_slots.index(step % q_slots.shape[0]).reshape([BLOCK, D])
    return warpgroup_mma(ds, q, dk, is_async=True)


@gluon.jit
def start_dq(step, half: gl.constexpr, k_tiles, ds_slots, ds_full):
    """Start the product of a step's ds with the keys of both consumers: half of dq's columns."""
    HALF: gl.constexpr = k_tiles.shape[3]
    D: gl.constexpr = k_tiles.shape[4]
    BLOCK: gl.constexpr = ds_slots.shape[2]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D // 2, 16])
    slot = step % 2
    dq = gl.zeros([BLOCK, D // 2], gl.float32, layout)
    mbarrier.wait(ds_full.index(slot), step // 2 & 1)
    for other in gl.static_range(2):
        ds = ds_slots.index(slot * 2 + other).permute([1, 0])
        k = k_tiles.index(other).reshape([HALF, D]).slice(half * (D // 2), D // 2, dim=1)
        dq = warpgroup_mma(ds, k, dq, use_acc=other > 0, is_async=True)
    return dq


@gluon.jit
def add_dq(dq, sums_ptr, part):
    """Add to global memory from registers, in the order in which threads hold it.

    Of each eight columns a thread has two, in two rows: 16 bytes, and a warp has 512 side by side.
    By way of shared memory and TMA they would take bandwidth from the products, which read two
    operands there.
    """
    # Warp, half of its rows, row, 8 columns, thread of a row, its two columns.
    dq = dq.reshape([4, 2, 8, 8, 4, 2]).permute([0, 3, 2, 4, 1, 5]).reshape([dq.numel])
    offs = gl.arange(0, dq.shape[0], dq.type.layout)
    gl.atomic_add(sums_ptr + part.to(gl.int64) * dq.shape[0] + offs, dq, sem="relaxed")


@gluon.jit
def take_queries(
    step, half: gl.constexpr, dk, dv, ds,
    sums_ptr,
    keys, queries, scores,
    part, key, row, S, scale,
    FIRST: gl.constexpr, DIAGONAL: gl.constexpr, CUT: gl.constexpr,
):  # fmt: skip
    """Take in a block of queries, and finish the block before: its dq and dk.

    Where a step ends no product is under way: with one that reads registers, as those for dv and
    dk do, the assembler makes every product wait.
    """
    k_tiles, v_tiles, _ = keys
    q_slots, dout_slots, lse_slots, delta_slots, full, dout_full, empty = queries
    ds_slots, ds_full = scores
    HALF: gl.constexpr = k_tiles.shape[3]
    D: gl.constexpr = k_tiles.shape[4]
    SLOTS: gl.constexpr = q_slots.shape[0]
    BLOCK: gl.constexpr = q_slots.shape[3]
    dtype: gl.constexpr = q_slots.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK, 16])
    key_layout: gl.constexpr = gl.SliceLayout(1, s_layout)
    query_layout: gl.constexpr = gl.SliceLayout(0, s_layout)
    dv_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, dv_layout, 2)
    slot, phase = step % SLOTS, step // SLOTS & 1
    q = q_slots.index(slot).reshape([BLOCK, D])
    dout = dout_slots.index(slot).reshape([BLOCK, D])
    k = k_tiles.index(half).reshape([HALF, D])
    v = v_tiles.index(half).reshape([HALF, D])
    zeros = gl.zeros([HALF, BLOCK], gl.float32, s_layout)
    if FIRST:
        mbarrier.wait(full.index(slot), phase)
        s = warpgroup_mma(k, q.permute([1, 0]), zeros, use_acc=False, is_async=True)
        mbarrier.wait(dout_full.index(slot), phase)
        dp = warpgroup_mma(v, dout.permute([1, 0]), zeros, use_acc=False, is_async=True)
        s = warpgroup_mma_wait(num_outstanding=1, deps=(s,))
    else:
        dq = start_dq(step - 1, half, k_tiles, ds_slots, ds_full)
        dk = start_dk(step - 1, ds, dk, q_slots)
        mbarrier.wait(full.index(slot), phase)
        s = warpgroup_mma(k, q.permute([1, 0]), zeros, use_acc=False, is_async=True)
        dq = warpgroup_mma_wait(num_outstanding=2, deps=(dq,))
        add_dq(dq, sums_ptr, part - 2)
        # The assembler lets no addition sink below this wait, so dp can have the registers of dq.
        mbarrier.wait(dout_full.index(slot), phase)
        dp = warpgroup_mma(v, dout.permute([1, 0]), zeros, use_acc=False, is_async=True)
        dk, s = warpgroup_mma_wait(num_outstanding=1, deps=(dk, s))
        mbarrier.arrive(empty.index((step + SLOTS - 1) % SLOTS), count=1)
    # Keys first: p and ds are used transposed.
    p = gl.exp2(s * scale - lse_slots.index(slot).load(query_layout)[None, :])
    offs_n = gl.arange(0, HALF, key_layout)
    if DIAGONAL and row < key + HALF:
        offs_m = gl.arange(0, BLOCK, query_layout)
        p = gl.where((offs_n + (key - row))[:, None] <= offs_m[None, :], p, 0.0)
    if CUT and key + HALF > S:
        p = gl.where((offs_n < S - key)[:, None], p, 0.0)
    dv = warpgroup_mma(gl.convert_layout(p.to(dtype), p_layout), dout, dv, is_async=True)
    dp = warpgroup_mma_wait(num_outstanding=1, deps=(dp,))
    ds = (p * (dp - delta_slots.index(slot).load(query_layout)[None, :])).to(dtype)
    # The other consumer has arrived since it was done with what is overwritten here.
    ds_slots.index(step % 2 * 2 + half).store(ds)
    ds = gl.convert_layout(ds, p_layout)
    fence_async_shared()
    mbarrier.arrive(ds_full.index(step % 2), count=1)
    dv = warpgroup_mma_wait(num_outstanding=0, deps=(dv,))
    return dk, dv, ds


@gluon.jit
def consumer(
    half: gl.constexpr,
    sums_ptr, dk_desc, dv_desc,
    keys, queries, scores,
    sizes, scale, log2_scale,
    CAUSAL: gl.constexpr, CUT: gl.constexpr,
):  # fmt: skip
    k_tiles, v_tiles, kv_full = keys
    q_slots, _, _, _, _, _, _ = queries
    ds_slots, ds_full = scores
    heads, H, S, tiles = sizes
    HALF: gl.constexpr = k_tiles.shape[3]
    D: gl.constexpr = k_tiles.shape[4]
    BLOCK: gl.constexpr = q_slots.shape[3]
    dtype: gl.constexpr = q_slots.dtype
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    head, key, first = place_of_program(heads, tiles, 2 * HALF, CAUSAL)
    b, h = head // H, head % H
    padded = tiles * (2 * HALF)
    # dq lies in parts of a block of queries and half of the columns. This consumer's first one:
    part = (head * padded + first) // BLOCK * 2 + half
    key += half * HALF
    steps = (tiles * (2 * HALF) - first) // BLOCK
    dk = gl.zeros([HALF, D], gl.float32, layout)
    dv = gl.zeros([HALF, D], gl.float32, layout)
    mbarrier.wait(kv_full.index(0), 0)
    dk, dv, ds = take_queries(
        0, half, dk, dv, None, sums_ptr, keys, queries, scores,
        part, key, first, S, log2_scale, True, CAUSAL, CUT,
    )  # fmt: skip
    if CAUSAL:
        # The diagonal cuts a second block, and there is one: their number is even.
        dk, dv, ds = take_queries(
            1, half, dk, dv, ds, sums_ptr, keys, queries, scores,
            part + 2, key, first + BLOCK, S, log2_scale, False, True, CUT,
        )  # fmt: skip
    begin: gl.constexpr = 2 if CAUSAL else 1
    for step in range(begin, steps):
        dk, dv, ds = take_queries(
            step, half, dk, dv, ds, sums_ptr, keys, queries, scores,
            part + 2 * step, key, first + step * BLOCK, S, log2_scale, False, False, CUT,
        )  # fmt: skip
    dq = start_dq(steps - 1, half, k_tiles, ds_slots, ds_full)
    dk = start_dk(steps - 1, ds, dk, q_slots)
    dq = warpgroup_mma_wait(num_outstanding=1, deps=(dq,))
    add_dq(dq, sums_ptr, part + 2 * (steps - 1))
    # Only this consumer reads its values, and it is done with them.
    out = v_tiles.index(half)
    out.reshape([HALF, D]).store(dv.to(dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(dv_desc, [b, h, key, 0], out)
    dk = warpgroup_mma_wait(num_outstanding=0, deps=(dk,))
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
    q_desc, k_desc, v_desc, dout_desc, lse_desc, delta_desc, sums_ptr, dk_desc, dv_desc,
    heads, H, S, tiles, scale, log2_scale,
    D: gl.constexpr, HALF: gl.constexpr, BLOCK: gl.constexpr, SLOTS: gl.constexpr,
    CAUSAL: gl.constexpr, CUT: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_desc.dtype
    ds_layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([HALF, BLOCK], dtype)
    k_tiles = gl.allocate_shared_memory(dtype, [2, 1, 1, HALF, D], k_desc.layout)
    v_tiles = gl.allocate_shared_memory(dtype, [2, 1, 1, HALF, D], v_desc.layout)
    q_slots = gl.allocate_shared_memory(dtype, [SLOTS, 1, 1, BLOCK, D], q_desc.layout)
    dout_slots = gl.allocate_shared_memory(dtype, [SLOTS, 1, 1, BLOCK, D], dout_desc.layout)
    lse_slots = gl.allocate_shared_memory(gl.float32, [SLOTS, BLOCK], lse_desc.layout)
    delta_slots = gl.allocate_shared_memory(gl.float32, [SLOTS, BLOCK], delta_desc.layout)
    ds_slots = gl.allocate_shared_memory(dtype, [2 * 2, HALF, BLOCK], ds_layout)
    kv_full, ds_full = barriers(1, 1), barriers(2, 2)
    full, dout_full, empty = barriers(SLOTS, 1), barriers(SLOTS, 1), barriers(SLOTS, 2)
    fence_async_shared()
    keys = (k_tiles, v_tiles, kv_full)
    queries = (q_slots, dout_slots, lse_slots, delta_slots, full, dout_full, empty)
    scores = (ds_slots, ds_full)
    sizes = (heads, H, S, tiles)
    gl.warp_specialize(
        [
            (
                consumer,
                (
                    0, sums_ptr, dk_desc, dv_desc, keys, queries, scores,
                    sizes, scale, log2_scale, CAUSAL, CUT,
                ),
            ),
            (
                consumer,
                (
                    1, sums_ptr, dk_desc, dv_desc, keys, queries, scores,
                    sizes, scale, log2_scale, CAUSAL, CUT,
                ),
            ),
            (
                producer,
                (
                    q_desc, k_desc, v_desc, dout_desc, lse_desc, delta_desc, keys, queries,
                    sizes, CAUSAL,
                ),
            ),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip


def is_addressable(x: torch.Tensor) -> bool:
    """Whether TMA can fetch rows of x (B, H, S, D)."""
    aligned = all(stride * x.element_size() % 16 == 0 for stride in x.stride()[:-1])
    return aligned and x.data_ptr() % 16 == 0 and x.stride(-1) == 1 and min(x.stride()) > 0


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
    """The gradients of q, k and v (B, H, S, 128), from out and lse as chapter 16 saves them."""
    if q.dim() != 4 or q.shape[3] != 128 or q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(
            f"q must be float16 or bfloat16 (B, H, S, 128), not {q.dtype} {tuple(q.shape)}"
        )
    for name, x in (("k", k), ("v", v), ("out", out), ("dout", dout)):
        if x.shape != q.shape or x.dtype != q.dtype:
            raise ValueError(f"{name} must be as q is, not {x.dtype} {tuple(x.shape)}")
    for name, x in (("q", q), ("k", k), ("v", v), ("dout", dout)):
        if not is_addressable(x):
            raise ValueError(f"{name} must have rows that begin at multiples of 16 bytes, for TMA")
    B, H, S, D = q.shape
    if lse.shape != (B, H, S) or lse.dtype != torch.float32 or not lse.is_contiguous():
        raise ValueError(f"lse must be float32 and contiguous {(B, H, S)}")
    scale = D**-0.5 if scale is None else scale
    HALF, BLOCK = 64, 64
    tiles = triton.cdiv(S, 2 * HALF)
    padded = tiles * 2 * HALF
    lse2, delta = torch.empty(2, B * H * padded, dtype=torch.float32, device=q.device)
    sums = torch.empty(B * H * padded * D, dtype=torch.float32, device=q.device)
    dq, dk, dv = (torch.empty(B, H, S, D, dtype=q.dtype, device=q.device) for _ in range(3))
    prepare_kernel[(padded // 32 * B * H,)](
        out, dout, lse, lse2, delta, sums, H, S, padded, *out.stride(), *dout.stride(),
        D=D, BLOCK=32,
    )  # fmt: skip
    # log2(e) turns exp into exp2, which is what the hardware has. maxnreg is what threads have at
    # first: 65,536 registers for 9 warps and those that pad them.
    attention_backward_kernel[(tiles * B * H,)](
        *(describe(x, 1, 1, BLOCK, D) for x in (q, k, v, dout)),
        describe(lse2, BLOCK), describe(delta, BLOCK), sums,
        describe(dk, 1, 1, HALF, D), describe(dv, 1, 1, HALF, D),
        B * H, H, S, tiles, scale, scale * math.log2(math.e),
        D=D, HALF=HALF, BLOCK=BLOCK, SLOTS=3, CAUSAL=causal,
        CUT=not causal and S % (2 * HALF) > 0, num_warps=4, maxnreg=168,
    )  # fmt: skip
    finish_kernel[(padded // BLOCK * B * H,)](
        sums, dq, S, padded, scale, D=D, BLOCK=BLOCK, num_warps=8
    )
    return dq, dk, dv
