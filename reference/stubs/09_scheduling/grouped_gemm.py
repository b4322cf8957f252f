"""09.4  Grouped matmul

Many products of different heights in one launch; only the GPU knows how high each is.

    c[start:end] = a[start:end] @ b[g]         for each group g of rows
    start = ends[g - 1] (0 for the first), end = ends[g]
    PyTorch: torch.nn.functional.grouped_mm(a, b, offs=ends), here also for float16 and float32

Given     a (T, K) and b (G, K, N): float16, bfloat16 or float32, both of one dtype, any strides;
          ends (G,): int32 or int64, ascending, the last is T. A group may have no rows
Return    c (T, N): dtype of a, contiguous, summed in float32 (float32 factors may round to tf32)
New here  programs that find their tiles themselves: the launcher never reads ends, since it would
          have to wait for the GPU, and launches the same grid for all of them
Traffic   at most multiprocessors(a.device) programs, the busiest with at most 1.3x the mean of the
          multiply-adds; each element of a loaded at most ceil(N / 32) times, each of b at most
          once for every 32 rows of its group, begun or whole; each of c stored once; coalesced,
          one launch
Speed     at least 2.5x the speed of a loop over the groups at T = 16384, K = N = 2048, 64 groups,
          bfloat16

Run       pytest puzzles/09_scheduling/test_grouped_gemm.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    strides of 0, unaligned views, offsets and results beyond 2**31 elements
Sizes     no rows, no columns; thousands of groups
Values    NaN and inf as in PyTorch, the whole range of float32
Raise     ValueError that names a if it is not 2-D or has another dtype,
          b if it is not 3-D, has no K rows in each group, or has another dtype than a,
          and ends if it is not (G,) or not of integers.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/09_scheduling/production/test_grouped_gemm.py
"""

import torch
import triton
import triton.language as tl


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def grouped_matmul_kernel(
    a_ptr, b_ptr, c_ptr, ends_ptr,
    N, K, G,
    stride_am, stride_ak,
    stride_bg, stride_bk, stride_bn,
    stride_ends,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: number the tiles of all groups through, and compute every one that is this program's
    pass


def grouped_matmul(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate c, choose tiles and a grid, launch
