"""01.7  Polynomial

Evaluate a polynomial by Horner's rule, with its coefficients compiled into the kernel.

    y = c0 + c1 * x + c2 * x**2 + ... = c0 + x * (c1 + x * (c2 + ...))

Given     x (N,): float16, bfloat16 or float32, contiguous, N >= 1
          coefficients: a tuple of 1 to 8 Python numbers, (c0, c1, ..., c7) at most
Return    y (N,): a new tensor with the dtype of x, computed in float32
New here  a tuple as tl.constexpr; tl.static_range, a loop that is unrolled at compile time
Traffic   1 load and 1 store per element, neighbouring lanes on neighbouring elements, one launch
Speed     at least 9x the speed of the sum of powers in PyTorch at 64 Mi float32 elements, 8
          coefficients

Run       pytest puzzles/01_pointwise/test_polynomial.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    up to 4 dimensions with any strides, including 0; y is contiguous
Sizes     no elements; offsets and results beyond 2**31 elements
Values    NaN and inf in x; inf where the result overflows
Raise     ValueError that names x if it has more than 4 dimensions or is not floating point,
          and coefficients if there are none or more than 8.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/01_pointwise/production/test_polynomial.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def polynomial_kernel(
    x_ptr, y_ptr,
    N,
    COEFFICIENTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK elements
    pass


def polynomial(x: torch.Tensor, coefficients: tuple[float, ...]) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose a grid, launch
