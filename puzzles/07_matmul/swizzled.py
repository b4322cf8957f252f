"""07.3  Swizzled matmul

The same tiles in another order, so that programs that run together share what they read.

    c[m, n] = sum_k a[m, k] * b[k, n]          PyTorch: a @ b
    source: "L2 cache optimizations" in Triton's own matrix multiplication tutorial

Given     a (M, K) and b (K, N): float16, bfloat16 or float32, any strides, any sizes >= 1
Return    c (M, N): dtype of a, contiguous, sums in float32
Raise     ValueError that names a if it is not 2-D or has another dtype,
          and b if it is not 2-D, has no K rows, or has another dtype than a
New here  a 1-D grid whose number is turned into a tile by a rule of your own
Tiles     32 x 32 where neither M nor N exceeds 1024, so that the order can be counted: program
          number i of a 1-D grid computes one tile. Of any size where M or N is larger
Precision float32: products in tf32 are allowed
Traffic   at 32 x 32 tiles, the distinct bytes that 64 consecutive programs load, mean over all
          windows of 64, one from each program on: at most 0.6x of what they are in row-major order;
          each element of c stored once, one launch
Speed     at least 0.7x of a @ b at 8192 x 8192 x 8192, float16

Run       pytest puzzles/07_matmul/test_swizzled.py
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
    raise NotImplementedError  # TODO: check the inputs, allocate c, choose tiles and a grid, launch
