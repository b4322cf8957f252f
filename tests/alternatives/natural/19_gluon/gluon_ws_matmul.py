# Tiles row after row; a consumer waits for each product before it gives its slot back, and stores
# through pointers, so that nothing of c is in shared memory. Columns of b are halved, and not rows
# of a.

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor


def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@gluon.jit
def load_partition(a_desc, b_desc, a_bufs, b_bufs, ready, free, M, N, K):
    STAGES: gl.constexpr = a_bufs.shape[0]
    BM: gl.constexpr = a_bufs.shape[1]
    BK: gl.constexpr = a_bufs.shape[2]
    BN: gl.constexpr = b_bufs.shape[2]
    columns = gl.cdiv(N, 2 * BN)
    count = 0
    for tile in range(gl.program_id(0), gl.cdiv(M, BM) * columns, gl.num_programs(0)):
        row = tile // columns * BM
        col = tile % columns * 2 * BN
        for step in range(gl.cdiv(K, BK)):
            stage = count % STAGES
            if count >= STAGES:
                mbarrier.wait(free.index(stage), (count // STAGES - 1) & 1)
            mbarrier.expect(ready.index(stage), (BM + 2 * BN) * BK * 2)
            tma.async_copy_global_to_shared(
                a_desc, [row, step * BK], ready.index(stage), a_bufs.index(stage)
            )
            tma.async_copy_global_to_shared(
                b_desc, [step * BK, col], ready.index(stage), b_bufs.index(2 * stage)
            )
            tma.async_copy_global_to_shared(
                b_desc, [step * BK, col + BN], ready.index(stage), b_bufs.index(2 * stage + 1)
            )
            count += 1


@gluon.jit
def compute_partition(
    side: gl.constexpr, c_ptr, a_bufs, b_bufs, ready, free, M, N, K, stride_cm, dtype: gl.constexpr
):
    STAGES: gl.constexpr = a_bufs.shape[0]
    BM: gl.constexpr = a_bufs.shape[1]
    BK: gl.constexpr = a_bufs.shape[2]
    BN: gl.constexpr = b_bufs.shape[2]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    columns = gl.cdiv(N, 2 * BN)
    count = 0
    for tile in range(gl.program_id(0), gl.cdiv(M, BM) * columns, gl.num_programs(0)):
        acc = gl.zeros([BM, BN], gl.float32, layout)
        for _ in range(gl.cdiv(K, BK)):
            stage = count % STAGES
            mbarrier.wait(ready.index(stage), (count // STAGES) & 1)
            acc = warpgroup_mma(a_bufs.index(stage), b_bufs.index(2 * stage + side), acc)
            mbarrier.arrive(free.index(stage), count=1)
            count += 1
        rows = tile // columns * BM + gl.arange(0, BM, gl.SliceLayout(1, layout))
        cols = (tile % columns * 2 + side) * BN + gl.arange(0, BN, gl.SliceLayout(0, layout))
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        offsets = rows.to(gl.int64)[:, None] * stride_cm + cols[None, :]
        gl.store(c_ptr + offsets, acc.to(dtype), mask=mask)


@gluon.jit
def gluon_ws_matmul_kernel(
    a_desc, b_desc, c_ptr,
    M, N, K, stride_cm,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    a_bufs = gl.allocate_shared_memory(a_desc.dtype, [STAGES, BM, BK], a_desc.layout)
    b_bufs = gl.allocate_shared_memory(b_desc.dtype, [2 * STAGES, BK, BN], b_desc.layout)
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for stage in gl.static_range(STAGES):
        mbarrier.init(ready.index(stage), count=1)
        mbarrier.init(free.index(stage), count=2)
    fence_async_shared()
    dtype: gl.constexpr = a_desc.dtype
    gl.warp_specialize(
        [
            (
                compute_partition,
                (0, c_ptr, a_bufs, b_bufs, ready, free, M, N, K, stride_cm, dtype),
            ),
            (
                compute_partition,
                (1, c_ptr, a_bufs, b_bufs, ready, free, M, N, K, stride_cm, dtype),
            ),
            (load_partition, (a_desc, b_desc, a_bufs, b_bufs, ready, free, M, N, K)),
        ],
        [4, 1],
        [232, 40],
    )


def gluon_ws_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    dtype = gl.float16 if a.dtype == torch.float16 else gl.bfloat16
    BM, BN, BK = 128, 128, 64
    a_layout = gl.NVMMASharedLayout.get_default_for([BM, BK], dtype)
    b_layout = gl.NVMMASharedLayout.get_default_for([BK, BN], dtype)
    a_desc = TensorDescriptor.from_tensor(a, [BM, BK], a_layout)
    b_desc = TensorDescriptor.from_tensor(b, [BK, BN], b_layout)
    tiles = triton.cdiv(M, BM) * triton.cdiv(N, 2 * BN)
    grid = (min(tiles, multiprocessors(a.device)),)
    gluon_ws_matmul_kernel[grid](
        a_desc, b_desc, c, M, N, K, c.stride(0), BM, BN, BK, 3, num_warps=4, maxnreg=168
    )
    return c
