# Ranks by recursion in the launcher, results allocated at once, and the kernel from a table.
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
def total(shards, offs, mask, RANKS: tl.constexpr):
    acc = tl.load(shards[0] + offs, mask=mask).to(tl.float32)
    for rank in tl.static_range(1, RANKS):
        acc += tl.load(shards[rank] + offs, mask=mask).to(tl.float32)
    return acc


@triton.jit
def all_reduce_kernel(shards, out_ptr, N, RANKS: tl.constexpr, BLOCK: tl.constexpr):
    offs = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, total(shards, offs, offs < N, RANKS), mask=offs < N)


KERNELS = {"one shot": all_reduce_kernel}
where, together = on, meet


def all_reduce(shards):
    results = [torch.empty_like(it) for it in shards]

    def launched(rank):
        if rank == len(shards):
            return
        with where(shards[rank]):
            KERNELS["one shot"][(triton.cdiv(shards[0].numel(), 256),)](
                (*shards,), results[rank], shards[0].numel(), RANKS=len(shards), BLOCK=256
            )
        launched(rank + 1)

    together(shards)
    launched(0)
    together(shards)
    return results
