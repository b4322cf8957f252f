"""01.3  ReLU, a kernel without its launcher

Replace the negative elements of a vector by 0. The kernel is written; what launches it is not.

    y[i] = max(x[i], 0)          PyTorch: torch.relu(x)

Given     x (N,): float16, bfloat16 or float32, contiguous, N >= 1
Return    y (N,): a new tensor with the dtype of x
New here  a launcher of your own: allocate y, choose BLOCK and the grid, launch, return y
Traffic   each element loaded once and stored once, neighbouring lanes on neighbouring
          elements, one launch, no program without elements
Speed     at least 0.3x the speed of torch.relu(x) at 64 Mi float32 elements

Run       pytest puzzles/01_pointwise/test_relu.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    views that are not aligned to 16 bytes
Sizes     N = 0; results beyond 2**31 elements
Dtypes    int32
Values    NaN and inf as in PyTorch, int32 exact
Raise     ValueError that names x if it is not 1-D or not contiguous
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/01_pointwise/production/test_relu.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(
    x_ptr, y_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    mask = offs < N
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(y_ptr + offs, tl.where(x < 0, 0, x), mask=mask)


def relu(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose BLOCK and the grid, launch, return y
