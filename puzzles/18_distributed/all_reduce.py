"""18.1  All-reduce in one shot

Add up the tensors of all ranks, and give every rank the sum: each reads all of them for itself.

    results[r] = shards[0] + shards[1] + ... + shards[R - 1]          for every rank r
    PyTorch: torch.distributed.all_reduce; vLLM's own all-reduce takes one shot for small tensors

Given     shards: R tensors, one for each rank, 1 <= R <= 8, of one shape and dtype: float16,
          bfloat16 or float32, contiguous. With several GPUs, rank r's is on GPU r modulo their
          number
Return    a list of R new tensors, result r on the device of shard r, summed in float32 and rounded
          once. Every rank adds in the same order: all results are equal bit for bit
New here  a kernel that reads other GPUs' memory; a tuple of tensors as an argument; on and meet
Rules     One launch for each rank, under `with on(shards[rank])`. Call `meet(shards)` before the
          first launch, since a peer's shard may not be there yet, and before you return, since a
          peer may still read what its owner overwrites next. Where ranks share a GPU, no launch
          waits for a later one
Traffic   each shard loaded R times, each result stored once, coalesced, R launches
Speed     at least 5x the speed of PyTorch for 4 ranks of 32 Mi bfloat16 elements, all on one GPU

Run       pytest puzzles/18_distributed/test_all_reduce.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    shards that do not begin at a multiple of 16 bytes
Sizes     empty tensors; more than 2**31 elements
Values    NaN and inf as in PyTorch
Raise     ValueError that names shards if there is none, if they differ in shape or dtype, have
          another dtype, or are not contiguous.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/18_distributed/production/test_all_reduce.py
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
def all_reduce_kernel(
    shards, out_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program adds up BLOCK of the N elements of all shards, a tuple of pointers
    # Add parameters as you need them.
    pass


def all_reduce(shards: list[torch.Tensor]) -> list[torch.Tensor]:
    raise NotImplementedError  # TODO: allocate the results, meet, launch once a rank, meet
