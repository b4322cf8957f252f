"""03.2  Row argmax

Find where the largest element of each row is.

    index[m] = the first n for which x[m, n] is largest          PyTorch: x.argmax(1)

Given     x (M, N): float16, bfloat16 or float32, contiguous, finite, M and N >= 1
Return    index (M,): int64, a new tensor; of equal elements, the first counts
New here  tl.max, tl.min; a choice for each lane with tl.where; the neutral element of a maximum
Traffic   each element loaded once, neighbouring lanes on neighbouring elements; each index stored
          once, one launch
Speed     at least 0.4x the speed of x.argmax(1) at 16384 x 4096 float32 elements

Run       pytest puzzles/03_reductions/test_row_argmax.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0
Sizes     very long rows, more than 65535 rows, offsets beyond 2**31 elements
Values    NaN counts as larger than anything, as in PyTorch: a row with NaN gives its first NaN;
          0.0 and -0.0 are equal; infinite elements, and a row of nothing but -inf gives 0
Raise     ValueError that names x if it is not 2-D or not floating point.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/03_reductions/production/test_row_argmax.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_argmax_kernel(
    x_ptr, index_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program finds the index for one row, BLOCK_N columns at a time
    pass


def row_argmax(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate the index, choose BLOCK_N and a grid, launch
