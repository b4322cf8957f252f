"""18.1  All-reduce in one shot: one good answer.

The ranks are unrolled, so that the loads from all shards are on their way together. A small tensor
is cut into blocks of 1024, which many programs wait for side by side, as a peer's memory is far; a
large one into blocks of 4096. Whole blocks go without a mask, because one that may end anywhere
makes each element a load of its own.
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
def add_up(shards, offs, mask):
    acc = tl.load(shards[0] + offs, mask=mask).to(tl.float32)
    for rank in tl.static_range(1, len(shards)):
        acc += tl.load(shards[rank] + offs, mask=mask).to(tl.float32)
    return acc


@triton.jit
def all_reduce_kernel(
    shards, out_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    # Whole blocks have no mask: with one that may end anywhere, each element is a load of its own.
    if (pid + 1) * BLOCK <= N:
        tl.store(out_ptr + offs, add_up(shards, offs, None))
    else:
        mask = offs < N
        tl.store(out_ptr + offs, add_up(shards, offs, mask), mask=mask)


def all_reduce(shards: list[torch.Tensor]) -> list[torch.Tensor]:
    if not shards or shards[0].dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError("shards must be float16, bfloat16 or float32, and at least one")
    first = shards[0]
    if any(x.shape != first.shape or x.dtype != first.dtype for x in shards):
        raise ValueError("shards must be of one shape and dtype")
    if not all(x.is_contiguous() for x in shards):
        raise ValueError("shards must be contiguous")
    results = [torch.empty_like(x) for x in shards]
    N = first.numel()
    # A peer's memory is far: what is small goes to many programs, which wait side by side.
    BLOCK, num_warps = (1024, 4) if N <= 2**20 else (4096, 8)
    meet(shards)
    for own, out in zip(shards, results, strict=True):
        with on(own):
            all_reduce_kernel[(triton.cdiv(N, BLOCK),)](
                tuple(shards), out, N, BLOCK=BLOCK, num_warps=num_warps
            )
    meet(shards)
    return results
