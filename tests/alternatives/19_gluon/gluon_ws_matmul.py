"""19.5  Gluon warp-specialised matmul, with aggregates.

A ring knows its slots and barriers, a turn which slot and phase it is, and partitions get all that
they need as one thing. Tiles go row after row, and c leaves through pointers.
"""

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
from triton.language.core import _aggregate as aggregate

DTYPES = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@aggregate
class Turn:
    """A slot of a ring, and the phase that its barriers are in."""

    slot: gl.tensor
    phase: gl.tensor
    slots: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, slot, phase, slots):
        self.slot = slot
        self.phase = phase
        self.slots = gl.constexpr(slots)

    @staticmethod
    @gluon.jit
    def first(slots: gl.constexpr):
        return Turn(gl.to_tensor(0), gl.to_tensor(0), slots)

    @gluon.must_use_result
    @gluon.jit
    def following(self):
        is_last = self.slot == self.slots - 1
        slot = gl.where(is_last, 0, self.slot + 1)
        return Turn(slot, gl.where(is_last, self.phase ^ 1, self.phase), self.slots)


@aggregate
class Ring:
    """Slots for tiles of a and b, which go round between a producer and consumers."""

    a: gl.shared_memory_descriptor
    b: gl.shared_memory_descriptor
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    slots: gl.constexpr
    dtype: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, a, b, full, empty, slots, dtype):
        self.a, self.b = a, b
        self.full, self.empty = full, empty
        self.slots = gl.constexpr(slots)
        self.dtype = gl.constexpr(dtype)

    @staticmethod
    @gluon.jit
    def allocate(a_desc, b_desc, slots: gl.constexpr, consumers: gl.constexpr):
        BLOCK_M: gl.constexpr = a_desc.block_shape[0]
        BLOCK_K: gl.constexpr = a_desc.block_shape[1]
        BLOCK_N: gl.constexpr = b_desc.block_shape[1]
        a = gl.allocate_shared_memory(a_desc.dtype, [slots, BLOCK_M, BLOCK_K], a_desc.layout)
        b = gl.allocate_shared_memory(b_desc.dtype, [slots, BLOCK_K, BLOCK_N], b_desc.layout)
        full = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
        empty = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
        for slot in gl.static_range(slots):
            mbarrier.init(full.index(slot), count=1)
            mbarrier.init(empty.index(slot), count=consumers)
        fence_async_shared()
        return Ring(a, b, full, empty, slots, a_desc.dtype)

    @gluon.constexpr_function
    def slot_bytes(self):
        elements = self.a.numel // self.slots + self.b.numel // self.slots
        return elements * self.dtype.value.primitive_bitwidth // 8

    @gluon.jit
    def begin(self, turn):
        """Wait until a slot is empty. Returns its barrier, which expects all bytes of the slot."""
        mbarrier.wait(self.empty.index(turn.slot), turn.phase ^ 1)
        bar = self.full.index(turn.slot)
        mbarrier.expect(bar, self.slot_bytes())
        return bar

    @gluon.jit
    def acquire(self, turn):
        """Wait until a slot is full."""
        mbarrier.wait(self.full.index(turn.slot), turn.phase)
        return self.a.index(turn.slot), self.b.index(turn.slot)

    @gluon.jit
    def release(self, turn, pred=True):
        mbarrier.arrive(self.empty.index(turn.slot), count=1, pred=pred)


@aggregate
class Work:
    """What the partitions of the kernel get."""

    a_desc: tma.tensor_descriptor
    b_desc: tma.tensor_descriptor
    c_ptr: gl.tensor
    M: gl.tensor
    N: gl.tensor
    K: gl.tensor
    ring: Ring
    BLOCK_M: gl.constexpr
    BLOCK_N: gl.constexpr
    BLOCK_K: gl.constexpr

    @gluon.constexpr_function
    def __init__(self, a_desc, b_desc, c_ptr, M, N, K, ring, BLOCK_M, BLOCK_N, BLOCK_K):
        self.a_desc, self.b_desc, self.c_ptr = a_desc, b_desc, c_ptr
        self.M, self.N, self.K = M, N, K
        self.ring = ring
        self.BLOCK_M = gl.constexpr(BLOCK_M)
        self.BLOCK_N = gl.constexpr(BLOCK_N)
        self.BLOCK_K = gl.constexpr(BLOCK_K)

    @gluon.jit
    def tiles(self):
        return gl.cdiv(self.M, self.BLOCK_M) * gl.cdiv(self.N, self.BLOCK_N)

    @gluon.jit
    def corner(self, tile):
        columns = gl.cdiv(self.N, self.BLOCK_N)
        return tile // columns * self.BLOCK_M, tile % columns * self.BLOCK_N


