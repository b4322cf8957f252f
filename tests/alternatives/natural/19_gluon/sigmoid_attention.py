# One warpgroup takes 64 queries. Blocks of keys come from the first to the last, each with a mask,
# and the result leaves through pointers. The values of the next step are waited for between the
# exponentials and the wait for the product with the values of this one.

import math

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


@gluon.jit
def load_block(desc, head, j, bufs, ready):
    STAGES: gl.constexpr = bufs.shape[0]
    BN: gl.constexpr = bufs.shape[2]
    D: gl.constexpr = bufs.shape[3]
    bar = ready.index(j % STAGES)
    mbarrier.expect(bar, BN * D * 2)
    tma.async_copy_global_to_shared(desc, [head, j * BN, 0], bar, bufs.index(j % STAGES))


@gluon.jit
def weights(s, cols, T, scale, log_keys):
    p = 1.0 / (1.0 + gl.exp(log_keys - s * scale))
    return gl.where((cols < T)[None, :], p, 0.0)


@gluon.jit
def sigmoid_attention_kernel(
    q_desc, k_desc, v_desc, out_ptr, S, T, scale, log_keys,
    D: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_desc.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    first = gl.program_id(0) * BM
    head = gl.program_id(1)
    num_blocks = gl.cdiv(T, BN)
    q_buf = gl.allocate_shared_memory(dtype, [1, BM, D], q_desc.layout)
    k_bufs = gl.allocate_shared_memory(dtype, [STAGES, 1, BN, D], k_desc.layout)
    v_bufs = gl.allocate_shared_memory(dtype, [STAGES, 1, BN, D], v_desc.layout)
    q_ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    k_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    v_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_ready, count=1)
    for i in gl.static_range(STAGES):
        mbarrier.init(k_ready.index(i), count=1)
        mbarrier.init(v_ready.index(i), count=1)
    fence_async_shared()
    mbarrier.expect(q_ready, BM * D * 2)
    tma.async_copy_global_to_shared(q_desc, [head, first, 0], q_ready, q_buf)
    for i in gl.static_range(STAGES):
        if i < num_blocks:
            load_block(k_desc, head, i, k_bufs, k_ready)
            load_block(v_desc, head, i, v_bufs, v_ready)

    cols = gl.arange(0, BN, gl.SliceLayout(0, s_layout))
    zeros = gl.zeros([BM, BN], gl.float32, s_layout)
    acc = gl.zeros([BM, D], gl.float32, o_layout)
    q = q_buf.reshape([BM, D])
    mbarrier.wait(q_ready, 0)
    mbarrier.wait(k_ready.index(0), 0)
    s = warpgroup_mma(q, k_bufs.index(0).reshape([BN, D]).permute([1, 0]), zeros, use_acc=False)
    p = gl.convert_layout(weights(s, cols, T, scale, log_keys).to(dtype), p_layout)
    mbarrier.wait(v_ready.index(0), 0)
    for j in range(1, num_blocks):
        mbarrier.wait(k_ready.index(j % STAGES), j // STAGES & 1)
        k = k_bufs.index(j % STAGES).reshape([BN, D]).permute([1, 0])
        v = v_bufs.index((j - 1) % STAGES).reshape([BN, D])
        s = warpgroup_mma(q, k, zeros, use_acc=False, is_async=True)
        acc = warpgroup_mma(p, v, acc, is_async=True)
        s = warpgroup_mma_wait(num_outstanding=1, deps=(s,))
        p = weights(s, j * BN + cols, T, scale, log_keys)
        mbarrier.wait(v_ready.index(j % STAGES), j // STAGES & 1)
        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        p = gl.convert_layout(p.to(dtype), p_layout)
        following = j - 1 + STAGES
        if following < num_blocks:
            load_block(k_desc, head, following, k_bufs, k_ready)
            load_block(v_desc, head, following, v_bufs, v_ready)
    v = v_bufs.index((num_blocks - 1) % STAGES).reshape([BN, D])
    acc = warpgroup_mma(p, v, acc)
    rows = first + gl.arange(0, BM, gl.SliceLayout(1, o_layout))
    out_cols = gl.arange(0, D, gl.SliceLayout(0, o_layout))
    offsets = (head.to(gl.int64) * S + rows)[:, None] * D + out_cols[None, :]
    gl.store(out_ptr + offsets, acc.to(dtype), mask=(rows < S)[:, None])


def sigmoid_attention(q, k, v):
    H, S, D = q.shape
    T = k.shape[1]
    out = torch.empty_like(q)
    dtype = gl.float16 if q.dtype == torch.float16 else gl.bfloat16
    BM, BN = 64, 128

    def descriptor(x, rows):
        layout = gl.NVMMASharedLayout.get_default_for([1, rows, D], dtype)
        return TensorDescriptor.from_tensor(x, [1, rows, D], layout)

    sigmoid_attention_kernel[(triton.cdiv(S, BM), H)](
        descriptor(q, BM), descriptor(k, BN), descriptor(v, BN), out, S, T,
        D**-0.5, math.log(T), D, BM, BN, STAGES=2, num_warps=4,
    )  # fmt: skip
    return out
