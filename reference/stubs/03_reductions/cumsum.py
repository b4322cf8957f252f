"""03.6  Cumulative sum

Running totals along each row, however long it is.

    y[m, n] = sum_{k <= n} x[m, k]          PyTorch: x.cumsum(1)

Given     x (M, N): float16, bfloat16 or float32, contiguous, M and N >= 1
Return    y (M, N): a new tensor with the dtype of x, summed in float32
New here  tl.cumsum, a scan: as many results as elements; a carry from block to block
Traffic   each element loaded once, stored once and not loaded back; neighbouring lanes on
          neighbouring elements; one launch
Speed     at least 1x the speed of x.cumsum(1) at 8192 x 8192 float32 elements

Run       pytest puzzles/03_reductions/test_cumsum.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0
Sizes     very long rows, more than 65535 rows, offsets and results beyond 2**31 elements
Values    NaN and inf as in PyTorch
Raise     ValueError that names x if it is not 2-D or not floating point.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/03_reductions/production/test_cumsum.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program scans one row, BLOCK_N columns at a time
    pass


def cumsum(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose BLOCK_N and a grid, launch
