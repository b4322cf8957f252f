"""11.1  Quantize rows

Store each row in int8, with one float32 scale that brings it back.

    scale[m] = max_n |x[m, n]| / 127, or 1 where that is 0
    q[m, n] = x[m, n] / scale[m], rounded to the nearest integer

Given     x (M, N): float16, bfloat16 or float32, contiguous or transposed, N from 1 to 65536
Return    q (M, N) int8, contiguous, and scale (M,) float32, both computed in float32; where a
          quotient lies within float32 noise of n + 1/2, either neighbour is right
New here  rounding before the cast, which truncates: libdevice.rint; a row that stays on the chip
          between its maximum and its division
Traffic   each element of x loaded once, each of q and scale stored once, one launch
Speed     at least 8x the speed of the formula in PyTorch at 16384 x 4096 bfloat16 elements

Run       pytest puzzles/11_quantization/test_quantize_rows.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0
Sizes     offsets and results beyond 2**31 elements; more than 65535 rows
Values    the bits of PyTorch: both divisions rounded to nearest (tl.div_rn), halves to even;
          a row with NaN or inf has that as its scale, and 0 in all of q
Raise     ValueError that names x if it is not 2-D or not floating point, or has longer rows.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/11_quantization/production/test_quantize_rows.py
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice  # noqa: F401


@triton.jit
def quantize_rows_kernel(
    x_ptr, q_ptr, scale_ptr,
    M, N,
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program quantizes BLOCK_M rows, each of them in one block
    pass


def quantize_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: allocate q and scale, choose a grid, launch
