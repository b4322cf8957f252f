"""07.2  Tiled matmul

Multiply two matrices one tile at a time, on the tensor cores.

    c[m, n] = sum_k a[m, k] * b[k, n]          PyTorch: a @ b

Given     a (M, K) and b (K, N): float16, bfloat16 or float32, both of one dtype, any strides
Return    c (M, N): dtype of a, contiguous, summed in float32 (float32 factors may round to tf32)
New here  acc = tl.dot(a, b, acc), which adds the product of two tiles (sides of 16 or more) to a
          third; a loop over K; masks on every edge that can overrun
Traffic   each element of a loaded at most ceil(N / 32) times, each of b at most ceil(M / 32) times,
          neighbouring lanes on neighbouring elements; each of c stored once, one launch
Speed     at least 0.25x the speed of a @ b at 4096 x 4096 x 4096, float16

Run       pytest puzzles/07_matmul/test_tiled.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    strides of 0, unaligned views, offsets and results beyond 2**31 elements
Sizes     M and N up to 65535 * 32, so that two axes of a grid are enough
Values    NaN and inf as in PyTorch
Raise     ValueError that names a if it is not 2-D or has another dtype,
          and b if it is not 2-D, has no K rows, or has another dtype than a.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/07_matmul/production/test_tiled.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def tiled_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes one BLOCK_M x BLOCK_N tile of c
    pass


def tiled_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate c, choose the tiles and a grid, launch
