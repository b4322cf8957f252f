"""06.1  SwiGLU

The gated activation of today's transformers: two matrices in, one out, nothing stored in between.

    y = gate * sigmoid(gate) * up          PyTorch: torch.nn.functional.silu(gate) * up
    source: Shazeer, "GLU Variants Improve Transformer" (2020)

Given     gate, up: matrices of one shape and dtype: float16, bfloat16 or float32, contiguous
Return    y: a new tensor with the shape and dtype of gate, computed in float32;
          silu(gate) may be rounded to that dtype before the product
New here  fusion: storing a value and loading it again costs more than computing it
Traffic   each element of gate and up loaded once, each of y stored once, coalesced, one launch
Speed     at least 0.5x the speed of silu(gate) * up at 16384 x 4096 bfloat16 elements

Run       pytest puzzles/06_fusion/test_swiglu.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    up to 4 dimensions, including 0, and any strides, including 0; gate and up may differ in
          theirs
Sizes     empty tensors; offsets and results beyond 2**31 elements; more than 65535 rows
Values    one rounding, at the end; NaN and inf as in PyTorch
Raise     ValueError that names gate if it has more than 4 dimensions or another dtype,
          and up if its shape or dtype is not that of gate.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/06_fusion/production/test_swiglu.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(
    gate_ptr, up_ptr, y_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK of the N elements
    pass


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose a grid, launch
