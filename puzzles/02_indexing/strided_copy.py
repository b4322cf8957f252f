"""02.2  Strided copy

Copy a matrix whose rows and columns lie anywhere in memory to one that is contiguous.

    y[m, n] = x[m, n]          PyTorch: x.contiguous()

Given     x (M, N): any dtype but complex, any strides (also 0), any sizes >= 1
Return    y (M, N): dtype of x, contiguous, in memory of its own
Raise     ValueError that names x if it is not 2-D or complex
New here  a stride for each dimension: x[m, n] lies m * stride_xm + n * stride_xn after x[0, 0];
          the order of the programs, when one axis of the grid is cut into two with // and %
Traffic   each element loaded once and stored once, one launch;
          32-byte sectors at most 1.1x the minimum where the rows or the columns are contiguous
Speed     at least 0.9x of x.clone(memory_format=torch.contiguous_format)
          at 16384 x 8192 float32 elements, every second row

Run       pytest puzzles/02_indexing/test_strided_copy.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def strided_copy_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program copies one BLOCK_M x BLOCK_N tile
    pass


def strided_copy(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check x, allocate y, choose a grid, launch
