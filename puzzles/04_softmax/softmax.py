"""04.1  Softmax

Turn each row into positive numbers whose sum is 1, without overflow.

    y[m, n] = exp(x[m, n] - max_m) / sum_n exp(x[m, n] - max_m), max_m the largest of row m
    PyTorch: torch.softmax(x, 1)

Given     x (M, N): float16, bfloat16 or float32, contiguous, M >= 1, N from 1 to 8192
Return    y (M, N): a new tensor with the dtype of x, computed in float32
New here  two reductions of a row that stays on chip; -inf as the value of masked lanes
Traffic   1 load and 1 store per element, coalesced, one launch
Speed     at least 4x the speed of the formula in PyTorch at 16384 x 4096 bfloat16 elements

Run       pytest puzzles/04_softmax/test_softmax.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0
Sizes     N up to 65536; offsets and results beyond 2**31 elements; more than 65535 rows
Values    a row with NaN or +inf, or of nothing but -inf, gives NaN, as in PyTorch;
          a row of one element gives exactly 1
Raise     ValueError that names x if it is not 2-D or not floating point, or has longer rows.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/04_softmax/production/test_softmax.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program turns one row into its softmax; the row fits into BLOCK_N lanes
    pass


def softmax(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose BLOCK_N and a grid, launch
