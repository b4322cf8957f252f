# fault: a block counts as used if it begins before the number of assignments
# cause: begins before N, which leaves padding out

import torch
import triton
import triton.language as tl


@triton.jit
def count_kernel(
    experts_ptr, counts_ptr,
    N, E, tiles,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    offs = tile * BLOCK + tl.arange(0, BLOCK)
    lanes = tl.arange(0, BLOCK_E)
    experts = tl.load(experts_ptr + offs, mask=offs < N, other=-1).to(tl.int32)
    table = (experts[:, None] == lanes[None, :]).to(tl.int32)
    tl.store(counts_ptr + lanes * tiles + tile, tl.sum(table, axis=0), mask=lanes < E)


@triton.jit
def scan_kernel(
    counts_ptr, totals_ptr,
    tiles,
    BLOCK: tl.constexpr,
):  # fmt: skip
    expert = tl.program_id(0)
    before = 0
    for start in range(0, tiles, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        ptrs = counts_ptr + expert * tiles + offs
        counts = tl.load(ptrs, mask=offs < tiles, other=0)
        tl.store(ptrs, before + tl.cumsum(counts, 0) - counts, mask=offs < tiles)
        before += tl.sum(counts)
    tl.store(totals_ptr + expert, before)


@triton.jit
def place_kernel(
    experts_ptr, counts_ptr, totals_ptr, order_ptr, inverse_ptr,
    N, E, tiles,
    block: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    offs = tile * BLOCK + tl.arange(0, BLOCK)
    lanes = tl.arange(0, BLOCK_E)
    totals = tl.load(totals_ptr + lanes, mask=lanes < E, other=0)
    padded = tl.cdiv(totals, block) * block
    starts = tl.cumsum(padded, 0) - padded
    before = tl.load(counts_ptr + lanes * tiles + tile, mask=lanes < E, other=0)
    experts = tl.load(experts_ptr + offs, mask=offs < N, other=-1).to(tl.int32)
    table = (experts[:, None] == lanes[None, :]).to(tl.int32)
    ranks = tl.cumsum(table, 0) - table
    places = tl.sum(table * ((starts + before)[None, :] + ranks), axis=1)
    tl.store(order_ptr + places, offs, mask=offs < N)
    tl.store(inverse_ptr + offs, places, mask=offs < N)


@triton.jit
def pad_kernel(
    totals_ptr, order_ptr, block_experts_ptr,
    N, E, blocks,
    block: tl.constexpr,
    BLOCK_E: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    lanes = tl.arange(0, BLOCK_E)
    totals = tl.load(totals_ptr + lanes, mask=lanes < E, other=0)
    padded = tl.cdiv(totals, block) * block
    ends = tl.cumsum(padded, 0)
    # The experts that end before this block are as many as its expert's number.
    expert = tl.sum(((ends <= b * block) & (lanes < E)).to(tl.int32))
    used = b * block < N
    tl.store(block_experts_ptr + b, tl.where(used, expert, -1))
    filled = tl.sum(tl.where(lanes == expert, ends - padded + totals, 0))
    places = b * block + tl.arange(0, block)
    tl.store(order_ptr + places, tl.full((block,), N, dtype=tl.int32), mask=places >= filled)


def permute_tokens(
    experts: torch.Tensor, num_experts: int, block: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    N, E = experts.numel(), num_experts
    device = experts.device
    least = min(N, E)
    blocks = least + (N - least) // block
    order = torch.empty(blocks * block, dtype=torch.int32, device=device)
    inverse = torch.empty(N, dtype=torch.int32, device=device)
    block_experts = torch.empty(blocks, dtype=torch.int32, device=device)
    BLOCK_E = triton.next_power_of_2(E)
    # At least as many assignments as experts, so that the counts are no longer than the rest.
    BLOCK = max(128, BLOCK_E)
    tiles = triton.cdiv(N, BLOCK)
    counts = torch.empty((E, tiles), dtype=torch.int32, device=device)
    totals = torch.empty(E, dtype=torch.int32, device=device)
    count_kernel[(tiles,)](experts, counts, N, E, tiles, BLOCK=BLOCK, BLOCK_E=BLOCK_E)
    scan_kernel[(E,)](counts, totals, tiles, BLOCK=256)
    place_kernel[(tiles,)](
        experts, counts, totals, order, inverse,
        N, E, tiles,
        block=block, BLOCK=BLOCK, BLOCK_E=BLOCK_E,
    )  # fmt: skip
    pad_kernel[(blocks,)](totals, order, block_experts, N, E, blocks, block=block, BLOCK_E=BLOCK_E)
    return order, inverse, block_experts