@gluon.jit
def producer(work):
    ring = work.ring
    turn = Turn.first(ring.slots)
    for tile in range(gl.program_id(0), work.tiles(), gl.num_programs(0)):
        m, n = work.corner(tile)
        for k in range(0, work.K, work.BLOCK_K):
            bar = ring.begin(turn)
            tma.async_copy_global_to_shared(work.a_desc, [m, k], bar, ring.a.index(turn.slot))
            tma.async_copy_global_to_shared(work.b_desc, [k, n], bar, ring.b.index(turn.slot))
            turn = turn.following()


@gluon.jit
def consumer(half: gl.constexpr, work):
    HALF_M: gl.constexpr = work.BLOCK_M // 2
    instruction: gl.constexpr = [16, work.BLOCK_N, 16]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], instruction)
    rows_of_warps: gl.constexpr = gl.BlockedLayout([1, 8], [2, 16], [gl.num_warps(), 1], [1, 0])
    ring = work.ring
    turn = Turn.first(ring.slots)
    before = turn
    for tile in range(gl.program_id(0), work.tiles(), gl.num_programs(0)):
        m, n = work.corner(tile)
        acc = gl.zeros([HALF_M, work.BLOCK_N], gl.float32, layout)
        for k in range(0, work.K, work.BLOCK_K):
            a, b = ring.acquire(turn)
            acc = warpgroup_mma(a.slice(half * HALF_M, HALF_M), b, acc, is_async=True)
            acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))
            # The product of the step before is over, and its slot may be filled again.
            ring.release(before, pred=k > 0)
            before = turn
            turn = turn.following()
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        ring.release(before)
        # Rows of warps are longer than those of products.
        c = gl.convert_layout(acc.to(ring.dtype), rows_of_warps)
        rows = m + half * HALF_M + gl.arange(0, HALF_M, gl.SliceLayout(1, rows_of_warps))
        cols = n + gl.arange(0, work.BLOCK_N, gl.SliceLayout(0, rows_of_warps))
        mask = (rows[:, None] < work.M) & (cols[None, :] < work.N)
        offs = rows.to(gl.int64)[:, None] * work.N + cols[None, :]
        gl.store(work.c_ptr + offs, c, mask=mask)


@gluon.jit
def aggregates_kernel(a_desc, b_desc, c_ptr, M, N, K, SLOTS: gl.constexpr):
    ring = Ring.allocate(a_desc, b_desc, SLOTS, 2)
    BLOCK_M: gl.constexpr = a_desc.block_shape[0]
    BLOCK_K: gl.constexpr = a_desc.block_shape[1]
    BLOCK_N: gl.constexpr = b_desc.block_shape[1]
    # Triton makes a constexpr of a size that is 1, and the fields are tensors.
    M, N, K = gl.to_tensor(M), gl.to_tensor(N), gl.to_tensor(K)
    work = Work(a_desc, b_desc, c_ptr, M, N, K, ring, BLOCK_M, BLOCK_N, BLOCK_K)
    gl.warp_specialize(
        [(consumer, (0, work)), (consumer, (1, work)), (producer, (work,))], [4, 1], [232, 40]
    )


def describe(name: str, x: torch.Tensor, rows: int, columns: int) -> TensorDescriptor:
    """A descriptor for tiles of (rows, columns) of x."""
    if x.stride(1) != 1 or x.stride(0) % 8 or x.data_ptr() % 16 or x.stride(0) < x.shape[1]:
        raise ValueError(f"{name} must have rows that begin at multiples of 16 bytes, for TMA")
    layout = gl.NVMMASharedLayout.get_default_for([rows, columns], DTYPES[x.dtype])
    return TensorDescriptor.from_tensor(x, [rows, columns], layout)


def gluon_ws_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dim() != 2 or a.dtype not in DTYPES:
        raise ValueError("a must be a matrix of float16 or bfloat16")
    if b.dim() != 2 or b.shape[0] != a.shape[1] or b.dtype != a.dtype:
        raise ValueError("b must be a matrix that fits a")
    BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    aggregates_kernel[(min(tiles, multiprocessors(a.device)),)](
        describe("a", a, BLOCK_M, BLOCK_K), describe("b", b, BLOCK_K, BLOCK_N), c, M, N, K,
        SLOTS=4, num_warps=4, maxnreg=168,
    )  # fmt: skip
    return c
