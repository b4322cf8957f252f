# Three kernels: counts of each tile, all prefix sums in one program, places. PyTorch fills what is
# padding before the launches.

import torch
import triton
import triton.language as tl


@triton.jit
def count_kernel(
    experts_ptr, counts_ptr,
    N, E,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK_E)
    experts = tl.load(experts_ptr + offs, mask=offs < N, other=-1)
    hot = (experts[:, None] == cols[None, :]).to(tl.int32)
    tl.store(counts_ptr + pid * E + cols, tl.sum(hot, axis=0), mask=cols < E)


@triton.jit
def scan_kernel(
    counts_ptr, starts_ptr, block_experts_ptr,
    E, tiles, blocks,
    block: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK_E)
    total = tl.zeros((BLOCK_E,), tl.int32)
    for first in range(0, tiles, BLOCK):
        rows = first + tl.arange(0, BLOCK)
        mask = (rows[:, None] < tiles) & (cols[None, :] < E)
        ptrs = counts_ptr + rows[:, None] * E + cols[None, :]
        counts = tl.load(ptrs, mask=mask, other=0)
        tl.store(ptrs, total[None, :] + tl.cumsum(counts, axis=0) - counts, mask=mask)
        total += tl.sum(counts, axis=0)
    used = (total + block - 1) // block
    ends = tl.cumsum(used, axis=0)
    tl.store(starts_ptr + cols, (ends - used) * block, mask=cols < E)
    for first in range(0, blocks, BLOCK):
        numbers = first + tl.arange(0, BLOCK)
        over = (ends[None, :] <= numbers[:, None]) & (cols[None, :] < E)
        owner = tl.sum(over.to(tl.int32), axis=1)
        owner = tl.where(owner < E, owner, -1)
        tl.store(block_experts_ptr + numbers, owner, mask=numbers < blocks)


@triton.jit
def place_kernel(
    experts_ptr, counts_ptr, starts_ptr, order_ptr, inverse_ptr,
    N, E,
    BLOCK: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK_E)
    experts = tl.load(experts_ptr + offs, mask=offs < N, other=-1)
    starts = tl.load(starts_ptr + cols, mask=cols < E, other=0)
    starts += tl.load(counts_ptr + pid * E + cols, mask=cols < E, other=0)
    hot = (experts[:, None] == cols[None, :]).to(tl.int32)
    rank = tl.cumsum(hot, axis=0) - 1
    places = tl.sum(hot * (starts[None, :] + rank), axis=1)
    tl.store(order_ptr + places, offs, mask=offs < N)
    tl.store(inverse_ptr + offs, places, mask=offs < N)


def permute_tokens(experts, num_experts, block):
    N, E, device = experts.numel(), num_experts, experts.device
    least = min(N, E)
    blocks = least + (N - least) // block
    BLOCK, BLOCK_E = 256, triton.next_power_of_2(E)
    tiles = triton.cdiv(N, BLOCK)
    order = torch.full((blocks * block,), N, dtype=torch.int32, device=device)
    inverse = torch.empty(N, dtype=torch.int32, device=device)
    block_experts = torch.empty(blocks, dtype=torch.int32, device=device)
    counts = torch.empty((tiles, E), dtype=torch.int32, device=device)
    starts = torch.empty(E, dtype=torch.int32, device=device)
    count_kernel[(tiles,)](experts, counts, N, E, BLOCK=BLOCK, BLOCK_E=BLOCK_E, num_warps=8)
    scan_kernel[(1,)](
        counts, starts, block_experts, E, tiles, blocks, block, BLOCK=64, BLOCK_E=BLOCK_E
    )
    place_kernel[(tiles,)](
        experts, counts, starts, order, inverse, N, E, BLOCK=BLOCK, BLOCK_E=BLOCK_E, num_warps=8
    )
    return order, inverse, block_experts
