# fault: the producer counts its turns from 0 again in each tile, and the consumers count on
# cause: fill a buffer again only after its readers have given it back

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
def place(tile, M, N, BLOCK_N: gl.constexpr):
    """The first row and column of a tile, in groups of 8 rows of tiles."""
    tiles_m, tiles_n = gl.cdiv(M, 128), gl.cdiv(N, BLOCK_N)
    first_m = tile // (8 * tiles_n) * 8
    height = gl.minimum(tiles_m - first_m, 8)
    row = (first_m + tile % (8 * tiles_n) % height) * 128
    col = tile % (8 * tiles_n) // height * BLOCK_N
    return row, col


@gluon.jit
def produce(a_desc, b_desc, a_slots, b_slots, full, empty, M, N, K):
    SLOTS: gl.constexpr = b_slots.shape[0]
    BLOCK_K: gl.constexpr = b_slots.shape[1]
    BLOCK_N: gl.constexpr = b_slots.shape[2]
    tiles = gl.cdiv(M, 128) * gl.cdiv(N, BLOCK_N)
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        row, col = place(tile, M, N, BLOCK_N)
        for k in range(0, K, BLOCK_K):
            turn = k // BLOCK_K
            slot, phase = turn % SLOTS, turn // SLOTS & 1
            barrier = full.index(slot)
            mbarrier.wait(empty.index(slot), phase ^ 1)
            mbarrier.expect(barrier, (128 + BLOCK_N) * BLOCK_K * 2)
            tma.async_copy_global_to_shared(a_desc, [row, k], barrier, a_slots.index(2 * slot))
            tma.async_copy_global_to_shared(
                a_desc, [row + 64, k], barrier, a_slots.index(2 * slot + 1)
            )
            tma.async_copy_global_to_shared(b_desc, [k, col], barrier, b_slots.index(slot))


@gluon.jit
def consume(half: gl.constexpr, c_desc, a_slots, b_slots, c_tiles, full, empty, M, N, K):
    dtype: gl.constexpr = c_desc.dtype
    SLOTS: gl.constexpr = b_slots.shape[0]
    BLOCK_K: gl.constexpr = b_slots.shape[1]
    BLOCK_N: gl.constexpr = b_slots.shape[2]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    c_tile = c_tiles.index(half)
    tiles = gl.cdiv(M, 128) * gl.cdiv(N, BLOCK_N)
    turn = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        row, col = place(tile, M, N, BLOCK_N)
        acc = gl.zeros([64, BLOCK_N], gl.float32, layout)
        for k in range(0, K, BLOCK_K):
            slot, phase = turn % SLOTS, turn // SLOTS & 1
            mbarrier.wait(full.index(slot), phase)
            a, b = a_slots.index(2 * slot + half), b_slots.index(slot)
            acc = warpgroup_mma(a, b, acc, is_async=True)
            acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))
            # The product of the step before is done.
            mbarrier.arrive(empty.index((turn + SLOTS - 1) % SLOTS), count=1, pred=k > 0)
            turn += 1
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        mbarrier.arrive(empty.index((turn + SLOTS - 1) % SLOTS), count=1)

        tma.store_wait(0)
        c_tile.store(acc.to(dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(c_desc, [row + half * 64, col], c_tile)
    tma.store_wait(0)


@gluon.jit
def gluon_ws_matmul_kernel(
    a_desc, b_desc, c_desc,
    M, N, K,
    BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr,
    SLOTS: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = a_desc.dtype
    a_slots = gl.allocate_shared_memory(dtype, [2 * SLOTS, 64, BLOCK_K], a_desc.layout)
    b_slots = gl.allocate_shared_memory(dtype, [SLOTS, BLOCK_K, BLOCK_N], b_desc.layout)
    c_tiles = gl.allocate_shared_memory(dtype, [2, 64, BLOCK_N], c_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(SLOTS):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
    fence_async_shared()

    gl.warp_specialize(
        [
            (consume, (0, c_desc, a_slots, b_slots, c_tiles, full, empty, M, N, K)),
            (consume, (1, c_desc, a_slots, b_slots, c_tiles, full, empty, M, N, K)),
            (produce, (a_desc, b_desc, a_slots, b_slots, full, empty, M, N, K)),
        ],
        [4, 1],
        [240, 24],
    )


def describe(x: torch.Tensor, block: list[int]) -> TensorDescriptor:
    layout = gl.NVMMASharedLayout.get_default_for(block, DTYPES[x.dtype])
    return TensorDescriptor.from_tensor(x, block, layout)


def gluon_ws_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    BLOCK_N, BLOCK_K = 128, 64
    tiles = triton.cdiv(M, 128) * triton.cdiv(N, BLOCK_N)
    gluon_ws_matmul_kernel[(min(multiprocessors(a.device), tiles),)](
        describe(a, [64, BLOCK_K]), describe(b, [BLOCK_K, BLOCK_N]), describe(c, [64, BLOCK_N]),
        M, N, K,
        BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, SLOTS=4,
        num_warps=4, maxnreg=168,
    )  # fmt: skip
    return c
