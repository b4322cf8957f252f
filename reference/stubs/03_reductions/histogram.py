"""03.7  Histogram

Count how often each integer occurs.

    counts[b] = how many elements of x are b, for 0 <= b < bins          PyTorch: torch.bincount

Given     x (N,): int32 or int64, contiguous, N >= 1, each element from 0 to bins - 1;
          bins >= 1, which need not be a power of two
Return    counts (bins,): int32, a new tensor
New here  tl.atomic_add: an addition that no other program can interrupt; tl.histogram, counts of
          one block in registers: its number of bins is a power of two, and it takes a mask
Traffic   each element loaded once, neighbouring lanes on neighbouring elements
Speed     at least 3x the speed of torch.bincount at 64 Mi int32 elements, 256 bins

Run       pytest puzzles/03_reductions/test_histogram.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any number of dimensions, including 0; any strides, including 0
Sizes     no elements; very many; thousands of bins and more; offsets beyond 2**31 elements
Dtypes    uint8
Values    those below 0 and from bins on are not counted, int64 beyond 2**32 among them. What
          tl.histogram counts on a GPU must lie in [0, num_bins): mask the others
Raise     ValueError that names x if its dtype is another one, and bins if it is below 1.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/03_reductions/production/test_histogram.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def histogram_kernel(
    x_ptr, counts_ptr,
    N, bins,
    BINS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program counts its share of the N elements
    pass


def histogram(x: torch.Tensor, bins: int) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate zeros, choose a grid, launch
