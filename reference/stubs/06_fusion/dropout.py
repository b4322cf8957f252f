"""06.3  Dropout

Drop each element with probability p, using random numbers that are made where they are needed.

    y[i] = x[i] / (1 - p) if tl.rand(seed, i) > p else 0     PyTorch: torch.nn.functional.dropout
    source: Srivastava et al., "Dropout" (2014); Salmon et al., "Parallel random numbers" (2011)

Given     x (N,): float16, bfloat16 or float32, contiguous, N >= 1
          p: the probability of dropping, from 0 to less than 1
          seed: an integer from 0 to 2**63 - 1
Return    y (N,): a new tensor with the dtype of x; x / (1 - p) in float32, rounded once
New here  tl.rand(seed, offset), a function rather than a stream: the same seed and offset give the
          same number in every program, on every GPU, in any order
Traffic   each element of x loaded once, each of y stored once, coalesced, one launch; no mask is
          stored
Speed     at least 0.9x the speed of PyTorch's rand, comparison, division and where at 64 Mi float32
          elements

Run       pytest puzzles/06_fusion/test_dropout.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    up to 4 dimensions, including 0, and any strides, including 0; i is the number of the
          element in row-major order, whatever the strides are
Sizes     empty tensors; offsets and results beyond 2**31 elements; more than 65535 rows
Values    p = 1 gives zeros; a NaN or inf that is dropped is 0; a number equal to p drops its
          element; p may be an int, seed may be negative
Raise     ValueError that names x if it has more than 4 dimensions or another dtype,
          and p if it is outside [0, 1].
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/06_fusion/production/test_dropout.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(
    x_ptr, y_ptr,
    N,
    p, keep_share, seed,  # keep_share: 1 - p
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK elements
    pass


def dropout(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose a grid, launch
