"""19.1  Gluon copy

Copy a vector, with a layout that says which thread holds which elements.

    y[i] = x[i]          PyTorch: x.clone()

Given     x (N,): float16, bfloat16 or float32, contiguous, N >= 1
Return    y (N,): a new tensor with the dtype of x
New here  @gluon.jit; gl.BlockedLayout, which gl.arange and all that is made of it have
Traffic   each element loaded once and stored once, coalesced, one launch; loads and stores of 16
          bytes a thread in the machine code where 16 divides N
Speed     at least 0.3x the speed of x.clone() at 64 Mi float32 elements

Run       pytest puzzles/19_gluon/test_gluon_copy.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    views that are not aligned to 16 bytes
Sizes     N = 0; results beyond 2**31 elements; 16 bytes a thread for any N, but near its end
Dtypes    any dtype but complex
Values    copied bit for bit, NaN and inf too
Raise     ValueError that names x if it is not 1-D or not contiguous.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/19_gluon/production/test_gluon_copy.py
"""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def gluon_copy_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK: gl.constexpr,
):  # fmt: skip
    # TODO: choose a layout, and copy BLOCK elements with it
    # gl.num_warps() tells how many warps a program has. Add parameters as you need them.
    pass


def gluon_copy(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose a grid, launch
