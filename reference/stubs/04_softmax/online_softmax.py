"""04.3  Online softmax

Softmax of rows too long to keep: find the maximum and the sum in one pass, block by block.

    y[m, n] = exp(x[m, n] - max_m) / sum_n exp(x[m, n] - max_m), max_m the largest of row m
    PyTorch: torch.softmax(x, 1)

    When a block raises the maximum from a to b, multiply the sum so far by exp(a - b).
    source: Milakov, Gimelshein, "Online normalizer calculation for softmax" (2018)

Given     x (M, N): float16, bfloat16 or float32, contiguous, M and N >= 1. A row may begin with
          whole blocks of -inf, as in an attention mask
Return    y (M, N): a new tensor with the dtype of x, computed in float32
New here  a running sum that is rescaled whenever the running maximum grows
Traffic   each element loaded at most twice and stored once, neighbouring lanes on neighbouring
          elements; one launch
Speed     at least 1x the speed of the formula in PyTorch at 1024 x 131072 float32 elements

Run       pytest puzzles/04_softmax/test_online_softmax.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0
Sizes     rows and numbers of rows of any length; offsets and results beyond 2**31 elements
Values    a row with NaN or +inf, or of nothing but -inf, gives NaN, as in PyTorch
Raise     ValueError that names x if it is not 2-D or not floating point.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/04_softmax/production/test_online_softmax.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def online_softmax_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program goes over one row twice, BLOCK_N columns at a time
    pass


def online_softmax(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose BLOCK_N and a grid, launch
