# The transposed product: b's tile, turned, is the left operand. Each operand has barriers of its
# own, the ring has five slots, and the sums are turned back on their way through shared memory.
import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

DEPTH = gl.constexpr(5)


@gluon.jit
def ring_of(desc, HEIGHT: gl.constexpr, WIDTH: gl.constexpr):
    """Slots for tiles of an operand, and their barriers."""
    slots = gl.allocate_shared_memory(desc.dtype, [DEPTH, HEIGHT, WIDTH], desc.layout)
    bars = gl.allocate_shared_memory(gl.int64, [DEPTH, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(DEPTH):
        mbarrier.init(bars.index(i), count=1)
    return slots, bars


@gluon.jit
def bring(desc, corner, ring, step):
    slots, bars = ring
    bar = bars.index(step % DEPTH)
    mbarrier.expect(bar, slots.shape[1] * slots.shape[2] * 2)
    tma.async_copy_global_to_shared(desc, corner, bar, slots.index(step % DEPTH))


@gluon.jit
def taken(ring, step):
    slots, bars = ring
    mbarrier.wait(bars.index(step % DEPTH), (step // DEPTH) & 1)
    return slots.index(step % DEPTH)


@gluon.jit
def turned_kernel(
    a_desc, b_desc, c_desc, tiles_m, steps,
    HEIGHT: gl.constexpr, WIDTH: gl.constexpr, DEEP: gl.constexpr,
):  # fmt: skip
    m = gl.program_id(0) % tiles_m * HEIGHT
    n = gl.program_id(0) // tiles_m * WIDTH
    a_ring, b_ring = ring_of(a_desc, HEIGHT, DEEP), ring_of(b_desc, DEEP, WIDTH)
    hopper.fence_async_shared()
    for step in gl.static_range(DEPTH - 1):
        if step < steps:
            bring(a_desc, [m, step * DEEP], a_ring, step)
            bring(b_desc, [step * DEEP, n], b_ring, step)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, HEIGHT, 16])
    turned = gl.zeros([WIDTH, HEIGHT], gl.float32, layout)
    for step in range(steps):
        a, b = taken(a_ring, step), taken(b_ring, step)
        turned = hopper.warpgroup_mma(b.permute([1, 0]), a.permute([1, 0]), turned, is_async=True)
        turned = hopper.warpgroup_mma_wait(1, deps=[turned])
        later = step + DEPTH - 1
        if later < steps:
            bring(a_desc, [m, later * DEEP], a_ring, later)
            bring(b_desc, [later * DEEP, n], b_ring, later)
    turned = hopper.warpgroup_mma_wait(0, deps=[turned])
    c_tile = gl.allocate_shared_memory(c_desc.dtype, [HEIGHT, WIDTH], c_desc.layout)
    c_tile.permute([1, 0]).store(turned.to(c_desc.dtype))
    hopper.fence_async_shared()
    tma.async_copy_shared_to_global(c_desc, [m, n], c_tile)
    tma.store_wait(0)


class Launcher:
    def __init__(self, kernel, height, width, deep):
        self.kernel, self.tile, self.deep = kernel, (height, width), deep

    @staticmethod
    def addressable(x):
        rows = x.stride(0) >= x.shape[1] and x.stride(1) == 1
        return rows and x.stride(0) % 8 == 0 and x.data_ptr() % 16 == 0

    @staticmethod
    def described(x, *block):
        dtype = gl.float16 if x.dtype == torch.float16 else gl.bfloat16
        layout = gl.NVMMASharedLayout.get_default_for([*block], dtype)
        return TensorDescriptor.from_tensor(x, [*block], layout)

    def __call__(self, a, b):
        if a.dim() != 2 or a.dtype not in (torch.float16, torch.bfloat16):
            raise ValueError("a must be a matrix of float16 or bfloat16")
        if b.dim() != 2 or b.shape[0] != a.shape[1] or b.dtype != a.dtype:
            raise ValueError("b must be a matrix that fits a")
        (height, width), (M, K), N = self.tile, a.shape, b.shape[1]
        c = a.new_empty(M, N)
        for name, x in {"a": a, "b": b, "b, by its columns,": c}.items():
            if not self.addressable(x):
                raise ValueError(f"{name} must have rows at multiples of 16 bytes")
        tiles_m, tiles_n = triton.cdiv(M, height), triton.cdiv(N, width)
        self.kernel[(tiles_m * tiles_n, 1)](
            self.described(a, height, self.deep), self.described(b, self.deep, width),
            self.described(c, height, width),
            tiles_m, triton.cdiv(K, self.deep),
            HEIGHT=height, WIDTH=width, DEEP=self.deep, num_warps=4,
        )  # fmt: skip
        return c


gluon_matmul = Launcher(turned_kernel, 128, 64, 64)
