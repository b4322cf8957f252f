"""17.2  Persistent matmul

The tiles of chapter 07, dealt out to programs that stay until all tiles are done.

    c[m, n] = sum_k a[m, k] * b[k, n]          PyTorch: a @ b
    source: "Persistent Matmul" in Triton's own tutorials

Given     a (M, K) and b (K, N): float16, bfloat16 or float32, both of one dtype, any strides
Return    c (M, N): dtype of a, contiguous, summed in float32 (float32 factors may round to tf32)
New here  tiles in a loop around the loop over K; what a program must begin anew for each tile
Traffic   at most multiprocessors(a.device) programs; each element of a loaded at most ceil(N / 32)
          times, each of b at most ceil(M / 32) times; each of c stored once, coalesced, one launch
Speed     at least 0.3x the speed of a @ b at 4096 x 4096 x 4096, bfloat16

Run       pytest puzzles/17_persistent/test_persistent_matmul.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    strides of 0, unaligned views, offsets and results beyond 2**31 elements
Values    the whole range of float32; infinity and NaN reach only what they belong to
Raise     ValueError that names a if it is not 2-D or has another dtype,
          and b if it is not 2-D, has no K rows, or has another dtype than a.
Speed     at least 0.9x the speed of our solution: take the tiles in grouped order
Run       pytest puzzles/17_persistent/production/test_persistent_matmul.py
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
def persistent_matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    # TODO: compute the tile of this program's number, then the next that is its own, until the last
    # GROUP_M is that of 07.3. Add parameters as you need them.
    pass


def persistent_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate c, choose tiles and a grid, launch
