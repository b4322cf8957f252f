"""12.2  GEGLU with a backward pass: one good answer.

1 + tanh(z) is written as 2 * sigmoid(2 z), so that the derivative needs nothing but that sigmoid.
Far out it no longer changes, and that term is left out, since x * x may be inf there and 0 times
inf is NaN. One pass makes both gradients from gate and up, and nothing else is saved.
"""

import torch
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable

BLOCK = 1024

# 2 * sqrt(2 / pi), since 1 + tanh(z) is 2 * sigmoid(2 z); and the factor of x**3.
SCALE = tl.constexpr(1.5957691216057308)
CUBIC = tl.constexpr(0.044715)


@triton.jit
def place(N, BLOCK: tl.constexpr):
    """The row and the columns of a program, and which of them there are."""
    blocks = tl.cdiv(N, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    cols = (tl.program_id(0) % blocks).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return row, cols, cols < N


@triton.jit
def geglu_kernel(
    gate_ptr, up_ptr, y_ptr,
    N,
    stride_gm, stride_gn, stride_um, stride_un,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row, cols, mask = place(N, BLOCK)
    gate_ptrs = gate_ptr + row * stride_gm + cols * stride_gn
    up_ptrs = up_ptr + row * stride_um + cols * stride_un
    x = tl.load(gate_ptrs, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptrs, mask=mask, other=0.0).to(tl.float32)
    s = tl.sigmoid(SCALE * x * (1 + CUBIC * x * x))
    tl.store(y_ptr + row * N + cols, x * s * up, mask=mask)


@triton.jit
def geglu_backward_kernel(
    dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr,
    N,
    stride_dm, stride_dn, stride_gm, stride_gn, stride_um, stride_un,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row, cols, mask = place(N, BLOCK)
    dy_ptrs = dy_ptr + row * stride_dm + cols * stride_dn
    gate_ptrs = gate_ptr + row * stride_gm + cols * stride_gn
    up_ptrs = up_ptr + row * stride_um + cols * stride_un
    dy = tl.load(dy_ptrs, mask=mask, other=0.0).to(tl.float32)
    x = tl.load(gate_ptrs, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptrs, mask=mask, other=0.0).to(tl.float32)
    s = tl.sigmoid(SCALE * x * (1 + CUBIC * x * x))
    # The derivative of x s. Far out s is 0 or 1 and does not bend, but x * x may be inf.
    bend = s * (1 - s)
    slope = s + tl.where(bend == 0, 0.0, x * bend * SCALE * (1 + 3 * CUBIC * x * x))
    tl.store(dgate_ptr + row * N + cols, dy * up * slope, mask=mask)
    tl.store(dup_ptr + row * N + cols, dy * x * s, mask=mask)


class GEGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        M, N = gate.shape
        y = torch.empty((M, N), dtype=gate.dtype, device=gate.device)
        geglu_kernel[(M * triton.cdiv(N, BLOCK),)](
            gate, up, y, N, *gate.stride(), *up.stride(), BLOCK=BLOCK, num_warps=4
        )
        ctx.save_for_backward(gate, up)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        gate, up = ctx.saved_tensors
        M, N = gate.shape
        dgate = torch.empty((M, N), dtype=gate.dtype, device=gate.device)
        dup = torch.empty((M, N), dtype=gate.dtype, device=gate.device)
        geglu_backward_kernel[(M * triton.cdiv(N, BLOCK),)](
            dy, gate, up, dgate, dup, N, *dy.stride(), *gate.stride(), *up.stride(),
            BLOCK=BLOCK, num_warps=4,
        )  # fmt: skip
        return dgate, dup


def geglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    if gate.dim() != 2 or gate.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(
            "gate must be 2-D and float16, bfloat16 or float32, "
            f"not {gate.dtype} {tuple(gate.shape)}"
        )
    if up.shape != gate.shape or up.dtype != gate.dtype:
        raise ValueError(
            f"up must be {gate.dtype} {tuple(gate.shape)}, not {up.dtype} {tuple(up.shape)}"
        )
    return GEGLU.apply(gate, up)
