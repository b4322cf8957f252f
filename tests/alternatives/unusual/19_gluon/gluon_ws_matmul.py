# Consumers side by side: each multiplies all rows of the tile by half of its columns. Each operand
# has a producer and barriers of its own, and the result leaves through pointers.
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
def barriers(number: gl.constexpr, COUNT: gl.constexpr):
    bars = gl.allocate_shared_memory(gl.int64, [number, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(number):
        mbarrier.init(bars.index(i), count=COUNT)
    return bars


@gluon.jit
def bring(desc, ring, tiles_n, tiles, steps, IS_A: gl.constexpr):
    """One operand's producer."""
    slots, full, free = ring
    DEPTH: gl.constexpr = slots.shape[0]
    turn = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for step in range(steps):
            slot = turn % DEPTH
            if turn >= DEPTH:
                mbarrier.wait(free.index(slot), (turn // DEPTH + 1) & 1)
            mbarrier.expect(full.index(slot), slots.shape[1] * slots.shape[2] * 2)
            if IS_A:
                corner = [tile // tiles_n * slots.shape[1], step * slots.shape[2]]
            else:
                corner = [step * slots.shape[1], tile % tiles_n * slots.shape[2]]
            tma.async_copy_global_to_shared(desc, corner, full.index(slot), slots.index(slot))
            turn += 1


@gluon.jit
def multiply(SIDE: gl.constexpr, c_ptr, M, N, a_ring, b_ring, tiles_n, tiles, steps):
    a_slots, a_full, a_free = a_ring
    b_slots, b_full, b_free = b_ring
    DEPTH: gl.constexpr = a_slots.shape[0]
    HEIGHT: gl.constexpr = a_slots.shape[1]
    HALF: gl.constexpr = b_slots.shape[2] // 2
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HALF, 16])
    turn = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        acc = gl.zeros([HEIGHT, HALF], gl.float32, layout)
        for step in range(steps):
            slot, phase = turn % DEPTH, turn // DEPTH & 1
            mbarrier.wait(b_full.index(slot), phase)
            mbarrier.wait(a_full.index(slot), phase)
            b = b_slots.index(slot).slice(SIDE * HALF, HALF, dim=1)
            acc = warpgroup_mma(a_slots.index(slot), b, acc, is_async=True)
            acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))
            before = (turn + DEPTH - 1) % DEPTH
            mbarrier.arrive(a_free.index(before), count=1, pred=step > 0)
            mbarrier.arrive(b_free.index(before), count=1, pred=step > 0)
            turn += 1
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        before = (turn + DEPTH - 1) % DEPTH
        mbarrier.arrive(a_free.index(before), count=1)
        mbarrier.arrive(b_free.index(before), count=1)
        rows = tile // tiles_n * HEIGHT + gl.arange(0, HEIGHT, gl.SliceLayout(1, layout))
        cols = (2 * (tile % tiles_n) + SIDE) * HALF
        cols += gl.arange(0, HALF, gl.SliceLayout(0, layout))
        offs = rows.to(gl.int64)[:, None] * N + cols[None, :]
        mask = (rows < M)[:, None] & (cols < N)[None, :]
        gl.store(c_ptr + offs, acc.to(c_ptr.dtype.element_ty), mask=mask)


@gluon.jit
def side_by_side_kernel(
    a_desc, b_desc, c_ptr, M, N, K,
    HEIGHT: gl.constexpr, WIDTH: gl.constexpr, DEEP: gl.constexpr, DEPTH: gl.constexpr,
):  # fmt: skip
    a_slots = gl.allocate_shared_memory(a_desc.dtype, [DEPTH, HEIGHT, DEEP], a_desc.layout)
    b_slots = gl.allocate_shared_memory(b_desc.dtype, [DEPTH, DEEP, WIDTH], b_desc.layout)
    a_ring = (a_slots, barriers(DEPTH, 1), barriers(DEPTH, 2))
    b_ring = (b_slots, barriers(DEPTH, 1), barriers(DEPTH, 2))
    fence_async_shared()
    tiles_n = gl.cdiv(N, WIDTH)
    tiles, steps = gl.cdiv(M, HEIGHT) * tiles_n, gl.cdiv(K, DEEP)
    gl.warp_specialize(
        [
            (multiply, (0, c_ptr, M, N, a_ring, b_ring, tiles_n, tiles, steps)),
            (bring, (a_desc, a_ring, tiles_n, tiles, steps, True)),
            (bring, (b_desc, b_ring, tiles_n, tiles, steps, False)),
            (multiply, (1, c_ptr, M, N, a_ring, b_ring, tiles_n, tiles, steps)),
        ],
        [1, 1, 4],
        [24, 24, 240],
    )


def product(kernel, blocks, a, b):
    if a.dim() != 2 or a.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError("a must be a matrix of float16 or bfloat16")
    if b.dim() != 2 or b.shape[0] != a.shape[1] or b.dtype != a.dtype:
        raise ValueError("b must be a matrix that fits a")
    for name, x in (("a", a), ("b", b)):
        whole = x.stride(1) == 1 and x.stride(0) >= x.shape[1]
        if not whole or x.stride(0) % 8 or x.data_ptr() % 16:
            raise ValueError(f"{name} must have rows at multiples of 16 bytes")
    height, width, deep = blocks

    def described(x, *block):
        dtype = {torch.float16: gl.float16}.get(x.dtype, gl.bfloat16)
        layout = gl.NVMMASharedLayout.get_default_for([*block], dtype)
        return TensorDescriptor.from_tensor(x, [*block], layout)

    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    tiles = triton.cdiv(M, height) * triton.cdiv(N, width)
    kernel[(min(tiles, multiprocessors(a.device)),)](
        described(a, height, deep), described(b, deep, width), c, M, N, K,
        *blocks, DEPTH=3, num_warps=4, maxnreg=168,
    )  # fmt: skip
    return c


gluon_ws_matmul = functools.partial(product, side_by_side_kernel, (128, 128, 64))
