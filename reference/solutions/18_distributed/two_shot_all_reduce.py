"""18.2  All-reduce in two shots: one good answer.

Each rank adds up one slice and stores it into the results of all ranks at once, in one launch,
instead of leaving it to be fetched. Slices begin at multiples of 16 elements, so that each lane
moves 16 bytes at once. Small tensors are cut into more and shorter blocks, whose programs wait side
by side.

Where each rank has a GPU of its own, the launches run at the same time, and the ranks meet inside,
as in 18.1: each program with that of its number at every other rank.
"""

import contextlib
import functools

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


# Programs that meet inside a launch: so few run at once on every GPU.
PROGRAMS = 64


@functools.cache
def signals_of(devices: tuple[torch.device, ...], streams: tuple[int, ...]) -> list[torch.Tensor]:
    """Signals for `meet_inside` on each device, all 0 whenever no kernel runs."""
    signals = [torch.zeros(PROGRAMS, 2, len(devices), dtype=torch.int32, device=d) for d in devices]
    meet(signals)
    return signals


def signals_for(tensors: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """Signals by which the ranks meet in a launch; None where they share a GPU, or are alone."""
    devices = tuple(x.device for x in tensors)
    if len(set(devices)) < max(2, len(devices)):
        return None
    # Calls on other streams may overlap, and need signals of their own.
    return signals_of(devices, tuple(torch.cuda.current_stream(d).cuda_stream for d in devices))


@triton.jit
def meet_inside(peers, own_ptr, rank, BEGINNING: tl.constexpr):
    """Wait for the programs of this number at the other ranks, and see what they have stored.

    peers: the signals of the other ranks, from the next one on; own_ptr: this rank's
    """
    R: tl.constexpr = len(peers) + 1
    place = (tl.program_id(0) * 2 + BEGINNING) * R
    # One thread signals: not before all have loaded and stored.
    tl.debug_barrier()
    for peer in tl.static_range(R - 1):
        tl.atomic_add(peers[peer] + place + rank, 1, sem="release", scope="sys")
    for peer in tl.static_range(R - 1):
        signal_ptr = own_ptr + place + (rank + 1 + peer) % R
        while tl.atomic_cas(signal_ptr, 1, 0, sem="acquire", scope="sys") != 1:
            pass


@triton.jit
def push(shards, results, offs, mask):
    acc = tl.load(shards[0] + offs, mask=mask).to(tl.float32)
    for rank in tl.static_range(1, len(shards)):
        acc += tl.load(shards[rank] + offs, mask=mask).to(tl.float32)
    for rank in tl.static_range(len(results)):
        tl.store(results[rank] + offs, acc, mask=mask)


@triton.jit(do_not_specialize=["rank"])
def reduce_slice_kernel(
    shards, results,
    first, last,
    peers, own_signals_ptr, rank,
    BLOCK: tl.constexpr,
):  # fmt: skip
    if peers is not None:
        meet_inside(peers, own_signals_ptr, rank, BEGINNING=True)
    for block in range(tl.program_id(0), tl.cdiv(last - first, BLOCK), tl.num_programs(0)):
        begin = first + tl.cast(block, tl.int64) * BLOCK
        offs = begin + tl.arange(0, BLOCK)  # [BLOCK]
        # Whole blocks have no mask: with one that may end anywhere, each element is a load of its
        # own.
        if begin + BLOCK <= last:
            push(shards, results, offs, None)
        else:
            push(shards, results, offs, offs < last)
    if peers is not None:
        meet_inside(peers, own_signals_ptr, rank, BEGINNING=False)


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
    signals = signals_for(shards)
    if signals is None:
        BLOCK, num_warps = (1024, 4) if N <= 2**20 else (4096, 8)
        programs = triton.cdiv(part, BLOCK)
        meet(shards)
    else:
        BLOCK, num_warps = 8192, 16
        programs = min(PROGRAMS, triton.cdiv(part, BLOCK))
    for rank, own in enumerate(shards):
        begin, end = min(rank * part, N), min((rank + 1) * part, N)
        peers = own_signals = None
        if signals is not None:
            peers, own_signals = (*signals[rank + 1 :], *signals[:rank]), signals[rank]
        with on(own):
            # As many programs where the slice is shorter: each is waited for.
            reduce_slice_kernel[(programs,)](
                tuple(shards), tuple(results), begin, end, peers, own_signals, rank,
                BLOCK=BLOCK, num_warps=num_warps,
            )  # fmt: skip
    if signals is None:
        meet(shards)
    return results
