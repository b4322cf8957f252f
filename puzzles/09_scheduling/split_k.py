"""09.1  Split-K matmul

Where there are fewer tiles than multiprocessors, cut K into pieces, so that each has work.

    c[m, n] = sum_k a[m, k] * b[k, n]          PyTorch: a @ b

Given     a (M, K) and b (K, N): float16, bfloat16 or float32, both of one dtype, any strides
Return    c (M, N): dtype of a, contiguous (float32 factors may round to tf32). Sums are float32
          until all pieces are added, and the same input gives the same bits on every run
New here  several programs for one tile: each sums one piece of K into float32 memory of its own,
          and a second kernel adds the pieces in order
Pieces    enough to give every multiprocessor one, of about the same length, at least two steps
Traffic   32 x 32 x 6000 on 16 multiprocessors: at least 16 programs, the busiest with at most 1.1x
          the mean work; a and b loaded and c stored once, coalesced; at most 2 launches. If all
          multiprocessors have a tile, as at 256 x 256 x 256 on 2: one launch, a and b loaded 8
          times at most, c stored once, no other memory
Speed     at least 0.35x the speed of a @ b at 512 x 512 x 131072, bfloat16

Run       pytest puzzles/09_scheduling/test_split_k.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    strides of 0, unaligned views, offsets, pieces and results beyond 2**31 elements
Sizes     0, where the result is empty or 0
Traffic   from 64 Mi multiplications of 16-bit numbers on, a factor whose rows begin at no multiple
          of 16 bytes may be copied first, in a launch of its own
Values    NaN and inf as in PyTorch, the whole range of float32
Raise     ValueError that names a if it is not 2-D or has another dtype,
          and b if it is not 2-D, has no K rows, or has another dtype than a.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/09_scheduling/production/test_split_k.py
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
def split_k_matmul_kernel(
    a_ptr, b_ptr, parts_ptr,
    M, N, K, pieces,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: sum one piece of K for one tile, and store it where no other program stores
    pass


@triton.jit
def sum_pieces_kernel(
    parts_ptr, c_ptr,
    size, pieces,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: add up the pieces of one block of elements of c
    pass


def split_k_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate c, choose tiles and pieces, launch
