"""02.4  Embedding

Gather rows of a table: addresses that come from memory, and must be checked before they are used.

    out[..., d] = table[indices[...], d]          PyTorch: table[indices]

Given     table (V, D): any dtype but complex and float8, any strides, any sizes >= 1;
          indices: int32 or int64, any shape, any strides
Return    out (*indices.shape, D): dtype of table, contiguous
Raise     ValueError that names table if it is not 2-D or complex,
          and indices if they are neither int32 nor int64;
          IndexError that names indices if one is negative, or V or more
New here  a load whose pointers depend on another load; an answer from the kernel to the launcher:
          a flag in memory, set with tl.atomic_max and read with flag.item(); tuples of sizes and
          strides as arguments, taken apart in tl.static_range(len(sizes) - 1, -1, -1)
Note      no row outside the table may be loaded, also not when an exception follows
Traffic   a row is loaded once for each use, each element of out stored once; at most 2 launches
Speed     at least 0.9x of table[indices] at 524288 rows out of 65536 x 2048 float16 elements

Run       pytest puzzles/02_indexing/test_embedding.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def embedding_kernel(
    table_ptr, indices_ptr, out_ptr, flag_ptr,
    V, D, N, sizes,
    stride_tv, stride_td, strides,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # TODO: one program gathers BLOCK_D columns for BLOCK_M indices, counted in row-major order
    pass


def embedding(table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError  # TODO: check, allocate out and the flag, launch, read the flag
