"""03.1  Row sum

Add up each row of a matrix, however long it is.

    y[m] = sum_n x[m, n]          PyTorch: x.sum(1)

Given     x (M, N): float16, bfloat16 or float32, any strides, any sizes >= 1
Return    y (M,): dtype of x, contiguous, summed in float32 and rounded once
Raise     ValueError that names x if it is not 2-D or not floating point
New here  tl.sum along an axis; a loop inside the kernel: for start in range(0, N, BLOCK_N);
          other= in tl.load, for the masked lanes that reach the sum
Traffic   each element loaded once, each sum stored once, one launch
Speed     at least 0.9x of x.sum(1) at 16384 x 4096 float32 elements

Run       pytest puzzles/03_reductions/test_row_sum.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program sums BLOCK_M rows, BLOCK_N columns at a time
    pass


def row_sum(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check x, allocate y, choose a grid, launch
