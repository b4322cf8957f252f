"""01.3  Fused multiply-add

Multiply and add in one pass over memory, and round once.

    w = x * y + z          PyTorch: x * y + z, which makes two passes and rounds twice

Given     x, y, z of one shape, up to 4-D: float16, bfloat16 or float32, any strides
Return    w: shape and dtype of x, contiguous
Raise     ValueError that names x if it has more than 4 dimensions,
          and y or z if its shape or dtype is not that of x
New here  tl.fma; an index split into up to four coordinates with // and %; a flat view where the
          memory allows it: tensor.view(-1) copies nothing
Precision float32: one rounding, so (1 + 2**-12)**2 - (1 + 2**-11) is 2**-24 and not 0.
          float16 and bfloat16: computed in float32
Traffic   3 loads and 1 store an element, one launch
Speed     at least 1.4x of x * y + z at 64 Mi float32 elements

Run       pytest puzzles/01_pointwise/test_fma.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def fused_multiply_add_kernel(
    x_ptr, y_ptr, z_ptr, w_ptr,
    N, size_1, size_2, size_3,
    stride_x0, stride_x1, stride_x2, stride_x3,
    stride_y0, stride_y1, stride_y2, stride_y3,
    stride_z0, stride_z1, stride_z2, stride_z3,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK elements, counted in row-major order
    pass


def fused_multiply_add(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate w, choose a grid, launch
