"""09.5  Pruned matmul

Many configurations to choose from, and a model of the GPU that leaves a few of them to be timed.

    c[m, n] = sum_k a[m, k] * b[k, n]          PyTorch: a @ b

Given     a (M, K) and b (K, N): float16, bfloat16 or float32, both of one dtype, any strides
Return    c (M, N): dtype of a, contiguous, summed in float32 (float32 factors may round to tf32)
New here  prune_configs_by of @triton.autotune: early_config_prune, perf_model and top_k
Configs   at least 12 different ones, of which 1 to 4 are kept for any size and dtype. Each that is
          kept gives the right answer and fits: S stages take S tiles of a and of b from
          shared_memory(device), on an A100 one less
Model     time = rounds * max(BLOCK_M * BLOCK_N, 64 * (BLOCK_M + BLOCK_N)), since an element loaded
          costs some 64 multiply-adds on an H200; rounds = ceil(tiles / multiprocessors(device))
Traffic   with each that is kept: at 16 rows or columns at most 4x the multiply-adds needed; 512 x
          512 in tiles of at least 64 x 64 on 4 multiprocessors, by at least 32 programs on 64; each
          element of c stored once, one launch
Speed     at least 0.6x the speed of a @ b at 4096 x 4096 x 4096, float16,
          and at least 0.5x the speed of a @ b at 16 x 16384 x 16384, float16

Run       pytest puzzles/09_scheduling/test_pruned.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    strides of 0, unaligned views, offsets and results beyond 2**31 elements
Sizes     0, where the result is empty or 0; as many tiles as the first axis of a grid takes
Traffic   from 64 Mi multiplications of 16-bit numbers on, a factor whose rows begin at no multiple
          of 16 bytes may be copied first, in a launch of its own
Values    NaN and inf as in PyTorch, the whole range of float32
Configs   chosen anew for each M, N and K; every one kept fits a GPU of 99 KB, too
Raise     ValueError that names a if it is not 2-D or has another dtype,
          and b if it is not 2-D, has no K rows, or has another dtype than a.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/09_scheduling/production/test_pruned.py
"""

import torch
import triton
import triton.language as tl


def multiprocessors(device: torch.device) -> int:
    """How many multiprocessors the GPU has; 4 in the interpreter without a GPU."""
    if device.type != "cuda":
        return 4
    return torch.cuda.get_device_properties(device).multi_processor_count


def shared_memory(device: torch.device) -> int:
    """How many bytes of shared memory a program can have; an A100's in the interpreter."""
    if device.type != "cuda":
        return 163 * 1024
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


# TODO: @triton.autotune(configs=[...], key=["M", "N", "K"], prune_configs_by={...})
@triton.jit
def pruned_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    # TODO: the kernel of 07.6
    pass


def pruned_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate c, launch
