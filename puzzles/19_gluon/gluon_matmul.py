"""19.4  Gluon matmul

Multiply two matrices with tensor cores that read shared memory, while TMA fetches what comes next.

    c[m, n] = sum_k a[m, k] * b[k, n]          PyTorch: a @ b

Given     a (M, K) and b (K, N): float16 or bfloat16, both of one dtype, contiguous,
          K and N multiples of 8, M of any size
Return    c (M, N): dtype of a, contiguous, summed in float32
New here  warpgroup_mma, which multiplies tiles of shared memory and need not be waited for at once;
          gl.NVMMADistributedLayout, that of its sums; fence_async_shared
Traffic   each element of a loaded at most ceil(N / 64) times, each of b at most ceil(M / 64) times,
          each of c stored once, coalesced, one launch; while one product is computed, the copies
          of another step are under way, by TMA; no thread spills registers
Speed     at least 0.3x the speed of a @ b at 4096 x 4096 x 4096, bfloat16

Run       pytest puzzles/19_gluon/test_gluon_matmul.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    rows of larger matrices
Values    infinity and NaN reach only what they belong to
Raise     ValueError that names a if it is not 2-D or has another dtype, and b if it is not 2-D, has
          no K rows, or has another dtype than a; ValueError that names an a or b that TMA cannot
          address, or b if it has so many columns that TMA cannot address c.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/19_gluon/production/test_gluon_matmul.py
"""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def gluon_matmul_kernel(
    a_desc, b_desc, c_desc,
    M, N, K,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr,
    SLOTS: gl.constexpr,
):  # fmt: skip
    # TODO: SLOTS slots for tiles of a and of b, and a barrier for each; start the copies of the
    # first steps, and then in each step: wait for its tiles, multiply them, fetch later ones
    # Add parameters as you need them.
    pass


def gluon_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    # TODO: allocate c, make three descriptors, choose a grid, launch
    raise NotImplementedError
