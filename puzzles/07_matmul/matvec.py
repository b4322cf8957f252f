"""07.1  Matrix times vector

Multiply a matrix by a vector: every element of the matrix is used once, so memory decides.

    y[m] = sum_k a[m, k] * x[k]          PyTorch: a @ x

Given     a (M, K) and x (K,): float16, bfloat16 or float32, both of one dtype, any strides
Return    y (M,): dtype of a, contiguous, products and sums in float32
New here  a tile of partial sums that is carried through the loop and reduced once, at its end
Traffic   each element of a loaded once, by lanes that lie side by side in memory; each of y stored
          once, one launch
Speed     at least 0.3x the speed of a @ x at 16384 x 16384, bfloat16

Run       pytest puzzles/07_matmul/test_matvec.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    strides of 0, unaligned views, offsets beyond 2**31 elements
Sizes     any M that the first axis of a grid takes
Values    NaN and inf as in PyTorch
Traffic   neighbouring lanes read neighbours of a transposed a too
Raise     ValueError that names a if it is not 2-D or has another dtype,
          and x if it is not 1-D, has no K elements, or has another dtype than a.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/07_matmul/production/test_matvec.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def matvec_kernel(
    a_ptr, x_ptr, y_ptr,
    M, K,
    stride_am, stride_ak,
    stride_x,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK_M elements of y, in steps of BLOCK_K columns of a
    pass


def matvec(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose a tile, launch
