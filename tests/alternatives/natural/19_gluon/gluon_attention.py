# One tile of queries a program, blocks of 64 keys from the first to the last, each with a mask. K
# and V of a block share a barrier. The scores of the next block are computed while this one's
# softmax is taken, and the result leaves through pointers.

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
def load_partition(k_desc, v_desc, k_bufs, v_bufs, ready, free, kv_head, num_blocks):
    STAGES: gl.constexpr = k_bufs.shape[0]
    BN: gl.constexpr = k_bufs.shape[2]
    D: gl.constexpr = k_bufs.shape[3]
    for j in range(num_blocks):
        stage = j % STAGES
        if j >= STAGES:
            mbarrier.wait(free.index(stage), (j // STAGES - 1) & 1)
        mbarrier.expect(ready.index(stage), 2 * BN * D * 2)
        tma.async_copy_global_to_shared(
            k_desc, [kv_head, j * BN, 0], ready.index(stage), k_bufs.index(stage)
        )
        tma.async_copy_global_to_shared(
            v_desc, [kv_head, j * BN, 0], ready.index(stage), v_bufs.index(stage)
        )


@gluon.jit
def softmax_step(s, m, total, acc, rows, cols, T, scale, CAUSAL: gl.constexpr):
    valid = (cols < T)[None, :]
    if CAUSAL:
        valid = valid & (cols[None, :] <= rows[:, None])
    s = gl.where(valid, s * scale, float("-inf"))
    m_new = gl.maximum(m, gl.max(s, axis=1))
    alpha = gl.exp2(m - m_new)
    p = gl.exp2(s - m_new[:, None])
    total = total * alpha + gl.sum(p, axis=1)
    acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, acc.type.layout))[:, None]
    return p, m_new, total, acc


@gluon.jit
def attend_partition(
    side: gl.constexpr, out_ptr, q_bufs, k_bufs, v_bufs, q_ready, ready, free,
    head, first, num_blocks, S, T, scale, dtype: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    STAGES: gl.constexpr = k_bufs.shape[0]
    BM: gl.constexpr = q_bufs.shape[2]
    BN: gl.constexpr = k_bufs.shape[2]
    D: gl.constexpr = k_bufs.shape[3]
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    s_rows: gl.constexpr = gl.SliceLayout(1, s_layout)
    o_rows: gl.constexpr = gl.SliceLayout(1, o_layout)
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    rows = first + side * BM + gl.arange(0, BM, s_rows)
    cols = gl.arange(0, BN, gl.SliceLayout(0, s_layout))
    zeros = gl.zeros([BM, BN], gl.float32, s_layout)
    m = gl.full([BM], float("-inf"), gl.float32, s_rows)
    total = gl.zeros([BM], gl.float32, s_rows)
    acc = gl.zeros([BM, D], gl.float32, o_layout)
    q = q_bufs.index(side).reshape([BM, D])
    mbarrier.wait(q_ready, 0)
    mbarrier.wait(ready.index(0), 0)
    s = warpgroup_mma(q, k_bufs.index(0).reshape([BN, D]).permute([1, 0]), zeros, use_acc=False)
    for j in range(num_blocks - 1):
        stage = (j + 1) % STAGES
        mbarrier.wait(ready.index(stage), ((j + 1) // STAGES) & 1)
        k = k_bufs.index(stage).reshape([BN, D]).permute([1, 0])
        s_next = warpgroup_mma(q, k, zeros, use_acc=False, is_async=True)
        p, m, total, acc = softmax_step(s, m, total, acc, rows, j * BN + cols, T, scale, CAUSAL)
        p = gl.convert_layout(p.to(dtype), p_layout)
        v = v_bufs.index(j % STAGES).reshape([BN, D])
        acc = warpgroup_mma(p, v, acc, is_async=True)
        s, acc = warpgroup_mma_wait(num_outstanding=0, deps=(s_next, acc))
        mbarrier.arrive(free.index(j % STAGES), count=1)
    last = num_blocks - 1
    p, m, total, acc = softmax_step(s, m, total, acc, rows, last * BN + cols, T, scale, CAUSAL)
    v = v_bufs.index(last % STAGES).reshape([BN, D])
    acc = warpgroup_mma(gl.convert_layout(p.to(dtype), p_layout), v, acc)
    acc = acc / gl.convert_layout(total, o_rows)[:, None]
    out_rows = first + side * BM + gl.arange(0, BM, o_rows)
    out_cols = gl.arange(0, D, gl.SliceLayout(0, o_layout))
    offsets = (head.to(gl.int64) * S + out_rows)[:, None] * D + out_cols[None, :]
    gl.store(out_ptr + offsets, acc.to(dtype), mask=(out_rows < S)[:, None])


@gluon.jit
def gluon_attention_kernel(
    q_desc, k_desc, v_desc, out_ptr, GROUP, S, T, scale,
    D: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr,
    STAGES: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_desc.dtype
    first = gl.program_id(0) * 2 * BM
    head = gl.program_id(1)
    keys = T
    if CAUSAL:
        keys = gl.minimum(T, first + 2 * BM)
    num_blocks = gl.cdiv(keys, BN)
    q_bufs = gl.allocate_shared_memory(dtype, [2, 1, BM, D], q_desc.layout)
    k_bufs = gl.allocate_shared_memory(dtype, [STAGES, 1, BN, D], k_desc.layout)
    v_bufs = gl.allocate_shared_memory(dtype, [STAGES, 1, BN, D], v_desc.layout)
    q_ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_ready, count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(ready.index(stage), count=1)
        mbarrier.init(free.index(stage), count=2)
    fence_async_shared()
    mbarrier.expect(q_ready, 2 * BM * D * 2)
    tma.async_copy_global_to_shared(q_desc, [head, first, 0], q_ready, q_bufs.index(0))
    tma.async_copy_global_to_shared(q_desc, [head, first + BM, 0], q_ready, q_bufs.index(1))
    gl.warp_specialize(
        [
            (
                attend_partition,
                (0, out_ptr, q_bufs, k_bufs, v_bufs, q_ready, ready, free,
                 head, first, num_blocks, S, T, scale, dtype, CAUSAL),
            ),
            (
                attend_partition,
                (1, out_ptr, q_bufs, k_bufs, v_bufs, q_ready, ready, free,
                 head, first, num_blocks, S, T, scale, dtype, CAUSAL),
            ),
            (
                load_partition,
                (k_desc, v_desc, k_bufs, v_bufs, ready, free, head // GROUP, num_blocks),
            ),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip


def gluon_attention(q, k, v, scale=None, causal=False):
    B, H, S, D = q.shape
    Hkv, T = k.shape[1], k.shape[2]
    out = torch.empty(B, H, S, D, dtype=q.dtype, device=q.device)
    if scale is None:
        scale = D**-0.5
    dtype = gl.float16 if q.dtype == torch.float16 else gl.bfloat16
    BM, BN = 64, 64

    def descriptor(x, rows):
        layout = gl.NVMMASharedLayout.get_default_for([1, rows, D], dtype)
        return TensorDescriptor.from_tensor(x.view(-1, x.shape[2], D), [1, rows, D], layout)

    gluon_attention_kernel[(triton.cdiv(S, 2 * BM), B * H)](
        descriptor(q, BM), descriptor(k, BN), descriptor(v, BN), out, H // Hkv, S, T,
        scale * 1.4426950408889634, D, BM, BN, STAGES=4, CAUSAL=causal, num_warps=4, maxnreg=168,
    )  # fmt: skip
    return out
