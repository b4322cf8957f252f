# fault: the scan's carry is replaced by the last 16 tiles' sum, so later tiles begin too early
# cause: what that gave leads both programs to one element
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
    a = tile * BLOCK + tl.arange(0, BLOCK)
    e = tl.arange(0, BLOCK_E)
    expert = tl.load(experts_ptr + a, mask=a < N, other=-1).to(tl.int32)
    count = tl.sum((expert[:, None] == e[None, :]).to(tl.int32), axis=0)
    tl.store(counts_ptr + e * tiles + tile, count, mask=e < E)


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
        at = counts_ptr + e * tiles + tile
        count = tl.load(at, mask=tile < tiles, other=0)
        tl.store(at, carry + tl.cumsum(count, axis=0) - count, mask=tile < tiles)
        carry = tl.sum(count, axis=0)
    tl.store(totals_ptr + e, carry)


@triton.jit
def place_kernel(
    experts_ptr, counts_ptr, totals_ptr, order_ptr, inverse_ptr,
    N, E, tiles,
    block: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    a = tile * BLOCK + tl.arange(0, BLOCK)
    e = tl.arange(0, BLOCK_E)
    total = tl.load(totals_ptr + e, mask=e < E, other=0)
    padded = tl.cdiv(total, block) * block
    begin = tl.cumsum(padded, axis=0) - padded
    before = tl.load(counts_ptr + e * tiles + tile, mask=e < E, other=0)

    expert = tl.load(experts_ptr + a, mask=a < N, other=-1).to(tl.int32)
    mine = (expert[:, None] == e[None, :]).to(tl.int32)
    rank = tl.cumsum(mine, axis=0) - 1
    place = tl.sum(mine * (begin + before + rank), axis=1)
    tl.store(order_ptr + place, a, mask=a < N)
    tl.store(inverse_ptr + a, place, mask=a < N)


@triton.jit
def pad_kernel(
    totals_ptr, order_ptr, block_experts_ptr,
    N, E, blocks,
    block: tl.constexpr,
    BLOCK_E: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0)
    e = tl.arange(0, BLOCK_E)
    total = tl.load(totals_ptr + e, mask=e < E, other=0)
    needed = tl.cdiv(total, block)
    ends = tl.cumsum(needed, axis=0)
    used = i < tl.sum(needed, axis=0)
    expert = tl.sum((ends <= i).to(tl.int32), axis=0)  # so many end at or before this block
    first = tl.sum(tl.where(e == expert, ends - needed, 0), axis=0)
    here = tl.sum(tl.where(e == expert, total, 0), axis=0) - (i - first) * block
    here = tl.where(used, here, 0)
    row = tl.arange(0, block)
    tl.store(order_ptr + i * block + row, tl.full((block,), N, tl.int32), mask=row >= here)
    tl.store(block_experts_ptr + i, tl.where(used, expert, -1))


def permute_tokens(
    experts: torch.Tensor, num_experts: int, block: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    N = experts.numel()
    n = min(N, num_experts)
    blocks = n + (N - n) // block
    BLOCK_E = triton.next_power_of_2(num_experts)
    BLOCK = max(128, BLOCK_E // 4)
    tiles = triton.cdiv(N, BLOCK)

    def empty(*shape):
        return torch.empty(shape, dtype=torch.int32, device=experts.device)

    order, inverse, block_experts = empty(blocks * block), empty(N), empty(blocks)
    counts, totals = empty(num_experts, tiles), empty(num_experts)
    count_kernel[(tiles,)](experts, counts, N, num_experts, tiles, BLOCK=BLOCK, BLOCK_E=BLOCK_E)
    scan_kernel[(num_experts,)](counts, totals, tiles, BLOCK=16, num_warps=1)
    place_kernel[(tiles,)](
        experts, counts, totals, order, inverse, N, num_experts, tiles,
        block=block, BLOCK=BLOCK, BLOCK_E=BLOCK_E,
    )  # fmt: skip
    pad_kernel[(blocks,)](
        totals, order, block_experts, N, num_experts, blocks, block=block, BLOCK_E=BLOCK_E
    )
    return order, inverse, block_experts
