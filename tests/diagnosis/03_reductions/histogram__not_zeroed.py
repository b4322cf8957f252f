# fault: the atomic additions go to memory that was never set to 0
# cause: changes elements that nothing has set
import torch
import triton
import triton.language as tl


@triton.jit
def histogram_kernel(
    x_ptr, counts_ptr,
    N, bins,
    BINS: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0) * BLOCKS * BLOCK
    counts = tl.zeros((BINS,), dtype=tl.int32)
    for block in range(BLOCKS):
        offs = start + block * BLOCK + tl.arange(0, BLOCK)
        mask = offs < N
        x = tl.load(x_ptr + offs, mask=mask, other=0).to(tl.int32)
        counts += tl.histogram(x, BINS, mask=mask)
    bin = tl.arange(0, BINS)
    tl.atomic_add(counts_ptr + bin, counts, mask=bin < bins)


def histogram(x, bins):
    N = x.numel()
    counts = torch.empty(bins, dtype=torch.int32, device=x.device)
    BLOCK, BLOCKS = 2048, 16
    histogram_kernel[(triton.cdiv(N, BLOCK * BLOCKS),)](
        x, counts, N, bins, BINS=max(triton.next_power_of_2(bins), 16), BLOCK=BLOCK, BLOCKS=BLOCKS
    )
    return counts
