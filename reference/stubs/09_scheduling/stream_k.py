"""09.2  Stream-K matmul

Give every program the same number of steps, even if its share ends in the middle of a tile.

    c[m, n] = sum_k a[m, k] * b[k, n]          PyTorch: a @ b
    source: Osama et al., "Stream-K" (PPoPP 2023)

Given     a (M, K) and b (K, N): float16, bfloat16 or float32, both of one dtype, any strides
Return    c (M, N): dtype of a, contiguous (float32 factors may round to tf32). Sums are float32
          until a tile is complete, and the same input gives the same bits on every run
New here  shares that cross the borders of tiles; a tile that any number of programs contribute to
Shares    number the steps of all tiles consecutively: of S steps, program p of P takes those from
          p * S // P up to (p + 1) * S // P. P is the number of multiprocessors, at most S. Whole
          tiles may be dealt out first, the same number to each program
Traffic   96 x 96 x 3072 on 5 and 12 multiprocessors: as many programs, the busiest with at most
          1.1x the mean work; each element of a and b loaded at most 3 times, each of c stored once,
          coalesced; partial sums at most as much again; at most 2 launches
Speed     at least 0.4x the speed of a @ b at 1536 x 3072 x 16384, bfloat16

Run       pytest puzzles/09_scheduling/test_stream_k.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    strides of 0, unaligned views, offsets and results beyond 2**31 elements
Sizes     0, where the result is empty or 0
Traffic   from 64 Mi multiplications of 16-bit numbers on, a factor whose rows begin at no multiple
          of 16 bytes may be copied first, in a launch of its own
Values    NaN and inf as in PyTorch, the whole range of float32
Raise     ValueError that names a if it is not 2-D or has another dtype,
          and b if it is not 2-D, has no K rows, or has another dtype than a.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/09_scheduling/production/test_stream_k.py
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
def stream_k_matmul_kernel(
    a_ptr, b_ptr, c_ptr, parts_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: walk through this program's share of the steps, from one tile into the next; store
    # what is a whole tile into c, and what is a part of one into a place of its own
    pass


@triton.jit
def add_parts_kernel(
    parts_ptr, c_ptr,
    M, N, K, programs,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: add the parts of a tile in the order of K, and store the sum
    pass


def stream_k_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate c and the parts, launch
