# fault: the program of a block that no expert needs returns before it fills it
# cause: what is missing is in its tile: it returns at
# never: loop over tiles
import torch
import triton
import triton.language as tl


@triton.jit
def count_kernel(
    experts_ptr, counts_ptr,
    N, E, tiles,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr, SUB: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    cols = tl.arange(0, BLOCK_E)
    counts = tl.zeros([BLOCK_E], tl.int32)
    for start in range(0, BLOCK, SUB):
        a = tile * BLOCK + start + tl.arange(0, SUB)
        e = tl.load(experts_ptr + a, mask=a < N, other=-1).to(tl.int32)
        counts += tl.sum((e[:, None] == cols[None, :]).to(tl.int32), 0)
    tl.store(counts_ptr + cols * tiles + tile, counts, mask=cols < E)


@triton.jit
def scan_kernel(
    counts_ptr, totals_ptr,
    tiles,
    BLOCK: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(0)
    carry = 0
    for start in range(0, tiles, BLOCK):
        tile = start + tl.arange(0, BLOCK)
        counts = tl.load(counts_ptr + e * tiles + tile, mask=tile < tiles, other=0)
        before = tl.cumsum(counts, 0) - counts + carry
        tl.store(counts_ptr + e * tiles + tile, before, mask=tile < tiles)
        carry += tl.sum(counts, 0)
    tl.store(totals_ptr + e, carry)


@triton.jit
def place_kernel(
    experts_ptr, counts_ptr, totals_ptr, order_ptr, inverse_ptr,
    N, E, tiles,
    block: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr, SUB: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    cols = tl.arange(0, BLOCK_E)
    totals = tl.load(totals_ptr + cols, mask=cols < E, other=0)
    padded = (totals + block - 1) // block * block
    first = tl.cumsum(padded, 0) - padded
    # the place of the next assignment of each expert
    place = first + tl.load(counts_ptr + cols * tiles + tile, mask=cols < E, other=0)
    for start in range(0, BLOCK, SUB):
        a = tile * BLOCK + start + tl.arange(0, SUB)
        e = tl.load(experts_ptr + a, mask=a < N, other=-1).to(tl.int32)
        mine = (e[:, None] == cols[None, :]).to(tl.int32)
        rank = tl.cumsum(mine, 0) - mine
        where = tl.sum(mine * (place[None, :] + rank), 1)
        tl.store(order_ptr + where, a, mask=a < N)
        tl.store(inverse_ptr + a, where, mask=a < N)
        place += tl.sum(mine, 0)


@triton.jit
def pad_kernel(
    totals_ptr, order_ptr, block_experts_ptr,
    N, E, blocks,
    block: tl.constexpr,
    BLOCK_E: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0)
    cols = tl.arange(0, BLOCK_E)
    totals = tl.load(totals_ptr + cols, mask=cols < E, other=0)
    padded = (totals + block - 1) // block * block
    ends = tl.cumsum(padded, 0)
    places = i * block + tl.arange(0, block)
    if i * block >= tl.sum(padded, 0):
        # no expert needs this block
        tl.store(block_experts_ptr + i, -1)
        return
    e = tl.sum((ends <= i * block).to(tl.int32), 0)
    last = tl.sum(tl.where(cols == e, ends - padded + totals, 0), 0)
    tl.store(block_experts_ptr + i, e)
    tl.store(order_ptr + places, tl.zeros([block], tl.int32) + N, mask=places >= last)


def permute_tokens(
    experts: torch.Tensor, num_experts: int, block: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    N, E = experts.numel(), num_experts
    n = min(N, E)
    blocks = n + (N - n) // block
    device = experts.device
    order = torch.empty(blocks * block, dtype=torch.int32, device=device)
    inverse = torch.empty(N, dtype=torch.int32, device=device)
    block_experts = torch.empty(blocks, dtype=torch.int32, device=device)
    BLOCK_E = triton.next_power_of_2(E)
    BLOCK = max(1024, BLOCK_E)
    SUB = max(16, min(128, 8192 // BLOCK_E))
    tiles = triton.cdiv(N, BLOCK)
    counts = torch.empty((E, tiles), dtype=torch.int32, device=device)
    totals = torch.empty(E, dtype=torch.int32, device=device)
    count_kernel[(tiles,)](experts, counts, N, E, tiles, BLOCK=BLOCK, BLOCK_E=BLOCK_E, SUB=SUB)
    scan_kernel[(E,)](counts, totals, tiles, BLOCK=256)
    place_kernel[(tiles,)](
        experts, counts, totals, order, inverse, N, E, tiles,
        block=block, BLOCK=BLOCK, BLOCK_E=BLOCK_E, SUB=SUB,
    )  # fmt: skip
    pad_kernel[(blocks,)](totals, order, block_experts, N, E, blocks, block=block, BLOCK_E=BLOCK_E)
    return order, inverse, block_experts
