"""18.2  All-reduce in two shots

Add up the tensors of all ranks again, but each element only once: a rank adds up its slice of them,
and then every rank gets every slice.

    results[r][slice s] = shards[0][slice s] + ... + shards[R - 1][slice s], computed by rank s
    PyTorch: torch.distributed.reduce_scatter, then all_gather

Given     shards as in 18.1: R tensors, 1 <= R <= 8, of one shape and dtype, contiguous. N elements
          need not be a multiple of R, and may be fewer
Return    a list of R new tensors, result r on the device of shard r: float32 sums, rounded once
New here  work divided among ranks; a choice between pushing (a rank stores its slice into all
          results) and pulling (into its own; after a meeting the others fetch it)
Rules     as in 18.1; and `meet` between two launches if one reads what another rank's has stored
Traffic   each shard loaded once, each result stored once and loaded at most (R - 1) / R times, at
          most 2 R launches, no other memory, coalesced
Speed     at least 10x the speed of PyTorch for 4 ranks of 32 Mi bfloat16 elements, all on one GPU

Run       pytest puzzles/18_distributed/test_two_shot_all_reduce.py

Production (puzzles/PRODUCTION.md says how) adds

Layout    shards that do not begin at a multiple of 16 bytes
Sizes     empty tensors; more than 2**31 elements
Values    NaN and inf as in PyTorch
Raise     ValueError that names shards if there is none, if they differ in shape or dtype, have
          another dtype, or are not contiguous.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/18_distributed/production/test_two_shot_all_reduce.py
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
def reduce_slice_kernel(
    shards, results,
    first, last,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # TODO: one program adds up BLOCK of the elements from first to last, and stores the sums
    # shards and results are tuples of pointers, one for each rank. Add parameters as you need them.
    pass


def two_shot_all_reduce(shards: list[torch.Tensor]) -> list[torch.Tensor]:
    raise NotImplementedError  # TODO: allocate the results, share out the slices, launch
