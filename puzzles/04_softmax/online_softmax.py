"""04.3  Online softmax

Softmax of rows too long to keep: maximum and sum in one pass, block by block.

    y[m, n] = exp(x[m, n] - max_m) / sum_n exp(x[m, n] - max_m), max_m the largest of row m
    PyTorch: torch.softmax(x, 1)

    When a block raises the maximum from a to b, the sum so far is worth exp(a - b) times itself.
    source: Milakov, Gimelshein, "Online normalizer calculation for softmax" (2018)

Given     x (M, N): float16, bfloat16 or float32, any strides, any sizes >= 1
Return    y (M, N): dtype of x, contiguous, computed in float32
Raise     ValueError that names x if it is not 2-D or not floating point
New here  a carried sum that is rescaled whenever the carried maximum grows
Special   a row with NaN or +inf, or of nothing but -inf, gives NaN, as in PyTorch; a row that only
          begins with -inf does not
Traffic   2 loads and 1 store an element, one launch
Speed     at least 2x of the formula in PyTorch at 1024 x 131072 float32 elements

Run       pytest puzzles/04_softmax/test_online_softmax.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def online_softmax_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program goes twice over BLOCK_M rows, BLOCK_N columns at a time
    pass


def online_softmax(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check x, allocate y, choose a grid, launch
