"""19.5  Gluon warp-specialised matmul: one good answer.

A producer of one warp does nothing but fetch, and two consumers multiply half of a tile's rows each
with the same columns of b. The producer runs ahead into the next tile while the consumers store
theirs. It keeps 24 registers a thread, which leaves 240 for each of the consumers' threads.
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

DTYPES = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@gluon.jit
def corner(tile, tiles_m, tiles_n, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr):
    """The first row and column of a tile, if tiles are taken down columns of 8, or of 2 tall."""
    GROUP_M: gl.constexpr = 8 if BLOCK_M < BLOCK_N else 2
    first_m = tile // (GROUP_M * tiles_n) * GROUP_M
    rows = gl.minimum(tiles_m - first_m, GROUP_M)
    place = tile % (GROUP_M * tiles_n)
    return (first_m + place % rows) * BLOCK_M, place // rows * BLOCK_N


@gluon.jit
def producer(a_desc, b_desc, a_slots, b_slots, full, empty, tiles_m, tiles_n, K):
    SLOTS: gl.constexpr = b_slots.shape[0]
    HALF_M: gl.constexpr = a_slots.shape[1]
    BLOCK_K: gl.constexpr = b_slots.shape[1]
    BLOCK_N: gl.constexpr = b_slots.shape[2]
    turn = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        m, n = corner(tile, tiles_m, tiles_n, 2 * HALF_M, BLOCK_N)
        for k in range(0, K, BLOCK_K):
            slot, phase = turn % SLOTS, turn // SLOTS & 1
            bar = full.index(slot)
            mbarrier.wait(empty.index(slot), phase ^ 1)
            mbarrier.expect(bar, (2 * HALF_M + BLOCK_N) * BLOCK_K * 2)
            for half in gl.static_range(2):
                a_slot = a_slots.index(2 * slot + half)
                tma.async_copy_global_to_shared(a_desc, [m + half * HALF_M, k], bar, a_slot)
            tma.async_copy_global_to_shared(b_desc, [k, n], bar, b_slots.index(slot))
            turn += 1


@gluon.jit
def store(c_desc, m, n, c_slot, values):
    """Store a tile of c by way of shared memory, once the tile before has left it."""
    tma.store_wait(0)
    c_slot.store(values.to(c_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(c_desc, [m, n], c_slot)


@gluon.jit
def consumer(
    half: gl.constexpr, c_desc, a_slots, b_slots, c_slots, full, empty, tiles_m, tiles_n, K
):
    SLOTS: gl.constexpr = b_slots.shape[0]
    HALF_M: gl.constexpr = a_slots.shape[1]
    BLOCK_K: gl.constexpr = b_slots.shape[1]
    BLOCK_N: gl.constexpr = b_slots.shape[2]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, BLOCK_N, 16])
    turn = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        m, n = corner(tile, tiles_m, tiles_n, 2 * HALF_M, BLOCK_N)
        acc = gl.zeros([HALF_M, BLOCK_N], gl.float32, layout)
        for k in range(0, K, BLOCK_K):
            slot, phase = turn % SLOTS, turn // SLOTS & 1
            mbarrier.wait(full.index(slot), phase)
            a_slot = a_slots.index(2 * slot + half)
            acc = warpgroup_mma(a_slot, b_slots.index(slot), acc, is_async=True)
            acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))
            # The product of the step before is over, and its slot may be filled again.
            mbarrier.arrive(empty.index((turn + SLOTS - 1) % SLOTS), count=1, pred=k > 0)
            turn += 1
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        mbarrier.arrive(empty.index((turn + SLOTS - 1) % SLOTS), count=1)
        # Half of the columns at a time, to leave shared memory to the slots.
        left, right = acc.reshape([HALF_M, 2, BLOCK_N // 2]).permute([0, 2, 1]).split()
        store(c_desc, m + half * HALF_M, n, c_slots.index(half), left)
        store(c_desc, m + half * HALF_M, n + BLOCK_N // 2, c_slots.index(half), right)
    tma.store_wait(0)


@gluon.jit
def gluon_ws_matmul_kernel(
    a_desc, b_desc, c_desc,
    M, N, K,
    HALF_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr,
    SLOTS: gl.constexpr,
):  # fmt: skip
    a_slots = gl.allocate_shared_memory(a_desc.dtype, [2 * SLOTS, HALF_M, BLOCK_K], a_desc.layout)
    b_slots = gl.allocate_shared_memory(b_desc.dtype, [SLOTS, BLOCK_K, BLOCK_N], b_desc.layout)
    c_slots = gl.allocate_shared_memory(c_desc.dtype, [2, HALF_M, BLOCK_N // 2], c_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(SLOTS):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
    fence_async_shared()
    tiles_m, tiles_n = gl.cdiv(M, 2 * HALF_M), gl.cdiv(N, BLOCK_N)
    gl.warp_specialize(
        [
            (consumer, (0, c_desc, a_slots, b_slots, c_slots, full, empty, tiles_m, tiles_n, K)),
            (consumer, (1, c_desc, a_slots, b_slots, c_slots, full, empty, tiles_m, tiles_n, K)),
            (producer, (a_desc, b_desc, a_slots, b_slots, full, empty, tiles_m, tiles_n, K)),
        ],
        [4, 1],
        [240, 24],
    )


def is_addressable(x: torch.Tensor) -> bool:
    """Whether TMA can fetch tiles of x."""
    aligned = x.stride(0) * x.element_size() % 16 == 0 and x.data_ptr() % 16 == 0
    return aligned and x.stride(1) == 1 and x.stride(0) >= x.shape[1]


def describe(x: torch.Tensor, rows: int, columns: int) -> TensorDescriptor:
    """A descriptor for tiles of (rows, columns) of x."""
    layout = gl.NVMMASharedLayout.get_default_for([rows, columns], DTYPES[x.dtype])
    return TensorDescriptor.from_tensor(x, [rows, columns], layout)


def gluon_ws_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dim() != 2 or a.dtype not in DTYPES:
        raise ValueError(f"a must be 2-D and float16 or bfloat16, not {a.dtype} {tuple(a.shape)}")
    M, K = a.shape
    if b.dim() != 2 or b.shape[0] != K or b.dtype != a.dtype:
        raise ValueError(f"b must be {a.dtype} ({K}, N), not {b.dtype} {tuple(b.shape)}")
    N = b.shape[1]
    for name, x in (("a", a), ("b", b)):
        if not is_addressable(x):
            raise ValueError(f"{name} must have rows that begin at multiples of 16 bytes, for TMA")
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    if not is_addressable(c):
        raise ValueError(f"b must have a multiple of 8 columns, not {N}: TMA stores c")
    HALF_M, BLOCK_N, BLOCK_K = 64, 256, 64
    # TMA is slow at rows that begin at odd multiples of 16 bytes: tall tiles need fewer of b.
    if b.stride(0) % 16 > 0 and M > 2 * HALF_M:
        HALF_M, BLOCK_N = 128, 128
    tiles = triton.cdiv(M, 2 * HALF_M) * triton.cdiv(N, BLOCK_N)
    # maxnreg is what threads have at first: 65,536 registers for 9 warps and those that pad them.
    gluon_ws_matmul_kernel[(min(tiles, multiprocessors(a.device)),)](
        describe(a, HALF_M, BLOCK_K), describe(b, BLOCK_K, BLOCK_N),
        describe(c, HALF_M, BLOCK_N // 2),
        M, N, K, HALF_M, BLOCK_N, BLOCK_K, SLOTS=4, num_warps=4, maxnreg=168,
    )  # fmt: skip
    return c
