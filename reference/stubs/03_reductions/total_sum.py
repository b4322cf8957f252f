"""03.3  Total sum

Add up all elements of a tensor: many programs for one number, and the same bits on every run.

    y = sum of all elements of x          PyTorch: x.sum()

Given     x: float16, bfloat16 or float32, contiguous, of any shape with at least one element
Return    y of shape (): the dtype of x, summed in float32 and rounded once
New here  two stages: partial sums in one launch, their sum in a second one
Same bits the result does not depend on the order in which programs run: no atomic adds of floats
Traffic   each element loaded once, neighbouring lanes on neighbouring elements; besides that 1 %
          for the partial sums; at most two launches
Speed     at least 0.3x the speed of x.sum() at 64 Mi float32 elements

Run       pytest puzzles/03_reductions/test_total_sum.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any number of dimensions, including 0; any strides, including 0. Tuples of sizes and
          strides can be kernel arguments: len(sizes) and sizes[dim] work in a tl.static_range
Sizes     no elements, whose sum is 0; very many; offsets beyond 2**31 elements
Values    NaN and inf as in PyTorch
Raise     ValueError that names x if it is not floating point.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/03_reductions/production/test_total_sum.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def partial_sum_kernel(
    x_ptr, partial_ptr,
    N,
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
    raise NotImplementedError  # TODO: allocate, choose a grid, launch both kernels
