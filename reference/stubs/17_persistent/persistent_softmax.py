"""17.1  Persistent softmax

As many programs as stay on the GPU together, and each takes row after row.

    y[m, n] = exp(x[m, n] - max_m) / sum_n exp(x[m, n] - max_m), max_m the largest of row m
    PyTorch: torch.softmax(x, 1)
    source: "Fused Softmax" in Triton's own tutorials

Given     x (M, N): float16, bfloat16 or float32, contiguous, M >= 1, N from 1 to 8192
Return    y (M, N): a new tensor with the dtype of x, computed in float32
New here  tl.num_programs; a loop over tiles whose next load runs while this tile is computed
Traffic   at most 8 multiprocessors(x.device) programs, since small ones share a multiprocessor;
          1 load and 1 store per element, coalesced, one launch
Speed     at least 4x the speed of the formula in PyTorch at 16384 x 4096 bfloat16 elements

Run       pytest puzzles/17_persistent/test_persistent_softmax.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; unaligned views
Sizes     N up to 65536; offsets and results beyond 2**31 elements
Values    a row with NaN or +inf, or of nothing but -inf, gives NaN, as in PyTorch
Raise     ValueError that names x if it is not 2-D or not floating point, or has longer rows.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/17_persistent/production/test_persistent_softmax.py
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
def persistent_softmax_kernel(
    x_ptr, y_ptr,
    M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program takes BLOCK_M whole rows, then the next of its own, until none is left
    # BLOCK_N is triton.next_power_of_2(N). Add parameters as you need them.
    pass


def persistent_softmax(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate y, choose a grid, launch
