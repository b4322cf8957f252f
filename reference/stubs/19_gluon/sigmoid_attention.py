"""19.6  Sigmoid attention

Fix a kernel that is right, and whose exponentials wait for its products.

    out[h, i] = sum_j sigmoid(q[h, i] . k[h, j] / sqrt(D) - log(T)) v[h, j]
    source: Ramapuram et al., "Sigmoid Self-Attention" (2024)

Report    "Each step starts the product with the values, takes the exponentials of the next scores,
          and only then waits for the product, so that both run at once. The results are right. But
          pytest --compiled says of nearly all exponentials that no product runs beside them."
Given     q (H, S, D), k and v (H, T, D): float16 or bfloat16, all of one dtype, contiguous,
          D is 64 or 128, any S and T
Return    out (H, S, D): dtype of q, sums in float32
New here  exponentials under a product; how --compiled tells in which order things really stand
Traffic   q loaded once; each tile of queries, at most ceil(S / 64) a head, loads the keys and
          values of its head once, for two products; out stored once, nothing else, coalesced, one
          launch; copies under way while one product is computed, by TMA; most exponentials of loops
          taken while a product of the same warpgroup is under way; no thread spills registers
Speed     at least 2x the speed of PyTorch at H 16, S and T 4096, D 128, bfloat16

Run       pytest puzzles/19_gluon/test_sigmoid_attention.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    heads inside rows: x.transpose(0, 1) of x (S, H, D); parts of larger tensors
Values    infinity and NaN reach only what they belong to; scores of any finite size
Raise     ValueError that names q if it is not 3-D, has another D or another dtype, k if it does not
          fit q in rank, H, D or dtype, and v if its shape or dtype is not that of k;
          ValueError that names a q, k or v that TMA cannot address.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/19_gluon/production/test_sigmoid_attention.py
"""

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

DTYPES = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}


@gluon.jit
def fetch(desc, head, step, steps, slots, full):
    """Start the copy of a step's block into its slot, if there is such a step."""
    SLOTS: gl.constexpr = slots.shape[0]
    BLOCK: gl.constexpr = slots.shape[2]
    D: gl.constexpr = slots.shape[3]
    slot, more = step % SLOTS, step < steps
    mbarrier.expect(full.index(slot), BLOCK * D * 2, pred=more)
    block = [head, (steps - 1 - step) * BLOCK, 0]
    tma.async_copy_global_to_shared(desc, block, full.index(slot), slots.index(slot), pred=more)


@gluon.jit
def sigmoid(s, scale, shift):
    return 1 / (1 + gl.exp2(shift - s * scale))


