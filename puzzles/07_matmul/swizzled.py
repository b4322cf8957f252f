"""07.3  Swizzled matmul

The same tiles in another order, so that programs that run together share what they read.

    c[m, n] = sum_k a[m, k] * b[k, n]          PyTorch: a @ b
    source: "L2 cache optimizations" in Triton's own matrix multiplication tutorial

Given     a (M, K) and b (K, N): float16, bfloat16 or float32, both of one dtype, any strides
Return    c (M, N): dtype of a, contiguous, summed in float32 (float32 factors may round to tf32)
New here  a 1-D grid whose number is turned into a tile by a rule of your own
Tiles     32 x 32 where neither M nor N exceeds 1024, so that the order can be counted: program
          number i of a 1-D grid computes one tile. Of any size where M or N is larger
Traffic   at 32 x 32 tiles, the distinct bytes of a and b that 64 consecutive programs load,
          averaged over all such windows: at most 0.6x of row-major order. Each element of c stored
          once, one launch
Speed     at least 0.3x the speed of a @ b at 8192 x 8192 x 8192, float16

Run       pytest puzzles/07_matmul/test_swizzled.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    strides of 0, unaligned views, offsets and results beyond 2**31 elements
Sizes     as many tiles as the first axis of a grid takes
Values    the whole range of float32 and bfloat16
Raise     ValueError that names a if it is not 2-D or has another dtype,
          and b if it is not 2-D, has no K rows, or has another dtype than a.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/07_matmul/production/test_swizzled.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def swizzled_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    # TODO: find (pid_m, pid_n) from the program's number, then compute that tile
    pass


def swizzled_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate c, choose the tiles and a grid, launch
