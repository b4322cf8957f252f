"""06.2  Bias and GELU

Add a bias to each row and apply the exact GELU, in one pass.

    v = x[m, n] + bias[n],  y[m, n] = v / 2 * (1 + erf(v / sqrt(2)))
    PyTorch: torch.nn.functional.gelu(x + bias)

Given     x (M, N) and bias (N,): float16, bfloat16 or float32, both of one dtype, contiguous,
          M and N >= 1
Return    y (M, N): a new tensor with the dtype of x, computed in float32 and rounded once
New here  tl.erf; one vector for every row of a tile; so much arithmetic between load and store
          that it is no longer free: count the instructions per element
Traffic   each element of x loaded once, each of y stored once, coalesced, one launch
Speed     at least 1.2x the speed of gelu(x + bias) at 8192 x 8192, bfloat16

Run       pytest puzzles/06_fusion/test_bias_gelu.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0, of x and of bias
Sizes     offsets and results beyond 2**31 elements; more tiles than 65535 along one axis
Values    NaN and inf as in PyTorch
Raise     ValueError that names x if it is not 2-D or has another dtype,
          and bias if it is not (N,) of that dtype.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/06_fusion/production/test_bias_gelu.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def bias_gelu_kernel(
    x_ptr, bias_ptr, y_ptr,
    M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes one BLOCK_M x BLOCK_N tile of y
    pass


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose a grid, launch
