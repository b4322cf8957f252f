"""19.4  Gluon matmul: one good answer.

One product is always under way: step i starts its own before it waits for that of step i - 1,
and only then is the slot of i - 1 free for a copy. Programs walk down columns of 8 tiles, so that
those of a moment share rows of a and columns of b in the L2. The result leaves by TMA, which cuts
off what lies outside c.
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


@gluon.jit
def fetch(a_desc, b_desc, a_slots, b_slots, full, step, steps, m, n):
    """Start the copies of a step into its slot, if there is such a step."""
    SLOTS: gl.constexpr = a_slots.shape[0]
    BLOCK_M: gl.constexpr = a_slots.shape[1]
    BLOCK_K: gl.constexpr = a_slots.shape[2]
    BLOCK_N: gl.constexpr = b_slots.shape[2]
    slot, more, k = step % SLOTS, step < steps, step * BLOCK_K
    bar = full.index(slot)
    mbarrier.expect(bar, (BLOCK_M + BLOCK_N) * BLOCK_K * 2, pred=more)
    tma.async_copy_global_to_shared(a_desc, [m, k], bar, a_slots.index(slot), pred=more)
    tma.async_copy_global_to_shared(b_desc, [k, n], bar, b_slots.index(slot), pred=more)


@gluon.jit
def gluon_matmul_kernel(
    a_desc, b_desc, c_desc,
    M, N, K,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr,
    GROUP_M: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = gl.cdiv(M, BLOCK_M), gl.cdiv(N, BLOCK_N)
    first_m = gl.program_id(0) // (GROUP_M * tiles_n) * GROUP_M
    rows = gl.minimum(tiles_m - first_m, GROUP_M)
    place = gl.program_id(0) % (GROUP_M * tiles_n)
    m, n = (first_m + place % rows) * BLOCK_M, place // rows * BLOCK_N

    a_slots = gl.allocate_shared_memory(a_desc.dtype, [SLOTS, BLOCK_M, BLOCK_K], a_desc.layout)
    b_slots = gl.allocate_shared_memory(b_desc.dtype, [SLOTS, BLOCK_K, BLOCK_N], b_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(SLOTS):
        mbarrier.init(full.index(i), count=1)
    fence_async_shared()

    steps = gl.cdiv(K, BLOCK_K)
    for i in gl.static_range(SLOTS - 1):
        fetch(a_desc, b_desc, a_slots, b_slots, full, i, steps, m, n)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, BLOCK_N, 16])
    acc = gl.zeros([BLOCK_M, BLOCK_N], gl.float32, layout)
    for step in range(steps):
        slot = step % SLOTS
        mbarrier.wait(full.index(slot), step // SLOTS & 1)
        acc = warpgroup_mma(a_slots.index(slot), b_slots.index(slot), acc, is_async=True)
        # Of step - 1 nothing is read any more, and its slot is that of step + SLOTS - 1.
        acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))
        fetch(a_desc, b_desc, a_slots, b_slots, full, step + SLOTS - 1, steps, m, n)
    acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))

    c_tile = gl.allocate_shared_memory(c_desc.dtype, [BLOCK_M, BLOCK_N], c_desc.layout)
    c_tile.store(acc.to(c_desc.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(c_desc, [m, n], c_tile)
    tma.store_wait(0)


def is_addressable(x: torch.Tensor) -> bool:
    """Whether TMA can fetch tiles of x."""
    aligned = x.stride(0) * x.element_size() % 16 == 0 and x.data_ptr() % 16 == 0
    return aligned and x.stride(1) == 1 and x.stride(0) >= x.shape[1]


def describe(x: torch.Tensor, rows: int, columns: int) -> TensorDescriptor:
    """A descriptor for tiles of (rows, columns) of x."""
    layout = gl.NVMMASharedLayout.get_default_for([rows, columns], DTYPES[x.dtype])
    return TensorDescriptor.from_tensor(x, [rows, columns], layout)


def gluon_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
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
    BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps = 128, 256, 64, 8, 8
    # Small products need small tiles: otherwise most multiprocessors have none.
    if M * N <= 2048 * 2048:
        BLOCK_N, num_warps = 128, 4
    # TMA is slow at rows that begin at odd multiples of 16 bytes: tall tiles need fewer of b.
    elif b.stride(0) % 16 > 0 and M > BLOCK_M:
        BLOCK_M, BLOCK_N, GROUP_M = 256, 128, 2
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    gluon_matmul_kernel[(tiles,)](
        describe(a, BLOCK_M, BLOCK_K), describe(b, BLOCK_K, BLOCK_N),
        describe(c, BLOCK_M, BLOCK_N),
        M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, SLOTS=4, num_warps=num_warps,
    )  # fmt: skip
    return c
