# fault: the slices have N // R elements: the last N % R belong to no rank
# cause: no program stored result 0\[99\]|launched no Triton kernel
# never: no program reaches a store

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
    shards, results,
    first, last,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = first + tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < last
    acc = tl.zeros([BLOCK], tl.float32)
    for i in tl.static_range(len(shards)):
        acc += tl.load(shards[i] + offs, mask=mask, other=0.0).to(tl.float32)
    for i in tl.static_range(len(results)):
        tl.store(results[i] + offs, acc, mask=mask)


def two_shot_all_reduce(shards: list[torch.Tensor]) -> list[torch.Tensor]:
    N, R = shards[0].numel(), len(shards)
    BLOCK = 1024
    results = [torch.empty_like(shard) for shard in shards]
    length = N // R
    meet(shards)
    for rank in range(R):
        first, last = rank * length, (rank + 1) * length
        if first < last:
            with on(shards[rank]):
                reduce_slice_kernel[(triton.cdiv(last - first, BLOCK),)](
                    tuple(shards), tuple(results), first, last, BLOCK=BLOCK
                )
    meet(shards)
    return results
