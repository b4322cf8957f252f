# Pulls: each rank stores its slice of the sums into its own result, and fetches the others.

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
def reduce_slice_kernel(
    shards, out_ptr,
    first, last,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = first + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < last
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for rank in tl.static_range(len(shards)):
        acc += tl.load(shards[rank] + offs, mask=mask, other=0.0)
    tl.store(out_ptr + offs, acc, mask=mask)


@triton.jit
def fetch_kernel(
    results, out_ptr,
    N, part,
    RANK: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for rank in tl.static_range(len(results)):
        if rank != RANK:
            places = rank * part + offs
            mask = (offs < part) & (places < N)
            tl.store(out_ptr + places, tl.load(results[rank] + places, mask=mask), mask=mask)


def two_shot_all_reduce(shards):
    N, R = shards[0].numel(), len(shards)
    part = triton.cdiv(N, R)
    results = [torch.empty_like(x) for x in shards]
    grid = (triton.cdiv(part, 1024),)
    meet(shards)
    for rank in range(R):
        with on(shards[rank]):
            first, last = rank * part, min((rank + 1) * part, N)
            reduce_slice_kernel[grid](tuple(shards), results[rank], first, last, BLOCK=1024)
    meet(shards)
    for rank in range(R):
        with on(shards[rank]):
            fetch_kernel[grid](tuple(results), results[rank], N, part, RANK=rank, BLOCK=1024)
    meet(shards)
    return results
