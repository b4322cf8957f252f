"""03.6  Cumulative sum

Running totals along each row, however long it is.

    y[m, n] = sum_{k <= n} x[m, k]          PyTorch: x.cumsum(1)

Given     x (M, N): float16, bfloat16 or float32, any strides, any sizes >= 1
Return    y (M, N): dtype of x, contiguous, summed in float32
Raise     ValueError that names x if it is not 2-D or not floating point
New here  tl.cumsum, a scan: as many results as elements; a carry from block to block
Traffic   each element loaded once and stored once, one launch
Speed     at least 0.9x of x.cumsum(1) at 8192 x 8192 float32 elements

Run       pytest puzzles/03_reductions/test_cumsum.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cumsum_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program scans BLOCK_M rows, BLOCK_N columns at a time
    pass


def cumsum(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check x, allocate y, choose a grid, launch
