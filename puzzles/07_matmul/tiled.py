"""07.2  Tiled matmul

Multiply two matrices one tile at a time, on the tensor cores.

    c[m, n] = sum_k a[m, k] * b[k, n]          PyTorch: a @ b

Given     a (M, K) and b (K, N): float16, bfloat16 or float32, any strides, any sizes >= 1,
          M and N up to 65535 * 32
Return    c (M, N): dtype of a, contiguous, sums in float32
Raise     ValueError that names a if it is not 2-D or has another dtype,
          and b if it is not 2-D, has no K rows, or has another dtype than a
New here  tl.dot, which adds the product of two tiles to a third: acc = tl.dot(a, b, acc). Its inner
          side must be 16 or more, and the others should be; a loop over K; masks on every edge that
          can overrun
Precision float32: products in tf32, NVIDIA's default of tl.dot, are allowed
Traffic   each element of a loaded at most ceil(N / 32) times, each of b at most ceil(M / 32) times,
          each of c stored once, one launch
Speed     at least 0.6x of a @ b at 4096 x 4096 x 4096, float16

Run       pytest puzzles/07_matmul/test_tiled.py
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
    raise NotImplementedError  # TODO: check the inputs, allocate c, choose a grid, launch
