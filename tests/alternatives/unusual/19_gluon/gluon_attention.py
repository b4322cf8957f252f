# One consumer of eight warps takes 128 queries, and two producers of a warp each bring keys and
# values through rings of their own. Every block has a mask; they come from the first to the last.
import functools

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


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@gluon.jit
def ring_of(desc, DEPTH: gl.constexpr, ROWS: gl.constexpr, D: gl.constexpr):
    """Slots, and for each a barrier of what has come and one of what may come."""
    slots = gl.allocate_shared_memory(desc.dtype, [DEPTH, 1, 1, ROWS, D], desc.layout)
    bars = gl.allocate_shared_memory(gl.int64, [2 * DEPTH, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2 * DEPTH):
        mbarrier.init(bars.index(i), count=1)
    return slots, bars


@gluon.jit
def tile_of(number, S, T, ROWS: gl.constexpr, KEYS: gl.constexpr, CAUSAL: gl.constexpr):
    tiles = gl.cdiv(S, ROWS)
    row = (tiles - 1 - number % tiles) * ROWS
    return number // tiles, row, gl.cdiv(gl.minimum(T, row + ROWS) if CAUSAL else T, KEYS)


@gluon.jit
def come(ring, turn):
    slots, bars = ring
    DEPTH: gl.constexpr = slots.shape[0]
    mbarrier.wait(bars.index(turn % DEPTH), turn // DEPTH & 1)
    return slots.index(turn % DEPTH).reshape([slots.shape[3], slots.shape[4]])


@gluon.jit
def give_back(ring, turn):
    DEPTH: gl.constexpr = ring[0].shape[0]
    mbarrier.arrive(ring[1].index(DEPTH + turn % DEPTH), count=1)


@gluon.jit
def bring(desc, ring, turn, batch, head, row):
    slots, bars = ring
    DEPTH: gl.constexpr = slots.shape[0]
    slot = turn % DEPTH
    mbarrier.wait(bars.index(DEPTH + slot), (turn // DEPTH & 1) ^ 1)
    mbarrier.expect(bars.index(slot), 2 * slots.shape[3] * slots.shape[4])
    corner = [batch, head, row, 0]
    tma.async_copy_global_to_shared(desc, corner, bars.index(slot), slots.index(slot))


@gluon.jit
def producer(desc, ring, q_desc, q_ring, tiles, sizes, CAUSAL: gl.constexpr, WITH_Q: gl.constexpr):
    H, S, T, GROUP = sizes
    ROWS: gl.constexpr = q_ring[0].shape[3]
    KEYS: gl.constexpr = ring[0].shape[3]
    turn = 0
    for number in range(gl.program_id(0), tiles, gl.num_programs(0)):
        done = number // gl.num_programs(0)
        head, row, blocks = tile_of(number, S, T, ROWS, KEYS, CAUSAL)
        if WITH_Q:
            bring(q_desc, q_ring, done, head // H, head % H, row)
        for block in range(blocks):
            bring(desc, ring, turn, head // H, head % H // GROUP, block * KEYS)
            turn += 1


@gluon.jit
def softmax(s, most, total, rows, cols, T, scale, CAUSAL: gl.constexpr):
    seen = (cols < T)[None, :]
    if CAUSAL:
        seen = seen & (cols[None, :] <= rows[:, None])
    s = gl.where(seen, s * scale, float("-inf"))
    # Finite, so that a row that has seen only -inf may still see more.
    new = gl.maximum(most, gl.max(s, 1))
    p = gl.exp2(s - new[:, None])
    shrink = gl.exp2(most - new)
    return p, new, total * shrink + gl.sum(p, 1), shrink


@gluon.jit
def consumer(out_ptr, q_ring, k_ring, v_ring, tiles, sizes, scale, CAUSAL: gl.constexpr):
    _, S, T, _ = sizes
    ROWS: gl.constexpr = q_ring[0].shape[3]
    KEYS: gl.constexpr = k_ring[0].shape[3]
    D: gl.constexpr = k_ring[0].shape[4]
    dtype: gl.constexpr = k_ring[0].dtype
    wide: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, KEYS, 16])
    held: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, D, 16])
    left: gl.constexpr = gl.DotOperandLayout(0, held, 2)
    of_rows: gl.constexpr = gl.SliceLayout(1, held)
    zeros = gl.zeros([ROWS, KEYS], gl.float32, wide)
    cols = gl.arange(0, KEYS, gl.SliceLayout(0, wide))
    turn = 0
    for number in range(gl.program_id(0), tiles, gl.num_programs(0)):
        done = number // gl.num_programs(0)
        head, row, blocks = tile_of(number, S, T, ROWS, KEYS, CAUSAL)
        rows = row + gl.arange(0, ROWS, gl.SliceLayout(1, wide))
        most = gl.full([ROWS], -1e38, gl.float32, gl.SliceLayout(1, wide))
        total = gl.zeros([ROWS], gl.float32, gl.SliceLayout(1, wide))
        acc = gl.zeros([ROWS, D], gl.float32, held)
        q = come(q_ring, done)
        s = warpgroup_mma(q, come(k_ring, turn).permute([1, 0]), zeros, use_acc=False)
        give_back(k_ring, turn)
        for block in range(blocks - 1):
            k = come(k_ring, turn + 1).permute([1, 0])
            later = warpgroup_mma(q, k, zeros, use_acc=False, is_async=True)
            p, most, total, shrink = softmax(
                s, most, total, rows, block * KEYS + cols, T, scale, CAUSAL
            )
            acc *= gl.convert_layout(shrink, of_rows)[:, None]
            v = come(v_ring, turn)
            acc = warpgroup_mma(gl.convert_layout(p.to(dtype), left), v, acc, is_async=True)
            s, acc = warpgroup_mma_wait(num_outstanding=0, deps=(later, acc))
            give_back(v_ring, turn)
            turn += 1
            give_back(k_ring, turn)
        give_back(q_ring, done)
        p, most, total, shrink = softmax(
            s, most, total, rows, (blocks - 1) * KEYS + cols, T, scale, CAUSAL
        )
        acc *= gl.convert_layout(shrink, of_rows)[:, None]
        acc = warpgroup_mma(gl.convert_layout(p.to(dtype), left), come(v_ring, turn), acc)
        give_back(v_ring, turn)
        turn += 1
        acc /= gl.convert_layout(total, of_rows)[:, None]
        out_rows = row + gl.arange(0, ROWS, of_rows)
        offs = (head.to(gl.int64) * S + out_rows)[:, None] * D
        offs += gl.arange(0, D, gl.SliceLayout(0, held))[None, :]
        gl.store(out_ptr + offs, acc.to(dtype), mask=(out_rows < S)[:, None])


@gluon.jit
def three_rings_kernel(
    q_desc, k_desc, v_desc, out_ptr, tiles, H, S, T, GROUP, scale,
    ROWS: gl.constexpr, KEYS: gl.constexpr, D: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    q_ring = ring_of(q_desc, 1, ROWS, D)
    k_ring, v_ring = ring_of(k_desc, 3, KEYS, D), ring_of(v_desc, 2, KEYS, D)
    fence_async_shared()
    sizes = (H, S, T, GROUP)
    gl.warp_specialize(
        [
            (consumer, (out_ptr, q_ring, k_ring, v_ring, tiles, sizes, scale, CAUSAL)),
            (producer, (k_desc, k_ring, q_desc, q_ring, tiles, sizes, CAUSAL, True)),
            (producer, (v_desc, v_ring, q_desc, q_ring, tiles, sizes, CAUSAL, False)),
        ],
        [1, 1],
        [24, 24],
    )


def launched(kernel, types, q, k, v, scale=None, causal=False):
    if q.dim() != 4 or q.shape[3] not in (64, 128) or q.dtype not in types:
        raise ValueError("q must be (B, H, S, 64 or 128), float16 or bfloat16")
    B, H, S, D = q.shape
    if k.dim() != 4 or k.shape[::3] != (B, D) or H % k.shape[1] or k.dtype != q.dtype:
        raise ValueError("k must fit q")
    if v.shape != k.shape or v.dtype != k.dtype:
        raise ValueError("v must fit k")
    for name, x in {"q": q, "k": k, "v": v}.items():
        aligned = x.data_ptr() % 16 == 0 and all(it % 8 == 0 for it in x.stride()[:3])
        if not aligned or x.stride(3) != 1 or min(x.stride()) <= 0:
            raise ValueError(f"{name} must be addressable by TMA")

    def described(x, rows):
        layout = gl.NVMMASharedLayout.get_default_for([1, 1, rows, D], types[x.dtype])
        return TensorDescriptor.from_tensor(x, [1, 1, rows, D], layout)

    out = torch.empty(B, H, S, D, dtype=q.dtype, device=q.device)
    rows, keys = 128, 64
    tiles = triton.cdiv(S, rows) * B * H
    kernel[(min(tiles, multiprocessors(q.device)),)](
        described(q, rows), described(k, keys), described(v, keys), out,
        tiles, H, S, k.shape[2], H // k.shape[1],
        (scale or D**-0.5) * 1.4426950408889634,
        rows, keys, D, causal, num_warps=8, maxnreg=168,
    )  # fmt: skip
    return out


gluon_attention = functools.partial(
    launched, three_rings_kernel, {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}
)
