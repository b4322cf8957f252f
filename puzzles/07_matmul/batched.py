"""07.4  Batched matmul

Many products in one launch, where one factor may be shared by all.

    c[i, m, n] = sum_k a[i, m, k] * b[i, k, n]          PyTorch: a @ b

Given     a (B, M, K) and b (B, K, N): float16, bfloat16 or float32, both of one dtype, any strides;
          either batch may be of size 1 and is then used for all B, without a copy
Return    c (B, M, N): dtype of a, contiguous, summed in float32 (float32 may round to tf32)
New here  tensor.expand, a view that repeats a dimension of size 1 by a stride of 0, without a copy;
          a grid over products and tiles
Traffic   for each product, each element of a loaded at most ceil(N / 32) times, each of b at most
          ceil(M / 32) times, neighbouring lanes on neighbouring elements; each of c stored once,
          one launch
Speed     at least 0.3x the speed of a @ b at 32 products of 2048 x 2048 x 2048, float16

Run       pytest puzzles/07_matmul/test_batched.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    strides of 0, unaligned views, offsets and results beyond 2**31 elements
Sizes     65536 products, and as many tiles as the first axis of a grid takes: the second and
          third hold 65535 programs at most
Traffic   from 64 Mi multiplications of 16-bit numbers on, a factor whose rows begin at no multiple
          of 16 bytes may be copied first, in a launch of its own
Values    NaN and inf, each in its own product; the whole range of float32 and bfloat16
Raise     ValueError that names a if it is not 3-D or has another dtype,
          and b if it is not 3-D, has no K rows, has another dtype than a, or another batch than a
          where neither is 1.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/07_matmul/production/test_batched.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def batched_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_ab, stride_am, stride_ak,
    stride_bb, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: one program computes one tile of one product
    pass


def batched_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate c, choose a grid, launch
