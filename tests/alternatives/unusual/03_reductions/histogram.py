# Each program owns a stretch of bins for its stretch of x, and counts by comparing all with all.
import torch
import triton
import triton.language as tl


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, N, bins, BLOCK: tl.constexpr, BINS: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=-1).to(tl.int32)
    for start in range(0, bins, BINS):
        bin = start + tl.arange(0, BINS)
        same = (x[None, :] == bin[:, None]).to(tl.int32)
        count = tl.reduce(same, 1, add)
        tl.atomic_add(counts_ptr + bin, count, mask=(bin < bins) & (count > 0), sem="relaxed")


@triton.jit
def add(a, b):
    return a + b


def histogram(x, bins):
    counts = torch.zeros(bins, dtype=torch.int32, device=x.device)
    with torch.profiler.record_function("histogram"):
        histogram_kernel[(triton.cdiv(len(x), 1024),)](x, counts, len(x), bins, BLOCK=1024, BINS=16)
    return counts
