"""07.4  Batched matmul

Many products in one launch, where one factor may be shared by all.

    c[i, m, n] = sum_k a[i, m, k] * b[i, k, n]          PyTorch: a @ b

Given     a (B, M, K) and b (B, K, N): float16, bfloat16 or float32, any strides, any sizes >= 1
          either batch may be of size 1 and is then used for all B; it is not copied
Return    c (B, M, N): dtype of a, contiguous, sums in float32
Raise     ValueError that names a if it is not 3-D or has another dtype,
          and b if it is not 3-D, has no K rows, has another dtype than a, or another batch than a
          where neither is 1
New here  tensor.expand, a view that repeats a dimension of size 1 by a stride of 0, without a copy;
          the second and third axis of a grid hold 65535 programs at most
Precision float32: products in tf32 are allowed
Traffic   for each product, each element of a loaded at most ceil(N / 32) times, each of b at most
          ceil(M / 32) times; each of c stored once, one launch
Speed     at least 0.6x of a @ b at 32 products of 2048 x 2048 x 2048, float16

Run       pytest puzzles/07_matmul/test_batched.py
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
    raise NotImplementedError  # TODO: check the inputs, allocate c, choose a grid, launch
