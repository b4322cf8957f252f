"""01.8  Complex multiplication

Triton has no complex numbers: multiply pairs of floats that lie side by side.

    (a + bi) * (c + di) = (ac - bd) + (ad + bc)i          PyTorch: x * y

Given     x, y (N,): complex64, contiguous, N >= 1
Return    z (N,): complex64, a new tensor
New here  torch.view_as_real, the same memory as (N, 2) float32; tl.split and tl.join, which take
          the last dimension of a block apart and put it together again
Traffic   each number of x and y loaded once, each of z stored once, neighbouring lanes on
          neighbouring floats, one launch
Speed     at least 0.3x the speed of x * y at 32 Mi elements

Run       pytest puzzles/01_pointwise/test_complex_multiply.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    up to 4 dimensions with any strides, including 0, but no lazy conjugates (x.conj());
          z is contiguous
Sizes     no elements; offsets and results beyond 2**31 floats
Raise     ValueError that names x if it is not complex64 or has more than 4 dimensions,
          and y if its shape or dtype is not that of x.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/01_pointwise/production/test_complex_multiply.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def complex_multiply_kernel(
    x_ptr, y_ptr, z_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program multiplies BLOCK complex numbers; the pointers are to float32
    pass


def complex_multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate z, choose a grid, launch