@gluon.jit
def sigmoid_attention_kernel(
    q_desc, k_desc, v_desc, out_desc,
    S, T,
    scale, shift,
    BLOCK: gl.constexpr, D: gl.constexpr, SLOTS: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_desc.dtype
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, BLOCK, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    tiles, steps = gl.cdiv(S, BLOCK), gl.cdiv(T, BLOCK)
    head, row = gl.program_id(0) // tiles, gl.program_id(0) % tiles * BLOCK

    q_tile = gl.allocate_shared_memory(dtype, [1, BLOCK, D], q_desc.layout)
    k_slots = gl.allocate_shared_memory(dtype, [SLOTS, 1, BLOCK, D], k_desc.layout)
    v_slots = gl.allocate_shared_memory(dtype, [SLOTS, 1, BLOCK, D], v_desc.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_full, count=1)
    for i in gl.static_range(SLOTS):
        mbarrier.init(k_full.index(i), count=1)
        mbarrier.init(v_full.index(i), count=1)
    fence_async_shared()
    mbarrier.expect(q_full, BLOCK * D * 2)
    tma.async_copy_global_to_shared(q_desc, [head, row, 0], q_full, q_tile)
    for i in gl.static_range(SLOTS):
        fetch(k_desc, head, i, steps, k_slots, k_full)
        fetch(v_desc, head, i, steps, v_slots, v_full)

    zeros = gl.zeros([BLOCK, BLOCK], gl.float32, s_layout)
    o = gl.zeros([BLOCK, D], gl.float32, o_layout)
    q = q_tile.reshape([BLOCK, D])
    mbarrier.wait(q_full, 0)
    mbarrier.wait(k_full.index(0), 0)
    k = k_slots.index(0).reshape([BLOCK, D]).permute([1, 0])
    s = warpgroup_mma(q, k, zeros, use_acc=False)
    fetch(k_desc, head, SLOTS, steps, k_slots, k_full)
    # The last block of keys comes first, and only it may be cut off.
    keys = (steps - 1) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, s_layout))
    p = gl.where((keys < T)[None, :], sigmoid(s, scale, shift), 0.0)
    p = gl.convert_layout(p.to(dtype), p_layout)

    for step in range(1, steps):
        slot, phase = step % SLOTS, step // SLOTS & 1
        k = k_slots.index(slot).reshape([BLOCK, D]).permute([1, 0])
        v = v_slots.index((step - 1) % SLOTS).reshape([BLOCK, D])
        mbarrier.wait(k_full.index(slot), phase)
        mbarrier.wait(v_full.index((step - 1) % SLOTS), (step - 1) // SLOTS & 1)
        s = warpgroup_mma(q, k, zeros, use_acc=False, is_async=True)
        o = warpgroup_mma(p, v, o, is_async=True)
        s = warpgroup_mma_wait(num_outstanding=1, deps=(s,))
        fetch(k_desc, head, step + SLOTS, steps, k_slots, k_full)
        p = sigmoid(s, scale, shift)
        o = warpgroup_mma_wait(num_outstanding=0, deps=(o,))
        fetch(v_desc, head, step - 1 + SLOTS, steps, v_slots, v_full)
        p = gl.convert_layout(p.to(dtype), p_layout)

    mbarrier.wait(v_full.index((steps - 1) % SLOTS), (steps - 1) // SLOTS & 1)
    o = warpgroup_mma(p, v_slots.index((steps - 1) % SLOTS).reshape([BLOCK, D]), o)
    # The queries are needed no more.
    q_tile.reshape([BLOCK, D]).store(o.to(dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(out_desc, [head, row, 0], q_tile)
    tma.store_wait(0)


def is_addressable(x: torch.Tensor) -> bool:
    """Whether TMA can fetch rows of x (H, S, D)."""
    aligned = all(stride * x.element_size() % 16 == 0 for stride in x.stride()[:-1])
    return aligned and x.data_ptr() % 16 == 0 and x.stride(-1) == 1 and min(x.stride()) > 0


def describe(x: torch.Tensor, rows: int) -> TensorDescriptor:
    """A descriptor for so many rows of a head."""
    block = [1, rows, x.shape[2]]
    layout = gl.NVMMASharedLayout.get_default_for(block, DTYPES[x.dtype])
    return TensorDescriptor.from_tensor(x, block, layout)


def sigmoid_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    if q.dim() != 3 or q.shape[2] not in (64, 128):
        raise ValueError(f"q must be (H, S, D) with D 64 or 128, not {tuple(q.shape)}")
    if q.dtype not in DTYPES:
        raise ValueError(f"q must be float16 or bfloat16, not {q.dtype}")
    H, S, D = q.shape
    if k.dim() != 3 or k.shape[::2] != (H, D) or k.dtype != q.dtype:
        raise ValueError(f"k must be {q.dtype} ({H}, T, {D}), not {k.dtype} {tuple(k.shape)}")
    if v.shape != k.shape or v.dtype != k.dtype:
        raise ValueError(f"v must be {k.dtype} {tuple(k.shape)}, not {v.dtype} {tuple(v.shape)}")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not is_addressable(x):
            raise ValueError(f"{name} must have rows that begin at multiples of 16 bytes, for TMA")
    out = torch.empty(H, S, D, dtype=q.dtype, device=q.device)
    T, BLOCK = k.shape[1], 128
    scale, shift = D**-0.5 * math.log2(math.e), math.log2(T)  # exp2 takes them
    sigmoid_attention_kernel[(triton.cdiv(S, BLOCK) * H,)](
        describe(q, BLOCK), describe(k, BLOCK), describe(v, BLOCK), describe(out, BLOCK),
        S, T,
        scale, shift,
        BLOCK=BLOCK, D=D, SLOTS=2, num_warps=8,
    )  # fmt: skip
    return out
