# fault: the filled part of a full last block is taken as count % block, which is 0
# cause: which is 0 where it is full

import torch
import triton
import triton.language as tl


@triton.jit
def count_kernel(
    experts_ptr, counts_ptr,
    N, E, tiles,
    BLOCK: tl.constexpr, SUB: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    lanes = tl.arange(0, BLOCK_E)
    counts = tl.zeros((BLOCK_E,), dtype=tl.int32)
    first = tile * BLOCK
    for start in range(first, tl.minimum(first + BLOCK, N), SUB):
        a = start + tl.arange(0, SUB)
        e = tl.load(experts_ptr + a, mask=a < N, other=-1).to(tl.int32)
        counts += tl.sum((e[:, None] == lanes[None, :]).to(tl.int32), 0)
    tl.store(counts_ptr + lanes * tiles + tile, counts, mask=lanes < E)


@triton.jit
def scan_kernel(
    counts_ptr, totals_ptr,
    tiles,
    BLOCK: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(0)
    before = tl.zeros((), dtype=tl.int32)
    for start in range(0, tiles, BLOCK):
        tile = start + tl.arange(0, BLOCK)
        mask = tile < tiles
        counts = tl.load(counts_ptr + e * tiles + tile, mask=mask, other=0)
        sums = before + tl.cumsum(counts, 0) - counts
        tl.store(counts_ptr + e * tiles + tile, sums, mask=mask)
        before += tl.sum(counts, 0)
    tl.store(totals_ptr + e, before)


@triton.jit
def place_kernel(
    experts_ptr, counts_ptr, totals_ptr, order_ptr, inverse_ptr,
    N, E, tiles,
    block: tl.constexpr,
    BLOCK: tl.constexpr, SUB: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    lanes = tl.arange(0, BLOCK_E)
    totals = tl.load(totals_ptr + lanes, mask=lanes < E, other=0)
    padded = (totals + block - 1) // block * block
    begins = tl.cumsum(padded, 0) - padded
    next_place = begins + tl.load(counts_ptr + lanes * tiles + tile, mask=lanes < E, other=0)

    first = tile * BLOCK
    for start in range(first, tl.minimum(first + BLOCK, N), SUB):
        a = start + tl.arange(0, SUB)
        mask = a < N
        e = tl.load(experts_ptr + a, mask=mask, other=-1).to(tl.int32)
        table = (e[:, None] == lanes[None, :]).to(tl.int32)
        ranks = tl.cumsum(table, 0) - 1
        place = tl.sum(table * (ranks + next_place[None, :]), 1)
        tl.store(order_ptr + place, a, mask=mask)
        tl.store(inverse_ptr + a, place, mask=mask)
        next_place += tl.sum(table, 0)


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
    used = (totals + block - 1) // block
    ends = tl.cumsum(used, 0)
    is_mine = (ends - used <= b) & (b < ends)
    is_used = tl.sum(is_mine.to(tl.int32), 0) > 0
    expert = tl.where(is_used, tl.sum(tl.where(is_mine, lanes, 0), 0), -1)
    tl.store(block_experts_ptr + b, expert)

    total = tl.sum(tl.where(is_mine, totals, 0), 0)
    end = tl.sum(tl.where(is_mine, ends, 0), 0)
    filled = tl.where(is_used, tl.where(b == end - 1, total % block, block), 0)
    rows = tl.arange(0, block)
    tl.store(order_ptr + b * block + rows, N, mask=rows >= filled)


def permute_tokens(
    experts: torch.Tensor, num_experts: int, block: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    N, E = experts.numel(), num_experts
    n = min(N, E)
    blocks = n + (N - n) // block
    order = torch.empty((blocks * block,), dtype=torch.int32, device=experts.device)
    inverse = torch.empty((N,), dtype=torch.int32, device=experts.device)
    block_experts = torch.empty((blocks,), dtype=torch.int32, device=experts.device)

    BLOCK_E = triton.next_power_of_2(E)
    SUB = max(16, min(128, 8192 // BLOCK_E))
    BLOCK = max(1024, 4 * BLOCK_E)
    tiles = triton.cdiv(N, BLOCK)
    counts = torch.empty((E, tiles), dtype=torch.int32, device=experts.device)
    totals = torch.empty((E,), dtype=torch.int32, device=experts.device)
    count_kernel[(tiles,)](experts, counts, N, E, tiles, BLOCK=BLOCK, SUB=SUB, BLOCK_E=BLOCK_E)
    scan_kernel[(E,)](counts, totals, tiles, BLOCK=256)
    place_kernel[(tiles,)](
        experts, counts, totals, order, inverse,
        N, E, tiles,
        block=block, BLOCK=BLOCK, SUB=SUB, BLOCK_E=BLOCK_E,
    )  # fmt: skip
    pad_kernel[(blocks,)](totals, order, block_experts, N, E, blocks, block=block, BLOCK_E=BLOCK_E)
    return order, inverse, block_experts
