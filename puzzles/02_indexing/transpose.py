"""02.3  Transpose

Swap rows and columns, and read and write whole sectors all the same.

    y[n, m] = x[m, n]          PyTorch: x.T.contiguous()

Given     x (M, N): any dtype but complex, any strides, any sizes >= 1
Return    y (N, M): dtype of x, contiguous
Raise     ValueError that names x if it is not 2-D or complex
New here  coalescing: memory moves in sectors of 32 bytes, so the lanes of one load, and those of
          one store, must fill the sectors that they touch; tl.trans
Traffic   each element loaded once and stored once, one launch;
          32-byte sectors at most 1.1x the minimum, for the loads and for the stores
Speed     at least 0.9x of x.T.contiguous() at 16384 x 8192 float32 elements

Run       pytest puzzles/02_indexing/test_transpose.py
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
    raise NotImplementedError  # TODO: check x, allocate y, choose a grid, launch
