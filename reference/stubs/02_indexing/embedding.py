"""02.4  Embedding

Gather rows of a table: addresses that come from memory.

    out[..., d] = table[indices[...], d]          PyTorch: table[indices]

Given     table (V, D): float16, bfloat16 or float32, contiguous, V and D >= 1;
          indices: int32 or int64, any shape, contiguous, at least one, all in [0, V)
Return    out (*indices.shape, D): a new contiguous tensor with the dtype of table
New here  a load whose pointers depend on another load: a column of row numbers from memory, and a
          row of column numbers, make a tile of pointers
Traffic   a row is loaded once for each use, neighbouring lanes on neighbouring elements,
          each element of out stored once; at most 2 launches
Speed     at least 0.3x the speed of table[indices] at 524288 rows out of 65536 x 2048 float16
          elements

Run       pytest puzzles/02_indexing/test_embedding.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides of table and indices, including 0, and indices of any number of dimensions,
          including 0: tuples of sizes and strides as arguments
Sizes     no indices; offsets and results beyond 2**31 elements; more blocks than axis 1 takes
Dtypes    tables of any dtype but complex and float8
Values    copied bit for bit, NaN and inf too
Raise     IndexError that names indices if one is negative, or V or more; no row outside the table
          may be loaded first. The kernel says so through a flag in memory, set with tl.atomic_max
          and read with flag.item().
          ValueError that names table if it is not 2-D or complex, and indices if they are neither
          int32 nor int64.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/02_indexing/production/test_embedding.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def embedding_kernel(
    table_ptr, indices_ptr, out_ptr,
    D, N,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # TODO: one program gathers BLOCK_D columns for BLOCK_M of the N indices
    pass


def embedding(table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: allocate out, choose the tiles and a grid, launch
