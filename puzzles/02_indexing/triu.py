"""02.6  Upper triangle

Keep what lies on or above a diagonal, and do not even load the rest.

    y[m, n] = x[m, n] if n - m >= diagonal else 0          PyTorch: x.triu(diagonal)

Given     x (M, N): float16, bfloat16 or float32, contiguous, M and N >= 1;
          diagonal: an int; 1 is the diagonal above the main one, -1 the one below
Return    y (M, N): a new contiguous tensor with the dtype of x
New here  two masks: what is loaded and what is stored; other=, the value of lanes that load nothing
Note      x may hold NaN below the diagonal: y is 0 there all the same
Traffic   only the elements that are kept are loaded, each once; each of y stored once, one launch,
          neighbouring lanes on neighbouring elements
Speed     at least 0.5x the speed of x.triu() at 16384 x 16384 float32 elements

Run       pytest puzzles/02_indexing/test_triu.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0
Sizes     offsets and results beyond 2**31 elements; more tiles than axis 1 of a grid takes;
          any 64-bit integer as diagonal
Dtypes    any dtype but complex and float8
Values    kept bit for bit; the zeros have no sign
Raise     ValueError that names x if it is not 2-D or complex.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/02_indexing/production/test_triu.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def triu_kernel(
    x_ptr, y_ptr,
    M, N, diagonal,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program makes one BLOCK_M x BLOCK_N tile of y
    pass


def triu(x: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose the tiles and a grid, launch
