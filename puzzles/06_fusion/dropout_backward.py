"""06.4  Dropout, backward

The gradient of dropout. The mask was never stored: compute it again from the seed.

    dx[i] = dy[i] / (1 - p) if tl.rand(seed, i) > p else 0

Given     dy (N,): float16, bfloat16 or float32, contiguous, N >= 1
          p, seed: those of the forward pass: p from 0 to less than 1, seed from 0 to 2**63 - 1
Return    dx (N,): a new tensor with the dtype of dy; dy / (1 - p) in float32, rounded once
New here  recomputing instead of storing: arithmetic costs less than memory
Traffic   each element of dy loaded once, each of dx stored once, nothing else, coalesced, one
          launch
Speed     at least 0.9x the speed of PyTorch's rand, comparison, division and where at 64 Mi float32
          elements

Run       pytest puzzles/06_fusion/test_dropout_backward.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    up to 4 dimensions, including 0, and any strides, including 0, not necessarily those of
          the x of the forward pass; i is the number of the element in row-major order, whatever the
          strides are
Sizes     empty tensors; offsets and results beyond 2**31 elements; more than 65535 rows
Values    p = 1 gives zeros; a NaN or inf at a dropped element gives 0; a number equal to p drops
          its element; p may be an int, seed may be negative
Raise     ValueError that names dy if it has more than 4 dimensions or another dtype,
          and p if it is outside [0, 1].
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/06_fusion/production/test_dropout_backward.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_backward_kernel(
    dy_ptr, dx_ptr,
    N,
    p, keep_share, seed,  # keep_share: 1 - p
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK elements
    pass


def dropout_backward(dy: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate dx, choose a grid, launch
