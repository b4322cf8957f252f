"""01.6  Complex multiplication

Triton has no complex numbers: multiply pairs of floats that lie side by side.

    (a + bi) * (c + di) = (ac - bd) + (ad + bc)i          PyTorch: x * y

Given     x, y of one shape, up to 4-D: complex64, any strides, no lazy conjugates (x.conj())
Return    z: complex64, shape of x, contiguous
Raise     ValueError that names x if it is not complex64 or has more than 4 dimensions,
          and y if its shape or dtype is not that of x
New here  torch.view_as_real, the same memory as (..., 2) float32; tl.split and tl.join, which take
          the last dimension of a block apart and put it together
Traffic   each number of x and y loaded once, each of z stored once, one launch
Speed     at least 0.9x of x * y at 32 Mi elements

Run       pytest puzzles/01_pointwise/test_complex_multiply.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def complex_multiply_kernel(
    x_ptr, y_ptr, z_ptr,
    N, size_1, size_2, size_3,
    stride_x0, stride_x1, stride_x2, stride_x3,
    stride_y0, stride_y1, stride_y2, stride_y3,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program multiplies BLOCK complex numbers, counted in row-major order; the pointers
    # are to float32, the strides count complex numbers
    pass


def complex_multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate z, choose a grid, launch
