"""19.5  Gluon warp-specialised matmul

Multiply two matrices by three partitions: one fetches tiles, two multiply them.

    c[m, n] = sum_k a[m, k] * b[k, n]          PyTorch: a @ b

Given     a (M, K) and b (K, N): float16 or bfloat16, both of one dtype, contiguous,
          K and N multiples of 8, M of any size
Return    c (M, N): dtype of a, contiguous, summed in float32
New here  barriers on which two consumers arrive; registers that one partition leaves to another; a
          producer that runs ahead into the next tile of the same program
Traffic   at most multiprocessors(a.device) programs; each element of a loaded at most ceil(N / 64)
          times, each of b at most ceil(M / 64) times, each of c stored once, coalesced, one launch;
          while one product is computed, the copies of another step are under way, by TMA; no
          thread spills registers
Speed     at least 0.3x the speed of a @ b at 4096 x 4096 x 4096, bfloat16

Run       pytest puzzles/19_gluon/test_gluon_ws_matmul.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    rows of larger matrices
Values    infinity and NaN reach only what they belong to
Raise     ValueError that names a if it is not 2-D or has another dtype, and b if it is not 2-D, has
          no K rows, or has another dtype than a; ValueError that names an a or b that TMA cannot
          address, or b if it has so many columns that TMA cannot address c.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/19_gluon/production/test_gluon_ws_matmul.py
"""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@gluon.jit
def gluon_ws_matmul_kernel(
    a_desc, b_desc, c_desc,
    M, N, K,
    BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr,
    SLOTS: gl.constexpr,
):  # fmt: skip
    # TODO: slots and barriers, and three partitions, each with a loop over the program's tiles
    # Add parameters as you need them.
    pass


def gluon_ws_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    # TODO: allocate c, make three descriptors, choose a grid, launch
    raise NotImplementedError
