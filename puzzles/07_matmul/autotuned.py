"""07.6  Autotuned matmul

Let the machine choose the tiles: several configurations, timed once for each problem size.

    c[m, n] = sum_k a[m, k] * b[k, n]          PyTorch: a @ b

Given     a (M, K) and b (K, N): float16, bfloat16 or float32, both of one dtype, any strides
Return    c (M, N): dtype of a, contiguous, summed in float32 (float32 factors may round to tf32)
New here  @triton.autotune and triton.Config; a grid that is a function of the configuration that
          was chosen; num_warps and num_stages
Configs   at least 4. Every one of them gives the right answer at every size: the tests run each,
          not only the fastest
Traffic   each element of c stored once, one launch
Speed     at least 0.3x the speed of a @ b at 4096 x 4096 x 4096, float16

Run       pytest puzzles/07_matmul/test_autotuned.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    strides of 0, unaligned views, offsets and results beyond 2**31 elements
Sizes     as many tiles as the first axis of a grid takes
Values    the whole range of float32 and bfloat16
Configs   chosen anew for each M, N and K; every one fits the shared memory of an A100 and an H100,
          with float32 too
Raise     ValueError that names a if it is not 2-D or has another dtype,
          and b if it is not 2-D, has no K rows, or has another dtype than a.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/07_matmul/production/test_autotuned.py
"""

import torch
import triton
import triton.language as tl


# TODO: @triton.autotune(configs=[...], key=["M", "N", "K"])
@triton.jit
def autotuned_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    # TODO: the swizzled kernel; the constants come from the configuration
    pass


def autotuned_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate c, launch
