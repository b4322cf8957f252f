"""06.1  SwiGLU: one good answer.

The sigmoid and both products are in float32, so that only the store rounds. Whole blocks go without
a mask, because one that may end anywhere makes each element a load of its own; only the last
program has one. Strides of up to four dimensions are arguments, and contiguous tensors are
flattened first.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_block(gate_ptrs, up_ptrs, y_ptrs, mask):
    gate = tl.load(gate_ptrs, mask=mask).to(tl.float32)
    up = tl.load(up_ptrs, mask=mask).to(tl.float32)
    tl.store(y_ptrs, gate * tl.sigmoid(gate) * up, mask=mask)


@triton.jit
def swiglu_kernel(
    gate_ptr, up_ptr, y_ptr,
    N, size_1, size_2, size_3,
    stride_g0, stride_g1, stride_g2, stride_g3,
    stride_u0, stride_u1, stride_u2, stride_u3,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    i3 = offs % size_3
    i2 = offs // size_3 % size_2
    i1 = offs // (size_3 * size_2) % size_1
    i0 = offs // (size_3 * size_2 * size_1)
    gate_ptrs = gate_ptr + i0 * stride_g0 + i1 * stride_g1 + i2 * stride_g2 + i3 * stride_g3
    up_ptrs = up_ptr + i0 * stride_u0 + i1 * stride_u1 + i2 * stride_u2 + i3 * stride_u3
    # Whole blocks have no mask: with one that may end anywhere, each element is a load of its own.
    if (pid + 1) * BLOCK <= N:
        swiglu_block(gate_ptrs, up_ptrs, y_ptr + offs, None)
    else:
        swiglu_block(gate_ptrs, up_ptrs, y_ptr + offs, offs < N)


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    if gate.dim() > 4 or gate.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            "gate must be float16, bfloat16 or float32 with at most 4 dimensions, "
            f"not {gate.dtype} {tuple(gate.shape)}"
        )
    if up.shape != gate.shape or up.dtype != gate.dtype:
        raise ValueError(
            f"up must be {gate.dtype} {tuple(gate.shape)} like gate, "
            f"not {up.dtype} {tuple(up.shape)}"
        )
    y = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    if gate.is_contiguous() and up.is_contiguous():
        gate, up = gate.view(-1), up.view(-1)
    missing = 4 - gate.dim()
    sizes = (*gate.shape, *[1] * missing)
    strides = [(*tensor.stride(), *[0] * missing) for tensor in (gate, up)]
    N = y.numel()
    BLOCK = 1024
    swiglu_kernel[(triton.cdiv(N, BLOCK),)](
        gate, up, y, N, *sizes[1:], *strides[0], *strides[1], BLOCK=BLOCK
    )
    return y
