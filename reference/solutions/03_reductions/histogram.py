"""03.7  Histogram: one good answer.

Up to 512 bins are counted in registers by tl.histogram, and added to memory once a program; more
bins are counted by atomics. Both go to one of up to 64 copies of the counts, so that few programs
wait for one address, and a second kernel adds the copies. Elements are taken in the order of the
memory, since a histogram does not depend on it.
"""

import torch
import triton
import triton.language as tl

BLOCK = 4096
PROGRAMS = 2048
# tl.histogram does work in proportion to the number of bins, an atomic does not.
MOST_IN_REGISTERS = 512
# Of all copies of the counts together: 16 MiB.
MOST_COUNTS = 2**22


@triton.jit
def histogram_kernel(
    x_ptr, counts_ptr,
    N, bins, copies, sizes, strides,
    BINS: tl.constexpr, IN_REGISTERS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    # Programs that add to one address wait for each other: there are several copies to add to.
    counts_ptr += pid % copies * bins
    lanes = tl.arange(0, BLOCK).to(tl.int64)
    bin = tl.arange(0, BINS)
    counts = tl.zeros((BINS,), tl.int32)
    for start in range(pid * BLOCK, N, tl.num_programs(0) * BLOCK):
        offs = start + lanes
        rest = offs
        x_ptrs = x_ptr
        for dim in tl.static_range(len(sizes) - 1, 0, -1):
            x_ptrs += rest % sizes[dim] * strides[dim]
            rest = rest // sizes[dim]
        x_ptrs += rest * strides[0]
        x = tl.load(x_ptrs, mask=offs < N, other=0)
        counted = (offs < N) & (x >= 0) & (x < bins)
        if IN_REGISTERS:
            counts += tl.histogram(x.to(tl.int32), BINS, mask=counted)
        else:
            tl.atomic_add(counts_ptr + x.to(tl.int64), 1, mask=counted, sem="relaxed")
    if IN_REGISTERS:
        tl.atomic_add(counts_ptr + bin, counts, mask=bin < bins, sem="relaxed")


@triton.jit
def add_copies_kernel(
    counts_ptr, total_ptr,
    bins, copies,
    BLOCK: tl.constexpr,
):  # fmt: skip
    bin = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.int32)
    for copy in range(copies):
        total += tl.load(counts_ptr + copy * bins + bin, mask=bin < bins, other=0)
    tl.store(total_ptr + bin, total, mask=bin < bins)


def histogram(x: torch.Tensor, bins: int) -> torch.Tensor:
    if x.dtype not in (torch.uint8, torch.int32, torch.int64):
        raise ValueError(f"x must be uint8, int32 or int64, not {x.dtype}")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, not {bins}")
    # The order in which elements are counted is free: take that of the memory.
    x = x.permute(sorted(range(x.dim()), key=x.stride, reverse=True))
    if x.is_contiguous():
        x = x.view(-1)
    N = x.numel()
    programs = max(1, min(triton.cdiv(N, BLOCK), PROGRAMS))
    copies = max(1, min(programs, 64, MOST_COUNTS // bins))
    counts = torch.zeros((copies, bins), dtype=torch.int32, device=x.device)
    total = torch.empty(bins, dtype=torch.int32, device=x.device)
    in_registers = bins <= MOST_IN_REGISTERS
    histogram_kernel[(programs,)](
        x, counts, N, bins, copies, tuple(x.shape), x.stride(),
        BINS=triton.next_power_of_2(bins) if in_registers else 1,
        IN_REGISTERS=in_registers, BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
    add_copies_kernel[(triton.cdiv(bins, 128),)](counts, total, bins, copies, BLOCK=128)
    return total
