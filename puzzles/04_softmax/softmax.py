"""04.1  Softmax

Turn each row into positive numbers whose sum is 1, without overflow.

    y[m, n] = exp(x[m, n] - max_m) / sum_n exp(x[m, n] - max_m), max_m the largest of row m
    PyTorch: torch.softmax(x, 1)

Given     x (M, N): float16, bfloat16 or float32, any strides, M >= 1, N from 1 to 65536
Return    y (M, N): dtype of x, contiguous, computed in float32
Raise     ValueError that names x if it is not 2-D, not floating point or has longer rows
New here  two reductions of a row that stays on chip; -inf as the value of masked lanes
Special   a row with NaN or +inf, or of nothing but -inf, gives NaN, as in PyTorch
Traffic   1 load and 1 store an element, one launch
Speed     at least 3x of the formula in PyTorch at 16384 x 4096 bfloat16 elements

Run       pytest puzzles/04_softmax/test_softmax.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(
    x_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program makes BLOCK_M whole rows; a row fits into BLOCK_N lanes
    pass


def softmax(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check x, allocate y, choose a grid, launch
