"""18.4  All-gather and matmul in one launch

Each rank holds some rows of a layer's input and some columns of its weights, and needs the rows of
all: it fetches those of its peers while it multiplies its own.

    results[r] = cat(shards) @ weights[r]          for every rank r, as in Triton-distributed

Given     shards: R tensors (M, K), contiguous; weights: R tensors (K, N) of any strides; all
          float16 or all bfloat16. Rank r's are on GPU r modulo the number of GPUs
Return    a list of R new tensors (R * M, N), result r on the device of weights[r], summed in
          float32 and rounded once
New here  programs of one launch with different tasks; flags, by which some wait for others
Rules     Launch and meet as in 18.1. The first programs copy the peers' rows in chunks, wait for
          nothing, and raise a flag for each: tl.debug_barrier(), since other threads may still be
          storing, then tl.atomic_add with sem="release". The others wait for the flag of their
          rows: while tl.atomic_add(flag, 0, sem="acquire") == 0: pass
Traffic   each shard loaded at most ceil(N / 64) times by its owner and once by each peer, each
          result stored once, R launches
Speed     at least 0.2x the speed of PyTorch for 2 ranks on one GPU: M 2048, N and K 4096, bfloat16

Run       pytest puzzles/18_distributed/test_all_gather_matmul.py

Production (puzzles/PRODUCTION.md says how) adds

Sizes     8 ranks; weights and results with offsets beyond 2**31 elements
Traffic   large matrices whose rows begin at no multiple of 16 bytes may be copied first, in
          launches of their own
Values    two runs agree bit for bit
Raise     ValueError that names shards if there is none, if one is not 2-D, not contiguous, has
          another shape or another dtype, and weights if there are not as many, or if one is not
          2-D, has no K rows, another shape, another dtype or another device than its shard.
Speed     at least 0.9x the speed of our solution
Run       pytest puzzles/18_distributed/production/test_all_gather_matmul.py
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
def all_gather_matmul_kernel(
    shards, gathered_ptr, flags_ptr, weight_ptr, out_ptr,
    M, N, K,
    stride_wk, stride_wn,
    rank,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # TODO: the first programs copy what the peers have, the others multiply
    # shards is a tuple of pointers. Add how many programs copy, and a constexpr for how much they
    # copy at a time.
    pass


def all_gather_matmul(
    shards: list[torch.Tensor], weights: list[torch.Tensor]
) -> list[torch.Tensor]:
    raise NotImplementedError  # TODO: allocate results, buffers and flags, meet, launch, meet
