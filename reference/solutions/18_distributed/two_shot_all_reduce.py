"""18.2  All-reduce in two shots: one good answer.

Each rank adds up one slice and stores it into the results of all ranks at once, in one launch,
instead of leaving it to be fetched. Slices begin at multiples of 16 elements, so that each lane
moves 16 bytes at once. Small tensors are cut into more and shorter blocks, whose programs wait side
by side.
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
def push(shards, results, offs, mask):
    acc = tl.load(shards[0] + offs, mask=mask).to(tl.float32)
    for rank in tl.static_range(1, len(shards)):
        acc += tl.load(shards[rank] + offs, mask=mask).to(tl.float32)
    for rank in tl.static_range(len(results)):
        tl.store(results[rank] + offs, acc, mask=mask)


@triton.jit
def reduce_slice_kernel(
    shards, results,
    first, last,
    BLOCK: tl.constexpr,
):  # fmt: skip
    begin = first + tl.program_id(0).to(tl.int64) * BLOCK
    offs = begin + tl.arange(0, BLOCK)  # [BLOCK]
    # Whole blocks have no mask: with one that may end anywhere, each element is a load of its own.
    if begin + BLOCK <= last:
        push(shards, results, offs, None)
    else:
        push(shards, results, offs, offs < last)


def two_shot_all_reduce(shards: list[torch.Tensor]) -> list[torch.Tensor]:
    if not shards or shards[0].dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError("shards must be float16, bfloat16 or float32, and at least one")
    first = shards[0]
    if any(x.shape != first.shape or x.dtype != first.dtype for x in shards):
        raise ValueError("shards must be of one shape and dtype")
    if not all(x.is_contiguous() for x in shards):
        raise ValueError("shards must be contiguous")
    results = [torch.empty_like(x) for x in shards]
    N = first.numel()
    # Slices begin at multiples of 16 elements, so that each lane loads 16 bytes at once.
    part = triton.cdiv(triton.cdiv(N, len(shards)), 16) * 16
    BLOCK, num_warps = (1024, 4) if N <= 2**20 else (4096, 8)
    meet(shards)
    for rank, own in enumerate(shards):
        begin, end = min(rank * part, N), min((rank + 1) * part, N)
        with on(own):
            reduce_slice_kernel[(triton.cdiv(end - begin, BLOCK),)](
                tuple(shards), tuple(results), begin, end, BLOCK=BLOCK, num_warps=num_warps
            )
    meet(shards)
    return results
