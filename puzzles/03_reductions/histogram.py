"""03.7  Histogram

Count how often each integer occurs.

    counts[b] = how many elements of x are b, for 0 <= b < bins          PyTorch: torch.bincount

Given     x: uint8, int32 or int64, any number of dimensions, any strides, any sizes;
          bins >= 1, which need not be a power of two
Return    counts (bins,): int32, contiguous; values below 0 and from bins on are not counted
Raise     ValueError that names x if its dtype is another one, and bins if it is below 1
New here  tl.atomic_add: an addition that no other program can interrupt; tl.histogram, counts of
          one block in registers: every value it counts must lie in [0, num_bins), mask the others
Traffic   each element loaded once
Speed     at least 0.9x of torch.bincount of what is in range, at 64 Mi int32 elements, 256 bins

Run       pytest puzzles/03_reductions/test_histogram.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def histogram_kernel(
    x_ptr, counts_ptr,
    N, bins, sizes, strides,
    BINS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program counts its share of the N elements
    pass


def histogram(x: torch.Tensor, bins: int) -> torch.Tensor:
    raise NotImplementedError  # TODO: check the inputs, allocate zeros, choose a grid, launch
