"""03.3  Total sum

Add up all elements of a tensor: many programs for one number, and the same bits on every run.

    y = sum of all elements of x          PyTorch: x.sum()

Given     x: float16, bfloat16 or float32, any number of dimensions, any strides, any sizes
Return    y of shape (): dtype of x, summed in float32 and rounded once; the sum of nothing is 0
Raise     ValueError that names x if it is not floating point
New here  two stages: partial sums in one launch, their sum in a second one; tuples of sizes and
          strides as kernel arguments, len(sizes) and sizes[dim] in a tl.static_range
Same bits the result does not depend on the order in which programs run: no atomic adds of floats
Traffic   each element loaded once, besides it 1 % for the partial sums; at most two launches
Speed     at least 0.9x of x.sum() at 64 Mi float32 elements

Run       pytest puzzles/03_reductions/test_total_sum.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def partial_sum_kernel(
    x_ptr, partial_ptr,
    N, sizes, strides,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program sums its share of the N elements
    pass


@triton.jit
def total_sum_kernel(
    partial_ptr, total_ptr,
    P,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program sums the P partial sums
    pass


def total_sum(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check x, allocate, choose a grid, launch both kernels
