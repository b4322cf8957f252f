"""19.7  Gluon attention: one good answer.

Two consumers take 64 queries each of a tile of 128. A producer brings keys and values
through two rings, and the next tile's queries while this one's are in use. A consumer
takes the softmax of a block under a product, in turns with the other, so that the
tensor cores have one's products while the other takes exponentials; at D 64, with
many queries, it has the next block's scores under way as well, and waits for no turn.
The last block of keys comes first, and it alone has a mask.
"""

from __future__ import annotations

import math

import torch
import triton
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

# From so many queries on two products under way are faster than turns at D 64.
MANY = 2048
DTYPES = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@gluon.jit
def tile_of(number, S, T, BLOCK: gl.constexpr, CAUSAL: gl.constexpr):
    """The head of a tile, its first query, and how many blocks of keys it sees."""
    tiles = gl.cdiv(S, BLOCK)
    place = number % tiles
    keys = T
    if CAUSAL:
        # A long one, then a short one: two in a row are as much work as any other two.
        place = gl.where(place % 2 == 0, tiles - 1 - place // 2, place // 2)
        keys = gl.minimum(T, place * BLOCK + BLOCK)
    return number // tiles, place * BLOCK, gl.cdiv(keys, BLOCK)


@gluon.jit
def fetch(desc, batch, head, row, slot, full):
    """Start the copy of some rows of a head."""
    rows: gl.constexpr = slot.shape[2]
    D: gl.constexpr = slot.shape[3]
    mbarrier.expect(full, rows * D * 2)
    tma.async_copy_global_to_shared(desc, [batch, head, row, 0], full, slot)


@gluon.jit
def producer(
    q_desc, k_desc, v_desc,
    queries, rings,
    sizes, GROUP,
    CAUSAL: gl.constexpr, DEAL: gl.constexpr,
):  # fmt: skip
    q_slots, q_full, q_empty = queries
    k_slots, k_full, k_empty, v_slots, v_full, v_empty = rings
    tiles, H, S, T = sizes
    HALF: gl.constexpr = q_slots.shape[3]
    SLOTS: gl.constexpr = k_slots.shape[0]
    BLOCK: gl.constexpr = k_slots.shape[3]
    done, step = 0, 0
    for deal in range(gl.program_id(0), gl.cdiv(tiles, DEAL), gl.num_programs(0)):
        for tile in range(deal * DEAL, gl.minimum(deal * DEAL + DEAL, tiles)):
            number, row, blocks = tile_of(tile, S, T, BLOCK, CAUSAL)
            batch, head = number // H, number % H
            for half in gl.static_range(2):
                own = done % 2 * 2 + half
                mbarrier.wait(q_empty.index(own), (done // 2 & 1) ^ 1)
                fetch(q_desc, batch, head, row + half * HALF, q_slots.index(own), q_full.index(own))
            for i in range(blocks):
                key = (blocks - 1 - i) * BLOCK
                slot, phase = step % SLOTS, step // SLOTS & 1
                mbarrier.wait(k_empty.index(slot), phase ^ 1)
                fetch(k_desc, batch, head // GROUP, key, k_slots.index(slot), k_full.index(slot))
                mbarrier.wait(v_empty.index(slot), phase ^ 1)
                fetch(v_desc, batch, head // GROUP, key, v_slots.index(slot), v_full.index(slot))
                step += 1
            done += 1


@gluon.jit
def by_turns(
    half: gl.constexpr,
    s, seen, o, q,
    rings, turn,
    blocks, step, done, scale,
):  # fmt: skip
    """Take a tile's blocks in turns with the other consumer, but for the last product."""
    k_slots, k_full, k_empty, v_slots, v_full, v_empty = rings
    SLOTS: gl.constexpr = k_slots.shape[0]
    BLOCK: gl.constexpr = k_slots.shape[3]
    D: gl.constexpr = k_slots.shape[4]
    s_layout: gl.constexpr = s.type.layout
    o_layout: gl.constexpr = o.type.layout
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    zeros = gl.zeros(s.shape, gl.float32, s_layout)
    slot, phase = step % SLOTS, step // SLOTS & 1
    s = gl.where(seen, s, float("-inf"))
    # Finite, so that a row that sees only -inf here may still see more in the next block.
    largest = gl.maximum(gl.max(s, 1) * scale, -1e38)
    p = gl.exp2(s * scale - largest[:, None])
    total = gl.sum(p, 1)
    p = gl.convert_layout(p.to(k_slots.dtype), p_layout)
    mbarrier.wait(v_full.index(slot), phase)

    for _ in range(1, blocks):
        v = v_slots.index(slot).reshape([BLOCK, D])
        v_done = v_empty.index(slot)
        step += 1
        slot, phase = step % SLOTS, step // SLOTS & 1
        mbarrier.wait(k_full.index(slot), phase)
        k = k_slots.index(slot).reshape([BLOCK, D]).permute([1, 0])
        # The first steps of all tiles have no turn.
        mbarrier.wait(turn.index(half), ((step - done - 1 + half) & 1) ^ 1)
        s = warpgroup_mma(q, k, zeros, use_acc=False, is_async=True)
        o = warpgroup_mma(p, v, o, is_async=True)
        mbarrier.arrive(turn.index(1 - half), count=1)
        s = warpgroup_mma_wait(num_outstanding=1, deps=(s,))
        mbarrier.arrive(k_empty.index(slot), count=1)
        larger = gl.maximum(largest, gl.max(s, 1) * scale)
        shrink = gl.exp2(largest - larger)
        largest = larger
        p = gl.exp2(s * scale - largest[:, None])
        total = total * shrink + gl.sum(p, 1)
        # The assembler lifts the wait for o over the exponentials, but not over a loop, and this
        # wait for the values of the next step is one.
        mbarrier.wait(v_full.index(slot), phase)
        o = warpgroup_mma_wait(num_outstanding=0, deps=(o,))
        mbarrier.arrive(v_done, count=1)
        p = gl.convert_layout(p.to(k_slots.dtype), p_layout)
        o *= gl.convert_layout(shrink, gl.SliceLayout(1, o_layout))[:, None]
    return p, o, total, step


@gluon.jit
def sums_of_lanes(e):
    """What each lane has of the sums of rows: of every 8 columns it holds two neighbours."""
    return gl.sum(gl.sum(e.reshape([e.shape[0], e.shape[1] // 8, 4, 2]), 3), 1)


@gluon.jit
def step_ahead(
    s, p, o, largest, total,
    seen, q, rings, step, scale,
    FIRST: gl.constexpr, LAST: gl.constexpr,
):  # fmt: skip
    """Take the exponentials of a block under the next scores and the product before."""
    k_slots, k_full, k_empty, v_slots, v_full, v_empty = rings
    SLOTS: gl.constexpr = k_slots.shape[0]
    BLOCK: gl.constexpr = k_slots.shape[3]
    D: gl.constexpr = k_slots.shape[4]
    s_layout: gl.constexpr = s.type.layout
    o_layout: gl.constexpr = o.type.layout
    before, after = (step + SLOTS - 1) % SLOTS, (step + 1) % SLOTS
    if not LAST:
        mbarrier.wait(k_full.index(after), (step + 1) // SLOTS & 1)
        k = k_slots.index(after).reshape([BLOCK, D]).permute([1, 0])
        zeros = gl.zeros(s.shape, gl.float32, s_layout)
        s_after = warpgroup_mma(q, k, zeros, use_acc=False, is_async=True)
    if FIRST:
        s = gl.where(seen, s, float("-inf"))
    else:
        o = warpgroup_mma(p, v_slots.index(before).reshape([BLOCK, D]), o, is_async=True)
    larger = gl.maximum(largest, gl.max(s, 1) * scale)
    e = gl.exp2(s * scale - larger[:, None])
    sums = sums_of_lanes(e)
    if not FIRST:
        shrink = gl.exp2(largest - larger)
        lane_layout: gl.constexpr = sums.type.layout
        sums += total * gl.convert_layout(shrink, gl.SliceLayout(1, lane_layout))[:, None]
    # As in by_turns, the assembler does not lift the waits for the products over this one.
    mbarrier.wait(v_full.index(step % SLOTS), step // SLOTS & 1)
    if not LAST:
        s = warpgroup_mma_wait(num_outstanding=0, deps=(s_after,))
        mbarrier.arrive(k_empty.index(after), count=1)
    if not FIRST:
        o = warpgroup_mma_wait(num_outstanding=0, deps=(o,))
        mbarrier.arrive(v_empty.index(before), count=1)
        o *= gl.convert_layout(shrink, gl.SliceLayout(1, o_layout))[:, None]
    p = gl.convert_layout(e.to(k_slots.dtype), gl.DotOperandLayout(0, o_layout, 2))
    return s, p, o, larger, sums


@gluon.jit
def ahead(s, seen, o, q, rings, blocks, step, scale, ROUND: gl.constexpr):
    """Take a tile's blocks with two products under way, but for the last product.

    The totals are those of lanes. In rounds of two blocks, scores and those of the next block
    change places without a copy.
    """
    # Finite, so that a row that sees only -inf here may still see more in the next block.
    if blocks > 1:
        s, p, o, largest, total = step_ahead(
            s, None, o, -1e38, None, seen, q, rings, step, scale, True, False
        )
        if blocks % ROUND > 0:
            s, p, o, largest, total = step_ahead(
                s, p, o, largest, total, None, q, rings, step + 1, scale, False, False
            )
        for i in range(1 + blocks % ROUND, blocks - 1, ROUND):
            for more in gl.static_range(ROUND):
                s, p, o, largest, total = step_ahead(
                    s, p, o, largest, total, None, q, rings, step + i + more, scale, False, False
                )
        s, p, o, largest, total = step_ahead(
            s, p, o, largest, total, None, q, rings, step + blocks - 1, scale, False, True
        )
    else:
        s, p, o, largest, total = step_ahead(
            s, None, o, -1e38, None, seen, q, rings, step, scale, True, True
        )
    return p, o, total, step + blocks - 1


@gluon.jit
def consumer(
    half: gl.constexpr,
    outputs, queries, rings, turn,
    sizes, scale,
    CAUSAL: gl.constexpr, DEAL: gl.constexpr, AHEAD: gl.constexpr,
):  # fmt: skip
    out_desc, out_slots = outputs
    q_slots, q_full, q_empty = queries
    k_slots, k_full, k_empty, v_slots, _, v_empty = rings
    tiles, H, S, T = sizes
    HALF: gl.constexpr = q_slots.shape[3]
    SLOTS: gl.constexpr = k_slots.shape[0]
    BLOCK: gl.constexpr = k_slots.shape[3]
    D: gl.constexpr = k_slots.shape[4]
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    zeros = gl.zeros([HALF, BLOCK], gl.float32, s_layout)
    done, step = 0, 0
    for deal in range(gl.program_id(0), gl.cdiv(tiles, DEAL), gl.num_programs(0)):
        for tile in range(deal * DEAL, gl.minimum(deal * DEAL + DEAL, tiles)):
            number, row, blocks = tile_of(tile, S, T, BLOCK, CAUSAL)
            row += half * HALF
            slot, phase = step % SLOTS, step // SLOTS & 1
            own = done % 2 * 2 + half
            q = q_slots.index(own).reshape([HALF, D])
            mbarrier.wait(q_full.index(own), done // 2 & 1)
            mbarrier.wait(k_full.index(slot), phase)
            k = k_slots.index(slot).reshape([BLOCK, D]).permute([1, 0])
            s = warpgroup_mma(q, k, zeros, use_acc=False)
            mbarrier.arrive(k_empty.index(slot), count=1)
            offs_n = (blocks - 1) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, s_layout))
            seen = (offs_n < T)[None, :]
            if CAUSAL:
                offs_m = row + gl.arange(0, HALF, gl.SliceLayout(1, s_layout))
                seen = seen & (offs_n[None, :] <= offs_m[:, None])
            o = gl.zeros([HALF, D], gl.float32, o_layout)
            if AHEAD:
                # It is how many blocks a round has.
                p, o, total, step = ahead(s, seen, o, q, rings, blocks, step, scale, AHEAD)
            else:
                p, o, total, step = by_turns(
                    half, s, seen, o, q, rings, turn, blocks, step, done, scale
                )
            slot = step % SLOTS
            mbarrier.arrive(q_empty.index(own), count=1)
            o = warpgroup_mma(p, v_slots.index(slot).reshape([BLOCK, D]), o)
            mbarrier.arrive(v_empty.index(slot), count=1)
            step += 1
            done += 1
            if AHEAD:
                total = gl.sum(total, 1)
            o *= gl.convert_layout(1 / total, gl.SliceLayout(1, o_layout))[:, None]
            tma.store_wait(0)
            out_slots.index(half).reshape([HALF, D]).store(o.to(out_desc.dtype))
            fence_async_shared()
            head, batch = number % H, number // H
            tma.async_copy_shared_to_global(out_desc, [batch, head, row, 0], out_slots.index(half))
    tma.store_wait(0)


@gluon.jit
def barriers(number: gl.constexpr, count: gl.constexpr):
    bars = gl.allocate_shared_memory(gl.int64, [number, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(number):
        mbarrier.init(bars.index(i), count=count)
    return bars


@gluon.jit
def gluon_attention_kernel(
    q_desc, k_desc, v_desc, out_desc,
    tiles, H, GROUP, S, T,
    scale,
    D: gl.constexpr, HALF: gl.constexpr, SLOTS: gl.constexpr,
    CAUSAL: gl.constexpr, DEAL: gl.constexpr, AHEAD: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_desc.dtype
    q_slots = gl.allocate_shared_memory(dtype, [4, 1, 1, HALF, D], q_desc.layout)
    k_slots = gl.allocate_shared_memory(dtype, [SLOTS, 1, 1, 2 * HALF, D], k_desc.layout)
    v_slots = gl.allocate_shared_memory(dtype, [SLOTS, 1, 1, 2 * HALF, D], v_desc.layout)
    out_slots = gl.allocate_shared_memory(dtype, [2, 1, 1, HALF, D], out_desc.layout)
    q_full, q_empty = barriers(4, 1), barriers(4, 1)
    k_full, k_empty = barriers(SLOTS, 1), barriers(SLOTS, 2)
    v_full, v_empty = barriers(SLOTS, 1), barriers(SLOTS, 2)
    turn = barriers(2, 1)
    fence_async_shared()
    queries = (q_slots, q_full, q_empty)
    rings = (k_slots, k_full, k_empty, v_slots, v_full, v_empty)
    sizes = (tiles, H, S, T)
    outputs = (out_desc, out_slots)
    gl.warp_specialize(
        [
            (consumer, (0, outputs, queries, rings, turn, sizes, scale, CAUSAL, DEAL, AHEAD)),
            (consumer, (1, outputs, queries, rings, turn, sizes, scale, CAUSAL, DEAL, AHEAD)),
            (producer, (q_desc, k_desc, v_desc, queries, rings, sizes, GROUP, CAUSAL, DEAL)),
        ],
        [4, 1],
        [240, 24],
    )


def is_addressable(x: torch.Tensor) -> bool:
    """Whether TMA can fetch rows of x (B, H, S, D)."""
    aligned = all(stride * x.element_size() % 16 == 0 for stride in x.stride()[:-1])
    return aligned and x.data_ptr() % 16 == 0 and x.stride(-1) == 1 and min(x.stride()) > 0


def describe(x: torch.Tensor, rows: int) -> TensorDescriptor:
    """A descriptor for so many rows of a head."""
    block = [1, 1, rows, x.shape[3]]
    layout = gl.NVMMASharedLayout.get_default_for(block, DTYPES[x.dtype])
    return TensorDescriptor.from_tensor(x, block, layout)


def gluon_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> torch.Tensor:
    if q.dim() != 4 or q.shape[3] not in (64, 128):
        raise ValueError(f"q must be (B, H, S, D) with D 64 or 128, not {tuple(q.shape)}")
    if q.dtype not in DTYPES:
        raise ValueError(f"q must be float16 or bfloat16, not {q.dtype}")
    B, H, S, D = q.shape
    if k.dim() != 4 or k.shape[::3] != (B, D) or H % k.shape[1] or k.dtype != q.dtype:
        raise ValueError(
            f"k must be {q.dtype} ({B}, a divisor of {H}, T, {D}), not {k.dtype} {tuple(k.shape)}"
        )
    if v.shape != k.shape or v.dtype != k.dtype:
        raise ValueError(f"v must be {k.dtype} {tuple(k.shape)}, not {v.dtype} {tuple(v.shape)}")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not is_addressable(x):
            raise ValueError(f"{name} must have rows that begin at multiples of 16 bytes, for TMA")
    out = torch.empty(B, H, S, D, dtype=q.dtype, device=q.device)
    scale = (D**-0.5 if scale is None else scale) * math.log2(math.e)  # exp2 takes it
    HALF = 64
    tiles = triton.cdiv(S, 2 * HALF) * B * H
    programs = min(tiles, multiprocessors(q.device))
    # A long and a short tile at a time, unless some programs would then have none.
    DEAL = 2 if causal and tiles >= 2 * programs else 1
    AHEAD = 0
    if D == 64 and S >= MANY:
        # Rounds of two take 1 to 4 % less time, but where 16 does not divide the sizes, for which
        # Triton then compiles another kernel, they take half as much again (H100, Triton 3.6).
        AHEAD = 2 if not causal and S % 16 == k.shape[2] % 16 == 0 else 1
    # maxnreg is what threads have at first: 65,536 registers for 9 warps and those that pad them.
    gluon_attention_kernel[(programs,)](
        describe(q, HALF), describe(k, 2 * HALF), describe(v, 2 * HALF), describe(out, HALF),
        tiles, H, H // k.shape[1], S, k.shape[2],
        scale,
        D=D, HALF=HALF, SLOTS=2 if D == 128 else 3,
        CAUSAL=causal, DEAL=DEAL, AHEAD=AHEAD, num_warps=4, maxnreg=168,
    )  # fmt: skip
    return out
