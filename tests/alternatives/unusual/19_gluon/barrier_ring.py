# Three partitions and a ring of three slots: one fetches, one doubles a tile where it lies, and one
# stores it by TMA and gives the slot back. A helper makes the barriers, all of them in one piece.
import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

TYPES = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16, torch.float32: gl.float32}


@gluon.jit
def make_barriers(KINDS: gl.constexpr, DEPTH: gl.constexpr):
    """Barriers of each kind, one after the other: fetched, doubled, free."""
    bars = gl.allocate_shared_memory(gl.int64, [KINDS * DEPTH, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(KINDS * DEPTH):
        mbarrier.init(bars.index(i), count=1)
    fence_async_shared()
    return bars


@gluon.jit
def place(turn, DEPTH: gl.constexpr):
    return turn % DEPTH, (turn // DEPTH) % 2


@gluon.jit
def fetcher(source, ring, bars, row, turns):
    DEPTH: gl.constexpr = ring.shape[0]
    for turn in range(turns):
        slot, phase = place(turn, DEPTH)
        mbarrier.wait(bars.index(2 * DEPTH + slot), 1 - phase)
        mbarrier.expect(bars.index(slot), source.block_type.nbytes)
        tma.async_copy_global_to_shared(
            source, [row, turn * ring.shape[2]], bars.index(slot), ring.index(slot)
        )


@gluon.jit
def doubler(ring, bars, turns):
    DEPTH: gl.constexpr = ring.shape[0]
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [2, 2], [1, 0])
    for turn in range(turns):
        slot, phase = place(turn, DEPTH)
        mbarrier.wait(bars.index(slot), phase)
        x = ring.index(slot).load(layout)
        ring.index(slot).store(x + x)
        fence_async_shared()
        mbarrier.arrive(bars.index(DEPTH + slot), count=1)


@gluon.jit
def writer(target, ring, bars, row, turns):
    DEPTH: gl.constexpr = ring.shape[0]
    for turn in range(turns):
        slot, phase = place(turn, DEPTH)
        mbarrier.wait(bars.index(DEPTH + slot), phase)
        tma.async_copy_shared_to_global(target, [row, turn * ring.shape[2]], ring.index(slot))
        tma.store_wait(0)
        mbarrier.arrive(bars.index(2 * DEPTH + slot), count=1)


@gluon.jit
def three_kernel(source, target, N, DEPTH: gl.constexpr):
    HEIGHT: gl.constexpr = source.block_type.shape[0]
    WIDTH: gl.constexpr = source.block_type.shape[1]
    ring = gl.allocate_shared_memory(source.dtype, [DEPTH, HEIGHT, WIDTH], source.layout)
    bars = make_barriers(3, DEPTH)
    row, turns = gl.program_id(0) * HEIGHT, gl.cdiv(N, WIDTH)
    gl.warp_specialize(
        [
            (doubler, (ring, bars, turns)),
            (fetcher, (source, ring, bars, row, turns)),
            (writer, (target, ring, bars, row, turns)),
        ],
        [1, 1],
        [32, 32],
    )


def described(x, block):
    return TensorDescriptor.from_tensor(
        x, block, gl.NVMMASharedLayout.get_default_for(block, TYPES[x.dtype])
    )


def barrier_ring(x, *, depth=3):
    if x.ndim != 2 or x.dtype not in TYPES:
        raise ValueError("x must be a matrix of float16, bfloat16 or float32")
    starts = x.data_ptr(), x.stride(0) * x.element_size()
    if x.stride(1) != 1 or any(it % 16 for it in starts) or x.stride(0) < x.shape[1]:
        raise ValueError("x must be addressable by TMA")
    M, N = x.shape
    y = torch.empty(M, N, dtype=x.dtype, device=x.device)
    if y.stride(0) * y.element_size() % 16:
        raise ValueError("x must have rows of whole 16 bytes, for TMA")
    block = [16, 64]
    three_kernel[lambda meta: (triton.cdiv(M, 16),)](
        described(x, block), described(y, block), N, DEPTH=depth, num_warps=4, maxnreg=128
    )
    return y
