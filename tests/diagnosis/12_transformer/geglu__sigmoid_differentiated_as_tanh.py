# fault: the derivative of tanh is taken of a sigmoid
# cause: the derivative of tanh, is taken of a sigmoid

import torch
import triton
import triton.language as tl


@triton.jit
def geglu_kernel(
    gate_ptr, up_ptr, y_ptr,
    N,
    stride_gm, stride_um,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < N
    gate = tl.load(gate_ptr + row * stride_gm + cols, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + row * stride_um + cols, mask=mask, other=0.0).to(tl.float32)
    z = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
    s = tl.sigmoid(2 * z)
    tl.store(y_ptr + row * N + cols, gate * s * up, mask=mask)


@triton.jit
def geglu_backward_kernel(
    dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr,
    N,
    stride_gm, stride_um,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < N
    dy = tl.load(dy_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + row * stride_gm + cols, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + row * stride_um + cols, mask=mask, other=0.0).to(tl.float32)
    z = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
    dz = 0.7978845608028654 * (1 + 3 * 0.044715 * gate * gate)
    s = tl.sigmoid(2 * z)
    slope = s + gate * 0.5 * (1 - s * s) * dz
    tl.store(dgate_ptr + row * N + cols, dy * up * slope, mask=mask)
    tl.store(dup_ptr + row * N + cols, dy * gate * s, mask=mask)


class GEGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        M, N = gate.shape
        y = torch.empty((M, N), dtype=gate.dtype, device=gate.device)
        BLOCK = 1024
        geglu_kernel[(M, triton.cdiv(N, BLOCK))](
            gate, up, y, N, gate.stride(0), up.stride(0), BLOCK=BLOCK
        )
        ctx.save_for_backward(gate, up)
        return y

    @staticmethod
    def backward(ctx, dy):
        gate, up = ctx.saved_tensors
        M, N = gate.shape
        dgate = torch.empty((M, N), dtype=gate.dtype, device=gate.device)
        dup = torch.empty((M, N), dtype=gate.dtype, device=gate.device)
        BLOCK = 1024
        geglu_backward_kernel[(M, triton.cdiv(N, BLOCK))](
            dy, gate, up, dgate, dup, N, gate.stride(0), up.stride(0), BLOCK=BLOCK
        )
        return dgate, dup


def geglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return GEGLU.apply(gate, up)
