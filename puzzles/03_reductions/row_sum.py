"""03.1  Row sum

Add up each row of a matrix, however long it is.

    y[m] = sum_n x[m, n]          PyTorch: x.sum(1)

Given     x (M, N): float16, bfloat16 or float32, contiguous, M and N >= 1
Return    y (M,): a new tensor with the dtype of x, summed in float32 and rounded once
New here  tl.sum along an axis; a loop inside the kernel: for start in range(0, N, BLOCK_N);
          other= in tl.load, for masked lanes that take part in the sum
Traffic   each element loaded once, neighbouring lanes on neighbouring elements; each sum stored
          once, one launch
Speed     at least 0.3x the speed of x.sum(1) at 16384 x 4096 float32 elements

Run       pytest puzzles/03_reductions/test_row_sum.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0
Sizes     very long rows, more than 65535 rows, offsets beyond 2**31 elements
Values    NaN and inf as in PyTorch
Raise     ValueError that names x if it is not 2-D or not floating point.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/03_reductions/production/test_row_sum.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program sums one row, BLOCK_N columns at a time
    pass


def row_sum(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose BLOCK_N and a grid, launch
