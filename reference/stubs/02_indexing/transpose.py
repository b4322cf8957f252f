"""02.3  Transpose

Swap rows and columns, and still read and write whole sectors.

    y[n, m] = x[m, n]          PyTorch: x.T.contiguous()

Given     x (M, N): float16, bfloat16 or float32, any strides, M and N >= 1
Return    y (N, M): a new contiguous tensor with the dtype of x
New here  coalescing: memory moves in sectors of 32 bytes, so the lanes of one load, and those of
          one store, must fill the sectors that they touch; tl.trans
Traffic   each element loaded once and stored once, one launch; where x is contiguous,
          32-byte sectors at most 1.1x the minimum, for the loads and for the stores
Speed     at least 1x the speed of x.T.contiguous() at 16384 x 8192 float32 elements

Run       pytest puzzles/02_indexing/test_transpose.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    strides of 0, views that are not aligned to 16 bytes
Sizes     offsets and results beyond 2**31 elements; more tiles than axis 1 of a grid takes
Dtypes    any dtype but complex, with the same traffic
Values    copied bit for bit, NaN and inf too
Raise     ValueError that names x if it is not 2-D or complex.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/02_indexing/production/test_transpose.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program loads a BLOCK_M x BLOCK_N tile of x and stores it as a tile of y
    pass


def transpose(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose the tiles and a grid, launch
