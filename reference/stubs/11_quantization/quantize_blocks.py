"""11.2  Quantize blocks

Store a matrix in float8, with a scale for each block of it: DeepSeek-V3's format.

    scale[i, j] = max |x| / 448 over block (i, j), or 1 where that is 0
    q[m, n] = x[m, n] / scale[m // rows, n // 128], rounded to the nearest float8

    source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 3.3.2

Given     x (M, N): float16, bfloat16 or float32, contiguous; block, (rows, 128) with rows 1 or 128.
          Blocks at the edges are cut off where x ends
Return    q (M, N): torch.float8_e4m3fn; scale (ceil(M / rows), ceil(N / 128)): float32; both
          contiguous and computed in float32. Where a quotient lies within float32 noise of the
          middle between two float8 numbers, either is right
New here  tl.float8e4nv, which .to rounds to; one kernel for blocks of two shapes
Traffic   each element of x loaded once, each of q and scale stored once, coalesced, one launch
Speed     at least 2.5x the speed of the formula in PyTorch at 16384 x 4096 bfloat16, block (1, 128)

Run       pytest puzzles/11_quantization/test_quantize_blocks.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0
Sizes     offsets and results beyond 2**31 elements; more blocks than 65535
Values    the bits of PyTorch: divisions rounded to nearest (tl.div_rn), then one rounding to
          float8, ties to even; NaN or inf in a block is its scale, and q is still x / scale
Raise     ValueError that names x if it is not 2-D or not floating point, and block if it is not
          one of the two.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/11_quantization/production/test_quantize_blocks.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def quantize_blocks_kernel(
    x_ptr, q_ptr, scale_ptr,
    M, N,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    BLOCK_M: tl.constexpr,
):  # fmt: skip
    # TODO: one program quantizes BLOCK_M rows of a block column: BLOCK_M / ROWS blocks
    pass


def quantize_blocks(
    x: torch.Tensor, block: tuple[int, int] = (1, 128)
) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: allocate q and scale, choose a grid, launch
