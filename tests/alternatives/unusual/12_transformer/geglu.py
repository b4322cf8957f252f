# One kernel for both ways, with forward and setup_context apart; the derivative by the sigmoid.
import torch
import triton
import triton.language as tl


@triton.jit
def geglu_kernel(
    gate_ptr, up_ptr, dy_ptr, outs, N, M, strides, BACKWARD: tl.constexpr, BLOCK: tl.constexpr
):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, col, mask = offs // N, offs % N, offs < M * N
    x = tl.load(gate_ptr + row * strides[0] + col, mask=mask).to(tl.float32)
    up = tl.load(up_ptr + row * strides[1] + col, mask=mask).to(tl.float32)
    s = tl.sigmoid(1.5957691216057308 * x * (1 + 0.044715 * x * x))
    if BACKWARD:
        dy = tl.load(dy_ptr + offs, mask=mask).to(tl.float32)
        slope = s + x * s * (1 - s) * 1.5957691216057308 * (1 + 0.134145 * x * x)
        tl.store(outs[0] + offs, dy * up * slope, mask=mask)
        tl.store(outs[1] + offs, dy * x * s, mask=mask)
    else:
        tl.store(outs[0] + offs, x * s * up, mask=mask)


def launched(gate, up, dy, count):
    M, N = gate.shape
    outs = tuple(gate.new_empty(M, N) for _ in range(count))
    geglu_kernel[(triton.cdiv(M * N, 256),)](
        gate, up, dy, outs, N, M, (gate.stride(0), up.stride(0)), dy is not None, BLOCK=256
    )
    return outs


class GEGLU(torch.autograd.Function):
    @staticmethod
    def forward(gate, up):
        return launched(gate, up, None, 1)[0]

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, dy):
        return launched(*ctx.saved_tensors, dy, 2)


geglu = GEGLU.apply
