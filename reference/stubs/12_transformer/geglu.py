"""12.2  GEGLU with a backward pass

A gated activation for autograd that keeps its two inputs and makes everything else again.

    y = gelu(gate) * up,  gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))
    dup = dy * gelu(gate),  dgate = dy * up * gelu'(gate)
    PyTorch: torch.nn.functional.gelu(gate, approximate="tanh") * up
    source: Shazeer, "GLU Variants Improve Transformer" (2020)

Given     gate and up (M, N): float16, bfloat16 or float32, both of one dtype, contiguous or the
          two halves of one (M, 2 N); dy, which autograd passes to the backward pass: contiguous
Return    y (M, N): dtype of gate, contiguous, computed in float32; gelu(gate) may be rounded to
          that dtype before the product. The backward pass gives dgate and dup, contiguous too
New here  recomputation: what is cheap to make again is not kept. tl has no tanh, but
          libdevice has, and (1 + tanh(z)) / 2 is sigmoid(2 * z)
Traffic   gate and up loaded twice in all and dy once; y, dgate and dup stored once; nothing else is
          kept for the backward pass or stored; coalesced, one launch each way
Speed     forward and backward at least 1.3x the speed of PyTorch at 16384 x 11008 bfloat16 elements

Run       pytest puzzles/12_transformer/test_geglu.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0: autograd expands the gradient of a sum; offsets and results
          beyond 2**31 elements
Values    one rounding, at the end; gates whose square overflows float32; NaN stays in its element
Raise     ValueError that names gate if it is not 2-D or has another dtype, and up if its shape or
          dtype is not that of gate.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/12_transformer/production/test_geglu.py
"""

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
    # TODO: one program computes a part of a row of y
    # BLOCK columns at a time; stride_gm and stride_um lead to the next row. Add parameters as you
    # need them.
    pass


@triton.jit
def geglu_backward_kernel(
    dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr,
    N,
    stride_gm, stride_um,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes a part of a row of dgate and of dup
    # Add parameters as you need them.
    pass


class GEGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        # TODO: launch, and ctx.save_for_backward(...) what the backward pass needs
        raise NotImplementedError

    @staticmethod
    def backward(ctx, dy):
        # TODO: return dgate, dup
        raise NotImplementedError


def geglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: GEGLU.apply(...)
