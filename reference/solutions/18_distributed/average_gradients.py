"""18.3  Average the gradients that are finite: one good answer.

Each rank averages one slice and stores it into the results of all ranks. A faulty rank is left out
by a mask and not by a branch, so that the loads from all ranks are on their way at once. One
subtraction finds faults of both kinds, since inf - inf and NaN - NaN are NaN.
"""

import contextlib

import torch
import triton
import triton.language as tl


def on(x: torch.Tensor) -> contextlib.AbstractContextManager:
    """In the body, kernels are launched on the GPU that x lies on."""
    return torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()


def meet(tensors: list[torch.Tensor]) -> None:
    """What is launched after this on any of their GPUs waits for all launched before on each."""
    streams = [torch.cuda.current_stream(d) for d in {x.device for x in tensors if x.is_cuda}]
    events = [stream.record_event() for stream in streams]
    for stream in streams:
        for event in events:
            stream.wait_event(event)


@triton.jit
def count_faults(grads_ptr, offs, mask):
    x = tl.load(grads_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    # inf - inf and NaN - NaN are NaN, which equals nothing.
    return tl.sum((x - x != 0).to(tl.int32))


@triton.jit
def count_faults_kernel(
    grads_ptr, faults_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    begin = tl.program_id(0).to(tl.int64) * BLOCK
    offs = begin + tl.arange(0, BLOCK)  # [BLOCK]
    # Whole blocks have no mask: with one that may end anywhere, each element is a load of its own.
    if begin + BLOCK <= N:
        count = count_faults(grads_ptr, offs, offs >= 0)
    else:
        count = count_faults(grads_ptr, offs, offs < N)
    tl.atomic_add(faults_ptr, count, mask=count > 0, sem="relaxed")


@triton.jit
def push_average(grads, faults, averages, offs, inside):
    total = tl.zeros(offs.shape, dtype=tl.float32)
    ranks = 0
    for rank in tl.static_range(len(grads)):
        # A mask, not a branch: the loads of all ranks are on their way at once.
        healthy = tl.load(faults[rank]) == 0
        total += tl.load(grads[rank] + offs, mask=inside & healthy, other=0.0).to(tl.float32)
        ranks += healthy.to(tl.int32)
    average = total / tl.maximum(ranks, 1)
    for rank in tl.static_range(len(averages)):
        tl.store(averages[rank] + offs, average, mask=inside)


@triton.jit
def average_kernel(
    grads, faults, averages,
    first, last,
    BLOCK: tl.constexpr,
):  # fmt: skip
    begin = first + tl.program_id(0).to(tl.int64) * BLOCK
    offs = begin + tl.arange(0, BLOCK)  # [BLOCK]
    if begin + BLOCK <= last:
        push_average(grads, faults, averages, offs, offs >= 0)
    else:
        push_average(grads, faults, averages, offs, offs < last)


def average_gradients(
    grads: list[torch.Tensor],
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    if not grads or grads[0].dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError("grads must be float16, bfloat16 or float32, and at least one")
    first = grads[0]
    if any(x.shape != first.shape or x.dtype != first.dtype for x in grads):
        raise ValueError("grads must be of one shape and dtype")
    if not all(x.is_contiguous() for x in grads):
        raise ValueError("grads must be contiguous")
    averages = [torch.empty_like(x) for x in grads]
    faults = [torch.zeros((), dtype=torch.int32, device=x.device) for x in grads]
    N = first.numel()
    # Slices begin at multiples of 16 elements, so that each lane loads 16 bytes at once.
    part = triton.cdiv(triton.cdiv(N, len(grads)), 16) * 16
    BLOCK, num_warps = (1024, 4) if N <= 2**20 else (4096, 8)
    for own, count in zip(grads, faults, strict=True):
        with on(own):
            count_faults_kernel[(triton.cdiv(N, BLOCK),)](
                own, count, N, BLOCK=BLOCK, num_warps=num_warps
            )
    meet(grads)
    for rank, own in enumerate(grads):
        begin, end = min(rank * part, N), min((rank + 1) * part, N)
        with on(own):
            average_kernel[(triton.cdiv(end - begin, BLOCK),)](
                tuple(grads), tuple(faults), tuple(averages), begin, end,
                BLOCK=BLOCK, num_warps=num_warps,
            )  # fmt: skip
    meet(grads)
    return averages, faults
