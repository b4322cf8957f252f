"""03.2  Row argmax

Find where the largest element of each row is.

    index[m] = the first n for which x[m, n] is largest          PyTorch: x.argmax(1)

Given     x (M, N): float16, bfloat16 or float32, any strides, any sizes >= 1
Return    index (M,): int64, contiguous
Raise     ValueError that names x if it is not 2-D or not floating point
New here  tl.max, tl.min; a choice for each lane with tl.where; the neutral element of a maximum
Ties      the first of equal elements; 0.0 and -0.0 are equal; a row of -inf gives 0
NaN       counts as larger than anything, as in PyTorch: a row with NaN gives its first NaN
Traffic   each element loaded once, each index stored once, one launch
Speed     at least 0.9x of x.argmax(1) at 16384 x 4096 float32 elements

Run       pytest puzzles/03_reductions/test_row_argmax.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_argmax_kernel(
    x_ptr, index_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program finds the index for BLOCK_M rows, BLOCK_N columns at a time
    pass


def row_argmax(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check x, allocate the index, choose a grid, launch
