"""15.2  Sort by expert

Put the assignments of tokens to experts in the order of the experts, each padded to whole blocks.

    Assignment t * k + j is choice j of token t. order lists the assignments of expert 0, then those
    of 1, and so on, each expert's in rising order and followed by N = T * k up to a whole block.
    PyTorch: torch.sort(experts.flatten(), stable=True).indices, but for the padding

Given     experts (T, k): int32 or int64 in [0, num_experts), contiguous;
          num_experts: int, 1 to 1024; block: 16, 32, 64 or 128
Return    order (blocks * block,), inverse (N,), block_experts (blocks,), all int32:
          order          as above; blocks that no expert needs hold N
          inverse[a]     the place of assignment a in order
          block_experts  the expert of each block of order, -1 where it is unused
          blocks = n + (N - n) // block with n = min(N, num_experts), the most that may be needed
New here  a counting sort: counts of each tile, prefix sums over tiles, ranks within a tile
Traffic   experts read at most 3 times, at most 4 launches; what kernels store for one another is
          no more than the rest
Speed     at least 0.5x the speed of PyTorch at 131072 tokens, k = 8, 64 experts, block 128

Run       pytest puzzles/15_moe/test_permute_tokens.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    any strides, including 0; offsets beyond 2**31 elements
Values    an assignment of -1 is dropped: it has no place in order, and its inverse is -1
Sizes     more experts than assignments, 1024 experts
Raise     ValueError that names experts if it is not 2-D or not int32 or int64, num_experts if it is
          below 1 or above 1024, and block if it is another number.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/15_moe/production/test_permute_tokens.py
"""

import torch
import triton
import triton.language as tl


@triton.jit
def count_kernel(
    experts_ptr, counts_ptr,
    N, E,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    # TODO: count the assignments to each expert in one tile
    # BLOCK is the length of a tile, and BLOCK_E triton.next_power_of_2(E). Add parameters as you
    # need them, here and below, such as the number of tiles.
    pass


@triton.jit
def scan_kernel(
    counts_ptr, totals_ptr,
    tiles,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: for one expert, replace the count of each tile by the sum of those before it
    pass


@triton.jit
def place_kernel(
    experts_ptr, counts_ptr, totals_ptr, order_ptr, inverse_ptr,
    N, E,
    block: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    # TODO: find the place of each assignment of one tile
    # block is the argument, and BLOCK the length of a tile.
    pass


@triton.jit
def pad_kernel(
    totals_ptr, order_ptr, block_experts_ptr,
    N, E, blocks,
    block: tl.constexpr,
    BLOCK_E: tl.constexpr,
):  # fmt: skip
    # TODO: name the expert of each block, and fill up its last block
    pass


def permute_tokens(
    experts: torch.Tensor, num_experts: int, block: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    raise NotImplementedError  # TODO: allocate, choose tiles, launch
