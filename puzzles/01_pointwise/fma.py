"""01.5  Fused multiply-add

Multiply and add in one pass over memory, and round once.

    w = x * y + z          PyTorch: x * y + z, which makes two passes and rounds twice

Given     x, y, z (N,): float16, bfloat16 or float32, all of one dtype, contiguous, N >= 1
Return    w (N,): a new tensor with the dtype of x
New here  tl.fma, which rounds once; arithmetic in float32 whatever the dtype in memory
Precision float32: one rounding, so (1 + 2**-12)**2 - (1 + 2**-11) is 2**-24 and not 0.
          float16 and bfloat16: computed in float32, rounded once more at the end
Traffic   3 loads and 1 store per element, neighbouring lanes on neighbouring elements, one launch
Speed     at least 0.5x the speed of x * y + z at 64 Mi float32 elements

Run       pytest puzzles/01_pointwise/test_fma.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    up to 4 dimensions with any strides, including 0; w is contiguous
Sizes     no elements; offsets and results beyond 2**31 elements
Raise     ValueError that names x if it has more than 4 dimensions,
          and y or z if its shape or dtype is not that of x.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/01_pointwise/production/test_fma.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def fused_multiply_add_kernel(
    x_ptr, y_ptr, z_ptr, w_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK elements
    pass


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate w, choose a grid, launch
