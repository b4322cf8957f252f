"""17.1  Persistent softmax

As many programs as the GPU has multiprocessors, and each makes row after row.

    y[m, n] = exp(x[m, n] - max_m) / sum_n exp(x[m, n] - max_m), max_m the largest of row m
    PyTorch: torch.softmax(x, 1)
    source: "Fused Softmax" in Triton's own tutorials

Given     x (M, N): float16, bfloat16 or float32, any strides, M >= 1, N from 1 to 65536
Return    y (M, N): dtype of x, contiguous, computed in float32
Raise     ValueError that names x if it is not 2-D, not floating point or has longer rows
New here  tl.num_programs; a loop over tiles whose next load runs while this tile is computed
Special   a row with NaN or +inf, or of nothing but -inf, gives NaN, as in PyTorch
Traffic   at most multiprocessors(x.device) programs; 1 load and 1 store an element, one launch
Speed     at least 3x of the formula in PyTorch at 16384 x 4096 bfloat16 elements

Run       pytest puzzles/17_persistent/test_persistent_softmax.py
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
    stride_xm, stride_xn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # TODO: one program makes BLOCK_M whole rows, then the next that are its own, until none is left
    pass


def persistent_softmax(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check x, allocate y, choose a grid, launch
