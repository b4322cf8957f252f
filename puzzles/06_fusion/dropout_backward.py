"""06.4  Dropout, backward

The gradient of dropout. The mask was never stored: make it again from the seed.

    dx[i] = dy[i] / (1 - p) if tl.rand(seed, i) > p else 0
    where i is the element's number in row-major order, whatever the strides are

Given     dy, up to 4-D: float16, bfloat16 or float32, any strides, not necessarily those of the x
          that went forward
          p, seed: those of the forward pass; p = 1 gives zeros
Return    dx: shape and dtype of dy, contiguous; dy / (1 - p) in float32, rounded once. A NaN or inf
          that meets a dropped element is 0
Raise     ValueError that names dy if it has more than 4 dimensions or another dtype,
          and p if it is outside [0, 1]
New here  recomputing in place of storing: arithmetic costs less than memory
Traffic   1 load and 1 store an element, one launch
Speed     at least 1.5x of PyTorch's rand, comparison, division and where at 64 Mi float32 elements

Run       pytest puzzles/06_fusion/test_dropout_backward.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_backward_kernel(
    dy_ptr, dx_ptr,
    N, size_1, size_2, size_3,
    stride_dy0, stride_dy1, stride_dy2, stride_dy3,
    p, keep_share, seed,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes BLOCK elements, counted in row-major order
    pass


def dropout_backward(dy: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate dx, choose a grid, launch
