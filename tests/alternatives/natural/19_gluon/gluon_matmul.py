# A tile of c in each program of a grid of two dimensions; a product is waited for at once, while
# the copies of two more steps come, and the result is stored through pointers.

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


@gluon.jit
def gluon_matmul_kernel(
    a_desc, b_desc, c_ptr,
    M, N, K, stride_cm,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr,
):  # fmt: skip
    STAGES: gl.constexpr = 3
    BYTES: gl.constexpr = (BLOCK_M + BLOCK_N) * BLOCK_K * 2
    row = gl.program_id(0) * BLOCK_M
    col = gl.program_id(1) * BLOCK_N
    a_tiles = gl.allocate_shared_memory(a_desc.dtype, [STAGES, BLOCK_M, BLOCK_K], a_desc.layout)
    b_tiles = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BLOCK_K, BLOCK_N], b_desc.layout)
    bars = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(bars.index(i), count=1)
    fence_async_shared()
    for i in gl.static_range(STAGES):
        mbarrier.expect(bars.index(i), BYTES)
        tma.async_copy_global_to_shared(a_desc, [row, i * BLOCK_K], bars.index(i), a_tiles.index(i))
        tma.async_copy_global_to_shared(b_desc, [i * BLOCK_K, col], bars.index(i), b_tiles.index(i))
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    acc = gl.zeros([BLOCK_M, BLOCK_N], gl.float32, layout)
    steps = gl.cdiv(K, BLOCK_K)
    # There are copies of three steps at least; what lies beyond K is 0.
    rounds = gl.maximum(steps, STAGES)
    for step in range(rounds):
        stage = step % STAGES
        mbarrier.wait(bars.index(stage), (step // STAGES) & 1)
        acc = warpgroup_mma(a_tiles.index(stage), b_tiles.index(stage), acc)
        following = step + STAGES
        if following < rounds:
            mbarrier.expect(bars.index(stage), BYTES)
            tma.async_copy_global_to_shared(
                a_desc, [row, following * BLOCK_K], bars.index(stage), a_tiles.index(stage)
            )
            tma.async_copy_global_to_shared(
                b_desc, [following * BLOCK_K, col], bars.index(stage), b_tiles.index(stage)
            )
    rows = row + gl.arange(0, BLOCK_M, gl.SliceLayout(1, layout))
    cols = col + gl.arange(0, BLOCK_N, gl.SliceLayout(0, layout))
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    offsets = rows.to(gl.int64)[:, None] * stride_cm + cols[None, :]
    gl.store(c_ptr + offsets, acc.to(a_desc.dtype), mask=mask)


def gluon_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    dtype = gl.float16 if a.dtype == torch.float16 else gl.bfloat16
    BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64
    a_block, b_block = [BLOCK_M, BLOCK_K], [BLOCK_K, BLOCK_N]
    a_layout = gl.NVMMASharedLayout.get_default_for(a_block, dtype)
    b_layout = gl.NVMMASharedLayout.get_default_for(b_block, dtype)
    a_desc = TensorDescriptor.from_tensor(a, a_block, a_layout)
    b_desc = TensorDescriptor.from_tensor(b, b_block, b_layout)
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    gluon_matmul_kernel[grid](
        a_desc, b_desc, c, M, N, K, c.stride(0), BLOCK_M, BLOCK_N, BLOCK_K, num_warps=4
    )
    return c
