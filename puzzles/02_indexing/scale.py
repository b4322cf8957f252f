"""02.5  Scale, made to ship

Multiply a matrix by a number, right for every valid input and with a clear error for any other.

    y[m, n] = x[m, n] * factor          PyTorch: x * factor

Given     x (M, N): float16, bfloat16 or float32, any strides (including 0), M and N >= 1;
          factor: an int or a float
Return    y (M, N): a new contiguous tensor with the dtype of x, multiplied in float32, rounded once
New here  offsets and results beyond 2**31 elements; more tiles than the 65535 that axis 1 of a grid
          takes; checks before the launch
Raise     ValueError that names x if it is not 2-D or not floating point, TypeError that names
          factor if it is no number (a bool may count as one); the right answer is right too
Traffic   1 load and 1 store per element, one launch; where x is contiguous, in 32-byte sectors at
          most 1.1x the minimum
Speed     at least 0.3x the speed of x * factor at 16384 x 8192 float32 elements

Run       pytest puzzles/02_indexing/test_scale.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    views that are not aligned to 16 bytes
Sizes     M = 0 or N = 0
Values    NaN, inf and subnormal numbers, in x and as factor; the factor 1, which Triton compiles as
          a constant if it is passed on as an int
Traffic   in sectors at most 1.1x the minimum for 16-bit dtypes too, and where the columns are
          contiguous
Raise     ValueError that names x if it is float64, whose digits float32 would lose, and TypeError
          that names factor if it is a tensor or a tuple
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/02_indexing/production/test_scale.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(
    x_ptr, y_ptr,
    M, N, factor,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program scales one BLOCK_M x BLOCK_N tile
    pass


def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate y, choose tiles and a grid, launch
