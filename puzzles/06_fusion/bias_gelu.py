"""06.2  Bias and GELU

Add a bias to each row and apply the exact GELU, in one pass.

    v = x[m, n] + bias[n],  y[m, n] = v / 2 * (1 + erf(v / sqrt(2)))
    PyTorch: torch.nn.functional.gelu(x + bias)

Given     x (M, N) and bias (N,): float16, bfloat16 or float32, any strides, any sizes >= 1
Return    y (M, N): dtype of x, contiguous, computed in float32 and rounded once
Raise     ValueError that names x if it is not 2-D or has another dtype,
          and bias if it is not (N,) of that dtype
New here  tl.erf; a vector that serves every row of a tile; work between loads and stores that is no
          longer free: count the instructions an element
Traffic   1 load and 1 store an element of x, one launch
Speed     at least 1.5x of gelu(x + bias) at 8192 x 8192, bfloat16

Run       pytest puzzles/06_fusion/test_bias_gelu.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def bias_gelu_kernel(
    x_ptr, bias_ptr, y_ptr,
    M, N,
    stride_xm, stride_xn,
    stride_bias,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes one BLOCK_M x BLOCK_N tile of y
    pass


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate y, choose a grid, launch
