# A grid of rows by blocks of columns; tanh by way of the sigmoid; gelu rounded before the product.

import torch
import triton
import triton.language as tl


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def geglu_kernel(
    gate_ptr, up_ptr, y_ptr,
    N,
    stride_gm, stride_um,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < N
    gate = tl.load(gate_ptr + row * stride_gm + cols, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + row * stride_um + cols, mask=mask, other=0.0)
    inner = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
    gelu = 0.5 * gate * (1 + tanh(inner))
    tl.store(y_ptr + row * N + cols, gelu.to(up.dtype) * up, mask=mask)


@triton.jit
def geglu_backward_kernel(
    dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr,
    N,
    stride_gm, stride_um,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < N
    dy = tl.load(dy_ptr + row * N + cols, mask=mask, other=0.0)
    gate = tl.load(gate_ptr + row * stride_gm + cols, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + row * stride_um + cols, mask=mask, other=0.0)
    inner = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
    t = tanh(inner)
    gelu = 0.5 * gate * (1 + t)
    inner_slope = 0.7978845608028654 * (1 + 3 * 0.044715 * gate * gate)
    slope = 0.5 * (1 + t) + 0.5 * gate * (1 - t * t) * inner_slope
    tl.store(dup_ptr + row * N + cols, dy * gelu, mask=mask)
    tl.store(dgate_ptr + row * N + cols, slope * (dy.to(tl.float32) * up), mask=mask)


class GEGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        M, N = gate.shape
        y = torch.empty((M, N), dtype=gate.dtype, device=gate.device)
        geglu_kernel[(M, triton.cdiv(N, 1024))](
            gate, up, y, N, gate.stride(0), up.stride(0), BLOCK=1024
        )
        ctx.save_for_backward(gate, up)
        return y

    @staticmethod
    def backward(ctx, dy):
        gate, up = ctx.saved_tensors
        M, N = gate.shape
        dgate = torch.empty((M, N), dtype=gate.dtype, device=gate.device)
        dup = torch.empty((M, N), dtype=gate.dtype, device=gate.device)
        geglu_backward_kernel[(M, triton.cdiv(N, 1024))](
            dy, gate, up, dgate, dup, N, gate.stride(0), up.stride(0), BLOCK=1024
        )
        return dgate, dup


def geglu(gate, up):
    return GEGLU.apply(gate, up)
