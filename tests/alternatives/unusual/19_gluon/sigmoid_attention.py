# Two consumers of 64 queries share a ring of three slots, of keys and values behind one barrier,
# which a producer fills from the last block on. The next block is waited for where its weights are
# taken, between the scores and the product with the values, and the launcher is a bound method.
import math

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor


@gluon.jit
def made(NUMBER: gl.constexpr, COUNT: gl.constexpr):
    """Barriers that so many arrive on."""
    bars = gl.allocate_shared_memory(gl.int64, [NUMBER, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(NUMBER):
        mbarrier.init(bars.index(i), count=COUNT)
    return bars


@gluon.jit
def bring(k_desc, v_desc, k_ring, v_ring, full, free, head, blocks):
    DEPTH: gl.constexpr = k_ring.shape[0]
    KEYS: gl.constexpr = k_ring.shape[2]
    for block in range(blocks):
        slot = block % DEPTH
        mbarrier.wait(free.index(slot), (block // DEPTH + 1) & 1)
        mbarrier.expect(full.index(slot), 4 * KEYS * k_ring.shape[3])
        corner = [head, (blocks - 1 - block) * KEYS, 0]
        tma.async_copy_global_to_shared(k_desc, corner, full.index(slot), k_ring.index(slot))
        tma.async_copy_global_to_shared(v_desc, corner, full.index(slot), v_ring.index(slot))


@gluon.jit
def weights(s, factor, shift):
    return 1.0 / (1.0 + gl.exp2(shift - s * factor))


@gluon.jit
def attend(
    SIDE: gl.constexpr, out_ptr, tiles, bars,
    head, row, blocks, S, T, factor, shift,
):  # fmt: skip
    q_tiles, k_ring, v_ring = tiles
    q_full, full, free = bars
    DEPTH: gl.constexpr = k_ring.shape[0]
    KEYS: gl.constexpr = k_ring.shape[2]
    ROWS: gl.constexpr = q_tiles.shape[2]
    D: gl.constexpr = k_ring.shape[3]
    dtype: gl.constexpr = k_ring.dtype
    wide: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    held: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    left: gl.constexpr = gl.DotOperandLayout(0, held, 2)
    zeros = gl.zeros([ROWS, KEYS], gl.float32, wide)
    acc = gl.zeros([ROWS, D], gl.float32, held)
    q = q_tiles.index(SIDE).reshape([ROWS, D])
    mbarrier.wait(q_full, 0)
    mbarrier.wait(full.index(0), 0)
    k = k_ring.index(0).reshape([KEYS, D]).permute([1, 0])
    s = hopper.warpgroup_mma(q, k, zeros, use_acc=False)
    keys = (blocks - 1) * KEYS + gl.arange(0, KEYS, gl.SliceLayout(0, wide))
    weight = gl.where((keys < T)[None, :], weights(s, factor, shift), 0.0)
    mbarrier.wait(full.index(1 % DEPTH), 0, pred=blocks > 1)
    for block in range(1, blocks):
        before, after = (block - 1) % DEPTH, block + 1
        k = k_ring.index(block % DEPTH).reshape([KEYS, D]).permute([1, 0])
        v = v_ring.index(before).reshape([KEYS, D])
        seen = gl.convert_layout(weight.to(dtype), left)
        s = hopper.warpgroup_mma(q, k, zeros, use_acc=False, is_async=True)
        acc = hopper.warpgroup_mma(seen, v, acc, is_async=True)
        s = hopper.warpgroup_mma_wait(1, deps=(s,))
        weight = weights(s, factor, shift)
        mbarrier.wait(full.index(after % DEPTH), after // DEPTH & 1, pred=after < blocks)
        acc = hopper.warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(free.index(before), count=1)
    v = v_ring.index((blocks - 1) % DEPTH).reshape([KEYS, D])
    acc = hopper.warpgroup_mma(gl.convert_layout(weight.to(dtype), left), v, acc)
    rows = row + SIDE * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, held))
    cols = gl.arange(0, D, gl.SliceLayout(0, held))
    offs = (head.to(gl.int64) * S + rows)[:, None] * D + cols[None, :]
    gl.store(out_ptr + offs, acc.to(dtype), mask=(rows < S)[:, None])


@gluon.jit
def shared_ring_kernel(
    q_desc, k_desc, v_desc, out_ptr, S, T, factor, shift,
    ROWS: gl.constexpr, KEYS: gl.constexpr, D: gl.constexpr, DEPTH: gl.constexpr,
):  # fmt: skip
    head, row = gl.program_id(0), gl.program_id(1) * 2 * ROWS
    q_tiles = gl.allocate_shared_memory(q_desc.dtype, [2, 1, ROWS, D], q_desc.layout)
    k_ring = gl.allocate_shared_memory(k_desc.dtype, [DEPTH, 1, KEYS, D], k_desc.layout)
    v_ring = gl.allocate_shared_memory(v_desc.dtype, [DEPTH, 1, KEYS, D], v_desc.layout)
    q_full, full, free = made(1, 1).index(0), made(DEPTH, 1), made(DEPTH, 2)
    hopper.fence_async_shared()
    mbarrier.expect(q_full, 4 * ROWS * D)
    for side in gl.static_range(2):
        corner = [head, row + side * ROWS, 0]
        tma.async_copy_global_to_shared(q_desc, corner, q_full, q_tiles.index(side))
    blocks = gl.cdiv(T, KEYS)
    tiles, bars = (q_tiles, k_ring, v_ring), (q_full, full, free)
    gl.warp_specialize(
        [
            (attend, (0, out_ptr, tiles, bars, head, row, blocks, S, T, factor, shift)),
            (attend, (1, out_ptr, tiles, bars, head, row, blocks, S, T, factor, shift)),
            (bring, (k_desc, v_desc, k_ring, v_ring, full, free, head, blocks)),
        ],
        [4, 1],
        [240, 24],
    )


DTYPES = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}


class Attention:
    ROWS, KEYS = 64, 64

    def described(self, x, rows):
        block = [1, rows, x.shape[2]]
        layout = gl.NVMMASharedLayout.get_default_for(block, DTYPES[x.dtype])
        return TensorDescriptor.from_tensor(x, block, layout)

    def check(self, q, k, v):
        if q.dim() != 3 or q.shape[2] not in (64, 128) or q.dtype not in DTYPES:
            raise ValueError("q must be (H, S, 64 or 128), float16 or bfloat16")
        if k.dim() != 3 or k.shape[::2] != q.shape[::2] or k.dtype != q.dtype:
            raise ValueError("k must fit q")
        if v.shape != k.shape or v.dtype != k.dtype:
            raise ValueError("v must fit k")
        for name, x in zip("qkv", (q, k, v), strict=True):
            aligned = all(it > 0 and it % 8 == 0 for it in x.stride()[:2])
            if not aligned or x.stride(2) != 1 or x.data_ptr() % 16:
                raise ValueError(f"{name} must be addressable by TMA")

    def forward(self, q, k, v):
        self.check(q, k, v)
        (H, S, D), T = q.shape, k.shape[1]
        out = q.new_empty(H, S, D)
        shared_ring_kernel[H, triton.cdiv(S, 2 * self.ROWS)](
            self.described(q, self.ROWS), *(self.described(it, self.KEYS) for it in (k, v)),
            out, S, T, math.log2(math.e) / math.sqrt(D), math.log2(T),
            self.ROWS, self.KEYS, D, DEPTH=3, num_warps=4, maxnreg=168,
        )  # fmt: skip
        return out


sigmoid_attention = Attention().forward
