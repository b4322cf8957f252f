"""01.5  Polynomial

Evaluate a polynomial by Horner's rule, its coefficients compiled into the kernel.

    y = c0 + c1 * x + c2 * x**2 + ... = c0 + x * (c1 + x * (c2 + ...))

Given     x, up to 4-D: float16, bfloat16 or float32, any strides
          coefficients: a tuple of 1 to 8 Python numbers, (c0, c1, ..., c7) at most
Return    y: shape and dtype of x, contiguous, computed in float32
Raise     ValueError that names x if it has more than 4 dimensions or is not floating point,
          and coefficients if there are none or more than 8
New here  a tuple as tl.constexpr; tl.static_range, a loop that is unrolled when it is compiled
Traffic   1 load and 1 store an element, one launch
Speed     at least 4x of the sum of powers in PyTorch at 64 Mi float32 elements, 8 coefficients

Run       pytest puzzles/01_pointwise/test_polynomial.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def polynomial_kernel(
    x_ptr, y_ptr,
    N, size_1, size_2, size_3,
    stride_x0, stride_x1, stride_x2, stride_x3,
    COEFFICIENTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK elements, counted in row-major order
    pass


def polynomial(x: torch.Tensor, coefficients: tuple[float, ...]) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate y, choose a grid, launch
