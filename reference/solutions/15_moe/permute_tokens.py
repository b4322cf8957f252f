"""15.2  Sort by expert: one good answer.

There are no atomics, so that every run gives the same order: counts of each tile, their running
sums for each expert, places, and padding. The rank of an assignment in its tile is a running sum of
comparisons with all experts at once. The running sums have a program for each expert.
"""

import torch
import triton
import triton.language as tl

MOST_EXPERTS = 1024
TILE = 1024
# Of assignments and experts: what one step of a program ranks.
LANES = 8192


@triton.jit
def load_experts(experts_ptr, offs, N, k, stride_t, stride_k):
    """Return the experts of assignments, int32, -1 past the last."""
    # Assignments are int32 as in the results, and are divided as such; int64 would take longer.
    ptrs = experts_ptr + (offs // k).to(tl.int64) * stride_t + (offs % k).to(tl.int64) * stride_k
    return tl.load(ptrs, mask=offs < N, other=-1).to(tl.int32)


@triton.jit
def count_kernel(
    experts_ptr, counts_ptr,
    N, E, k, tiles,
    stride_t, stride_k,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    offs = tile * BLOCK + tl.arange(0, BLOCK)
    experts = load_experts(experts_ptr, offs, N, k, stride_t, stride_k)
    counts = tl.histogram(tl.maximum(experts, 0), BLOCK_E, mask=experts >= 0)
    offs_e = tl.arange(0, BLOCK_E)
    tl.store(counts_ptr + offs_e * tiles + tile, counts, mask=offs_e < E)


@triton.jit
def scan_kernel(
    counts_ptr, totals_ptr,
    tiles,
    BLOCK: tl.constexpr,
):  # fmt: skip
    expert = tl.program_id(0)
    total = tl.zeros((), tl.int32)
    for start in range(0, tiles, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        ptrs = counts_ptr + expert * tiles + offs
        counts = tl.load(ptrs, mask=offs < tiles, other=0)
        tl.store(ptrs, total + tl.cumsum(counts, axis=0) - counts, mask=offs < tiles)
        total += tl.sum(counts, axis=0)
    tl.store(totals_ptr + expert, total)


@triton.jit
def load_starts(totals_ptr, offs_e, E, block: tl.constexpr):
    """Return the total and the first place of each expert."""
    totals = tl.load(totals_ptr + offs_e, mask=offs_e < E, other=0)
    padded = tl.cdiv(totals, block) * block
    return totals, tl.cumsum(padded, axis=0) - padded


@triton.jit
def place_kernel(
    experts_ptr, counts_ptr, totals_ptr, order_ptr, inverse_ptr,
    N, E, k, tiles,
    stride_t, stride_k,
    block: tl.constexpr,
    BLOCK: tl.constexpr, STEP: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    offs_e = tl.arange(0, BLOCK_E)
    _, starts = load_starts(totals_ptr, offs_e, E, block)
    before = tl.load(counts_ptr + offs_e * tiles + tile, mask=offs_e < E, other=0)
    following = starts + before  # the next free place of each expert
    for step in range(0, BLOCK, STEP):
        offs = tile * BLOCK + step + tl.arange(0, STEP)
        experts = load_experts(experts_ptr, offs, N, k, stride_t, stride_k)
        mine = (experts[:, None] == offs_e[None, :]).to(tl.int32)  # [STEP, BLOCK_E]
        rank = tl.cumsum(mine, axis=0) - 1
        place = tl.sum(mine * (following[None, :] + rank), axis=1)
        tl.store(order_ptr + place, offs, mask=experts >= 0)
        tl.store(inverse_ptr + offs, tl.where(experts >= 0, place, -1), mask=offs < N)
        following += tl.sum(mine, axis=0)


@triton.jit
def pad_kernel(
    totals_ptr, order_ptr, block_experts_ptr,
    N, E, blocks,
    block: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_B: tl.constexpr,
):  # fmt: skip
    offs_b = tl.program_id(0) * BLOCK_B + tl.arange(0, BLOCK_B)
    offs_e = tl.arange(0, BLOCK_E)
    totals, starts = load_starts(totals_ptr, offs_e, E, block)
    ends = starts + tl.cdiv(totals, block) * block
    over = (ends[None, :] <= offs_b[:, None] * block) & (offs_e < E)[None, :]
    owner = tl.sum(over.to(tl.int32), axis=1)  # E where no expert is left
    tl.store(block_experts_ptr + offs_b, tl.where(owner < E, owner, -1), mask=offs_b < blocks)
    mine = owner[:, None] == offs_e[None, :]
    last = tl.sum(tl.where(mine, (starts + totals)[None, :], 0), axis=1)
    places = offs_b[:, None] * block + tl.arange(0, block)[None, :]
    padding = (places >= last[:, None]) & (offs_b < blocks)[:, None]
    tl.store(order_ptr + places, N, mask=padding)


def permute_tokens(
    experts: torch.Tensor, num_experts: int, block: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if experts.dim() != 2 or experts.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"experts must be 2-D, int32 or int64, not {experts.dtype} {tuple(experts.shape)}"
        )
    if not 1 <= num_experts <= MOST_EXPERTS:
        raise ValueError(f"num_experts must be from 1 to {MOST_EXPERTS}, not {num_experts}")
    if block not in (16, 32, 64, 128):
        raise ValueError(f"block must be 16, 32, 64 or 128, not {block}")
    N, k, E = experts.numel(), experts.shape[1], num_experts
    least = min(N, E)
    blocks = least + (N - least) // block
    tiles = triton.cdiv(N, TILE)
    BLOCK_E = triton.next_power_of_2(E)
    order, inverse, block_experts, counts, totals = (
        torch.empty(size, dtype=torch.int32, device=experts.device)
        for size in (blocks * block, N, blocks, E * tiles, E)
    )
    sizes = N, E, k, tiles, *experts.stride()
    count_kernel[(tiles,)](experts, counts, *sizes, BLOCK=TILE, BLOCK_E=BLOCK_E)
    scan_kernel[(E,)](counts, totals, tiles, BLOCK=1024)
    place_kernel[(tiles,)](
        experts, counts, totals, order, inverse, *sizes, block,
        BLOCK=TILE, STEP=min(TILE, max(16, LANES // BLOCK_E)), BLOCK_E=BLOCK_E,
    )  # fmt: skip
    pad_kernel[(triton.cdiv(blocks, 16),)](
        totals, order, block_experts, N, E, blocks, block, BLOCK_E=BLOCK_E, BLOCK_B=16
    )
    return order, inverse, block_experts
