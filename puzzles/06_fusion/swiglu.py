"""06.1  SwiGLU

The gated activation of today's transformers: two tensors in, one out, nothing in between.

    y = gate * sigmoid(gate) * up          PyTorch: torch.nn.functional.silu(gate) * up
    source: Shazeer, "GLU Variants Improve Transformer" (2020)

Given     gate, up of one shape, up to 4-D: float16, bfloat16 or float32, any strides
Return    y: shape and dtype of gate, contiguous, computed in float32
Raise     ValueError that names gate if it has more than 4 dimensions or another dtype,
          and up if its shape or dtype is not that of gate
New here  fusion: what a kernel stores and the next one loads again costs more than what it computes
Traffic   2 loads and 1 store an element, one launch
Speed     at least 1.5x of silu(gate) * up at 64 Mi bfloat16 elements

Run       pytest puzzles/06_fusion/test_swiglu.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(
    gate_ptr, up_ptr, y_ptr,
    N, size_1, size_2, size_3,
    stride_g0, stride_g1, stride_g2, stride_g3,
    stride_u0, stride_u1, stride_u2, stride_u3,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK elements, counted in row-major order
    pass


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate y, choose a grid, launch
