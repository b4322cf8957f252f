"""09.3  Gram matrix

A result that is symmetric: compute one half of its tiles, and store each twice.

    c[m, n] = sum_k a[m, k] * a[n, k]          PyTorch: a @ a.T

Given     a (M, K): float16, bfloat16 or float32, any strides
Return    c (M, M): dtype of a, contiguous, summed in float32 (float32 factors may round to tf32),
          and symmetric to the last bit: c[m, n] and c[n, m] are one sum
New here  a grid that has the shape of a triangle; a tile stored as it is and transposed
Traffic   M = 1024: tl.dot does at most 0.65x of the multiply-adds of a @ a.T, no program is
          idle, each element of a is loaded at most M / 32 + 1 times, each of c is stored once, and
          neighbouring lanes store neighbouring elements; one launch
Speed     at least 0.8x the speed of a @ a.T at 8192 x 8192, bfloat16

Run       pytest puzzles/09_scheduling/test_triangular.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    strides of 0, unaligned views, offsets and results beyond 2**31 elements
Sizes     0, where the result is empty or 0
Traffic   from 64 Mi multiplications of 16-bit numbers on, a factor whose rows begin at no multiple
          of 16 bytes may be copied first, in a launch of its own
Values    NaN and inf as in PyTorch, the whole range of float32
Raise     ValueError that names a if it is not 2-D or has another dtype.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/09_scheduling/production/test_triangular.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gram_matrix_kernel(
    a_ptr, c_ptr,
    M, K,
    stride_am, stride_ak,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: turn the program's number into a tile on or below the diagonal, compute it, and store it
    # in both of its places
    pass


def gram_matrix(a: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate c, count the tiles, launch
