# fault: the barriers of empty slots count one arrival of two
# cause: empty\[\d\] has a count of 1, so its phase was complete when consume
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
def consume(
    c_desc, a_slots, b_slots, c_tiles, full, empty, tiles, tiles_n, steps, WHICH: gl.constexpr
):  # fmt: skip
    SLOTS: gl.constexpr = b_slots.shape[0]
    ROWS: gl.constexpr = a_slots.shape[1]
    BLOCK_N: gl.constexpr = b_slots.shape[2]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    c_tile = c_tiles.index(WHICH)
    turn = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        row = tile // tiles_n * (2 * ROWS) + WHICH * ROWS
        col = tile % tiles_n * BLOCK_N
        acc = gl.zeros([ROWS, BLOCK_N], gl.float32, layout)
        for step in range(steps):
            slot = turn % SLOTS
            mbarrier.wait(full.index(slot), turn // SLOTS & 1)
            acc = warpgroup_mma(
                a_slots.index(2 * slot + WHICH), b_slots.index(slot), acc, is_async=True
            )
            acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))
            # the product of the step before is over, and its slot free
            before = (turn + SLOTS - 1) % SLOTS
            mbarrier.arrive(empty.index(before), count=1, pred=step > 0)
            turn += 1
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        mbarrier.arrive(empty.index((turn + SLOTS - 1) % SLOTS), count=1)
        tma.store_wait(0)
        c_tile.store(acc.to(c_desc.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(c_desc, [row, col], c_tile)
    tma.store_wait(0)


@gluon.jit
def produce(a_desc, b_desc, a_slots, b_slots, full, empty, tiles, tiles_n, steps):
    SLOTS: gl.constexpr = b_slots.shape[0]
    ROWS: gl.constexpr = a_slots.shape[1]
    BLOCK_K: gl.constexpr = b_slots.shape[1]
    BLOCK_N: gl.constexpr = b_slots.shape[2]
    turn = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        row = tile // tiles_n * (2 * ROWS)
        col = tile % tiles_n * BLOCK_N
        for step in range(steps):
            slot = turn % SLOTS
            bar = full.index(slot)
            # in the first round the other parity lets it pass
            mbarrier.wait(empty.index(slot), turn // SLOTS & 1 ^ 1)
            mbarrier.expect(bar, (2 * ROWS + BLOCK_N) * BLOCK_K * 2)
            k = step * BLOCK_K
            above, below = a_slots.index(2 * slot), a_slots.index(2 * slot + 1)
            tma.async_copy_global_to_shared(a_desc, [row, k], bar, above)
            tma.async_copy_global_to_shared(a_desc, [row + ROWS, k], bar, below)
            tma.async_copy_global_to_shared(b_desc, [k, col], bar, b_slots.index(slot))
            turn += 1


@gluon.jit
def gluon_ws_matmul_kernel(
    a_desc, b_desc, c_desc,
    M, N, K,
    BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr,
    SLOTS: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = a_desc.dtype
    tiles_n = gl.cdiv(N, BLOCK_N)
    tiles = gl.cdiv(M, 128) * tiles_n
    steps = gl.cdiv(K, BLOCK_K)
    # each consumer has 64 of the 128 rows of a tile
    a_slots = gl.allocate_shared_memory(dtype, [2 * SLOTS, 64, BLOCK_K], a_desc.layout)
    b_slots = gl.allocate_shared_memory(dtype, [SLOTS, BLOCK_K, BLOCK_N], b_desc.layout)
    c_tiles = gl.allocate_shared_memory(dtype, [2, 64, BLOCK_N], c_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(SLOTS):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    fence_async_shared()
    gl.warp_specialize(
        [
            (consume, (c_desc, a_slots, b_slots, c_tiles, full, empty, tiles, tiles_n, steps, 0)),
            (consume, (c_desc, a_slots, b_slots, c_tiles, full, empty, tiles, tiles_n, steps, 1)),
            (produce, (a_desc, b_desc, a_slots, b_slots, full, empty, tiles, tiles_n, steps)),
        ],
        [4, 1],
        [240, 24],
    )


def gluon_ws_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    dtype = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}[a.dtype]
    BLOCK_N, BLOCK_K, SLOTS = 128, 64, 4

    def describe(x, block):
        layout = gl.NVMMASharedLayout.get_default_for(block, dtype)
        return TensorDescriptor.from_tensor(x, block, layout)

    tiles = triton.cdiv(M, 128) * triton.cdiv(N, BLOCK_N)
    gluon_ws_matmul_kernel[(min(multiprocessors(a.device), tiles),)](
        describe(a, [64, BLOCK_K]), describe(b, [BLOCK_K, BLOCK_N]), describe(c, [64, BLOCK_N]),
        M, N, K,
        BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, SLOTS=SLOTS, num_warps=4, maxnreg=168,
    )  # fmt: skip
    return c
