"""Small Gluon kernels that tests/test_gluon.py runs, right and with edits.

Each function returns its result and what it should be.
"""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.language.core import _aggregate as aggregate


def descriptor(x, block):
    kind = {torch.float32: gl.float32, torch.float16: gl.float16}[x.dtype]
    return TensorDescriptor.from_tensor(x, block, gl.NVMMASharedLayout.get_default_for(block, kind))


# A ring of two buffers between a producer and a consumer


@gluon.jit
def ring_producer(x_desc, buffers, full, empty, steps, BLOCK: gl.constexpr):
    for i in range(steps):
        slot = i % 2
        mbarrier.wait(empty.index(slot), (i // 2 & 1) ^ 1)
        mbarrier.expect(full.index(slot), BLOCK * 4)
        tma.async_copy_global_to_shared(x_desc, [i, 0], full.index(slot), buffers.index(slot))


@gluon.jit
def ring_consumer(y_ptr, buffers, full, empty, steps, BLOCK: gl.constexpr, layout: gl.constexpr):
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, layout))
    for i in range(steps):
        slot = i % 2
        mbarrier.wait(full.index(slot), i // 2 & 1)
        tile = buffers.index(slot).load(layout)
        mbarrier.arrive(empty.index(slot), count=1)
        gl.store(y_ptr + i * BLOCK + cols[None, :], 2 * tile)


@gluon.jit
def ring_kernel(x_desc, y_ptr, steps, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [1, 4], [1, 0])
    buffers = gl.allocate_shared_memory(x_desc.dtype, [2, 1, BLOCK], x_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    gl.warp_specialize(
        [
            (ring_consumer, (y_ptr, buffers, full, empty, steps, BLOCK, layout)),
            (ring_producer, (x_desc, buffers, full, empty, steps, BLOCK)),
        ],
        [1],
        [24],
    )


def ring():
    x = torch.arange(7 * 128, dtype=torch.float32).reshape(7, 128)
    y = torch.empty_like(x)
    ring_kernel[(1,)](descriptor(x, [1, 128]), y, 7, 128, num_warps=4)
    return y, 2 * x


# Tiles through shared memory, in by TMA and out by TMA


@gluon.jit
def copied_kernel(x_desc, y_desc, N, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    tile_in = gl.allocate_shared_memory(x_desc.dtype, [8, BLOCK], x_desc.layout)
    tile_out = gl.allocate_shared_memory(y_desc.dtype, [8, BLOCK], y_desc.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    row = gl.program_id(0) * 8
    phase = 0
    for start in range(0, N, BLOCK):
        mbarrier.expect(bar, x_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(x_desc, [row, start], bar, tile_in)
        mbarrier.wait(bar, phase)
        phase ^= 1
        x = tile_in.load(layout)
        tma.store_wait(0)
        tile_out.store(x + 1)
        fence_async_shared()
        tma.async_copy_shared_to_global(y_desc, [row, start], tile_out)
    tma.store_wait(0)


def copied():
    x = torch.arange(20 * 80, dtype=torch.float32).reshape(20, 80)
    y = torch.empty_like(x)
    copied_kernel[(3,)](descriptor(x, [8, 32]), descriptor(y, [8, 32]), 80, 32, num_warps=4)
    return y, x + 1


# Tiles of all programs, added up by TMA


@gluon.jit
def added_kernel(x_ptr, y_desc, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    tile_out = gl.allocate_shared_memory(y_desc.dtype, [8, BLOCK], y_desc.layout)
    rows = gl.arange(0, 8, gl.SliceLayout(1, layout))[:, None]
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, layout))[None, :]
    x = gl.load(x_ptr + (gl.program_id(0) * 8 + rows) * BLOCK + cols)
    tile_out.store(x)
    fence_async_shared()  # of tile_out
    # Gluon has it from Triton 3.8 on, the interpreter always.
    tma.async_atomic_add(y_desc, [0, 16], tile_out)
    tma.store_wait(0)  # for tile_out


def added():
    x = torch.arange(5 * 8 * 32, dtype=torch.float32).reshape(5, 8, 32)
    y = torch.ones(8, 40)
    expected = y.clone()
    # The last columns of the tiles lie outside of y.
    expected[:, 16:] += x.sum(0)[:, :24]
    added_kernel[(5,)](x, descriptor(y, [8, 32]), 32, num_warps=4)
    return y, expected


# Blocks fetched ahead by cp.async


@gluon.jit
def prefetched_kernel(x_ptr, y_ptr, N, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    buffers = gl.allocate_shared_memory(gl.float32, [2, BLOCK], shared)
    cols = gl.arange(0, BLOCK, layout)
    steps = gl.cdiv(N, BLOCK)
    async_copy.async_copy_global_to_shared(buffers.index(0), x_ptr + cols, mask=cols < N)
    async_copy.commit_group()
    for i in range(steps):
        ahead = (i + 1) * BLOCK + cols
        async_copy.async_copy_global_to_shared(
            buffers.index((i + 1) % 2), x_ptr + ahead, mask=ahead < N
        )
        async_copy.commit_group()
        async_copy.wait_group(1)
        x = buffers.index(i % 2).load(layout)
        offs = i * BLOCK + cols
        gl.store(y_ptr + offs, gl.exp(x), mask=offs < N)
    async_copy.wait_group(0)


def prefetched():
    x = torch.linspace(-1, 1, 900)
    y = torch.empty_like(x)
    prefetched_kernel[(1,)](x, y, 900, 256, num_warps=4)
    return y, x.exp()


# A product, one step in flight while the next tiles come


@gluon.jit
def product_kernel(a_desc, b_desc, c_desc, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    a_s = gl.allocate_shared_memory(a_desc.dtype, [3, BM, BK], a_desc.layout)
    b_s = gl.allocate_shared_memory(b_desc.dtype, [3, BK, BN], b_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [3, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(3):
        mbarrier.init(full.index(i), count=1)
    fence_async_shared()
    m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
    steps = gl.cdiv(K, BK)
    for i in gl.static_range(2):
        mbarrier.expect(full.index(i), (BM + BN) * BK * 2, pred=i < steps)
        tma.async_copy_global_to_shared(
            a_desc, [m, i * BK], full.index(i), a_s.index(i), pred=i < steps
        )
        tma.async_copy_global_to_shared(
            b_desc, [i * BK, n], full.index(i), b_s.index(i), pred=i < steps
        )
    acc = gl.zeros([BM, BN], gl.float32, layout)
    for i in range(steps):
        mbarrier.wait(full.index(i % 3), i // 3 & 1)
        acc = warpgroup_mma(a_s.index(i % 3), b_s.index(i % 3), acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))
        j = i + 2
        free = full.index(j % 3)
        more = j < steps
        mbarrier.expect(free, (BM + BN) * BK * 2, pred=more)
        tma.async_copy_global_to_shared(a_desc, [m, j * BK], free, a_s.index(j % 3), pred=more)
        tma.async_copy_global_to_shared(b_desc, [j * BK, n], free, b_s.index(j % 3), pred=more)
    acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
    c_s = gl.allocate_shared_memory(c_desc.dtype, [BM, BN], c_desc.layout)
    c_s.store(acc.to(c_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(c_desc, [m, n], c_s)
    tma.store_wait(0)


def matrices():
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(96, 112, generator=generator).half()
    b = torch.randn(112, 48, generator=generator).half()
    c = torch.empty(96, 48, dtype=torch.float16)
    return a, b, c


def product():
    a, b, c = matrices()
    grid = (2, 2)
    product_kernel[grid](
        descriptor(a, [64, 16]), descriptor(b, [16, 32]), descriptor(c, [64, 32]),
        112, 64, 32, 16, num_warps=4,
    )  # fmt: skip
    return c, a @ b


# The same by a producer and two consumers


@gluon.jit
def divided_producer(a_desc, b_desc, a_s, b_s, full, empty, K, BK: gl.constexpr):
    CM: gl.constexpr = a_s.shape[1]
    BN: gl.constexpr = b_s.shape[2]
    m, n = gl.program_id(0) * 2 * CM, gl.program_id(1) * BN
    for i in range(gl.cdiv(K, BK)):
        slot = i % 2
        bar = full.index(slot)
        mbarrier.wait(empty.index(slot), (i // 2 & 1) ^ 1)
        mbarrier.expect(bar, (2 * CM + BN) * BK * 2)
        for c in gl.static_range(2):
            tma.async_copy_global_to_shared(
                a_desc, [m + c * CM, i * BK], bar, a_s.index(2 * slot + c)
            )
        tma.async_copy_global_to_shared(b_desc, [i * BK, n], bar, b_s.index(slot))


@gluon.jit
def divided_consumer(c: gl.constexpr, c_desc, a_s, b_s, c_s, full, empty, K, BK: gl.constexpr):
    CM: gl.constexpr = a_s.shape[1]
    BN: gl.constexpr = b_s.shape[2]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, BN, 16])
    m, n = gl.program_id(0) * 2 * CM, gl.program_id(1) * BN
    acc = gl.zeros([CM, BN], gl.float32, layout)
    for i in range(gl.cdiv(K, BK)):
        slot = i % 2
        mbarrier.wait(full.index(slot), i // 2 & 1)
        acc = warpgroup_mma(a_s.index(2 * slot + c), b_s.index(slot), acc, is_async=True)
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        mbarrier.arrive(empty.index(slot), count=1)
    out = c_s.index(c)
    out.store(acc.to(c_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(c_desc, [m + c * CM, n], out)
    tma.store_wait(0)


@gluon.jit
def divided_kernel(a_desc, b_desc, c_desc, K, CM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    a_s = gl.allocate_shared_memory(a_desc.dtype, [4, CM, BK], a_desc.layout)
    b_s = gl.allocate_shared_memory(b_desc.dtype, [2, BK, BN], b_desc.layout)
    c_s = gl.allocate_shared_memory(c_desc.dtype, [2, CM, BN], c_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
    fence_async_shared()
    gl.warp_specialize(
        [
            (divided_consumer, (0, c_desc, a_s, b_s, c_s, full, empty, K, BK)),
            (divided_consumer, (1, c_desc, a_s, b_s, c_s, full, empty, K, BK)),
            (divided_producer, (a_desc, b_desc, a_s, b_s, full, empty, K, BK)),
        ],
        [4, 1],
        [240, 24],
    )


def divided():
    a, b, c = matrices()
    divided_kernel[(1, 2)](
        descriptor(a, [64, 16]), descriptor(b, [16, 32]), descriptor(c, [64, 32]),
        112, 64, 32, 16, num_warps=4,
    )  # fmt: skip
    return c, a @ b


# The ring once more, as an aggregate with methods; another one goes round a loop


@aggregate
class Turn:
    number: gl.tensor
    slots: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, number, slots):
        self.number = number
        self.slots = gl.constexpr(slots)

    @gluon.jit
    def slot(self):
        return self.number % self.slots

    @gluon.jit
    def phase(self):
        return self.number // self.slots & 1

    @gluon.jit
    def following(self):
        return Turn(self.number + 1, self.slots)


@aggregate
class Ring:
    tiles: gl.shared_memory_descriptor
    free: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    columns: gl.tensor
    slots: gl.constexpr
    dtype: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, tiles, free, full, columns, slots, dtype):
        self.tiles, self.free, self.full, self.columns = tiles, free, full, columns
        self.slots = gl.constexpr(slots)
        self.dtype = gl.constexpr(dtype)

    @staticmethod
    @gluon.jit
    def allocate(desc, slots: gl.constexpr):
        tiles = gl.allocate_shared_memory(desc.dtype, [slots, 1, desc.block_shape[1]], desc.layout)
        free = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
        full = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
        for i in gl.static_range(slots):
            mbarrier.init(free.index(i), count=1)
            mbarrier.init(full.index(i), count=1)
        return Ring(tiles, free, full, desc.shape[1], slots, desc.dtype)

    @gluon.constexpr_function
    def slot_bytes(self):
        return self.tiles.numel // self.slots * (self.dtype.value.primitive_bitwidth // 8)

    @gluon.jit
    def fetch(self, desc, turn):
        mbarrier.wait(self.free.index(turn.slot()), turn.phase() ^ 1)
        bar = self.full.index(turn.slot())
        gl.static_assert(self.dtype.primitive_bitwidth == 32)
        mbarrier.expect(bar, self.slot_bytes())
        tma.async_copy_global_to_shared(desc, [turn.number, 0], bar, self.tiles.index(turn.slot()))

    @gluon.jit
    def take(self, turn, layout: gl.constexpr):
        mbarrier.wait(self.full.index(turn.slot()), turn.phase())
        tile = self.tiles.index(turn.slot()).load(layout)
        mbarrier.arrive(self.free.index(turn.slot()), count=1)
        return tile


@gluon.jit
def fetching(desc, ring, first, steps):
    turn = first
    for _ in range(steps):
        ring.fetch(desc, turn)
        turn = turn.following()


@gluon.jit
def taking(y_ptr, ring, first, steps, layout: gl.constexpr):
    turn = first
    cols = gl.arange(0, ring.tiles.shape[2], gl.SliceLayout(0, layout))
    for _ in range(steps):
        tile = ring.take(turn, layout)
        gl.store(y_ptr + turn.number * ring.columns + cols[None, :], 2 * tile)
        turn = turn.following()


@gluon.jit
def aggregates_kernel(x_desc, y_ptr, steps):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [1, 4], [1, 0])
    ring = Ring.allocate(x_desc, 2)
    first = Turn(gl.to_tensor(0), 2)
    gl.warp_specialize(
        [
            (taking, (y_ptr, ring, first, steps, layout)),
            (fetching, (x_desc, ring, first, steps)),
        ],
        [1],
        [24],
    )


def aggregates():
    x = torch.arange(7 * 128, dtype=torch.float32).reshape(7, 128)
    y = torch.empty_like(x)
    aggregates_kernel[(1,)](descriptor(x, [1, 128]), y, 7, num_warps=4)
    return y, 2 * x
