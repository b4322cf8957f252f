"""18.1  All-reduce in one shot: one good answer.

The ranks are unrolled, so that the loads from all shards are on their way together. Where each rank
has a GPU of its own, few large programs meet those of their number at the other ranks inside the
launch, which takes less time than events. Ranks that share a GPU could wait forever for one another
there, and meet before and after.
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
def add_up(shards, offs, mask):
    acc = tl.load(shards[0] + offs, mask=mask).to(tl.float32)
    for rank in tl.static_range(1, len(shards)):
        acc += tl.load(shards[rank] + offs, mask=mask).to(tl.float32)
    return acc


@triton.jit(do_not_specialize=["rank"])
def all_reduce_kernel(
    shards, out_ptr,
    N,
    peers, own_signals_ptr, rank,
    BLOCK: tl.constexpr,
):  # fmt: skip
    if peers is not None:
        meet_inside(peers, own_signals_ptr, rank, BEGINNING=True)
    for block in range(tl.program_id(0), tl.cdiv(N, BLOCK), tl.num_programs(0)):
        begin = tl.cast(block, tl.int64) * BLOCK
        offs = begin + tl.arange(0, BLOCK)  # [BLOCK]
        # Whole blocks have no mask: with one that may end anywhere, each element is a load of its
        # own.
        if begin + BLOCK <= N:
            tl.store(out_ptr + offs, add_up(shards, offs, None))
        else:
            mask = offs < N
            tl.store(out_ptr + offs, add_up(shards, offs, mask), mask=mask)
    if peers is not None:
        meet_inside(peers, own_signals_ptr, rank, BEGINNING=False)


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
    signals = signals_for(shards)
    if signals is None:
        # A peer's memory is far: what is small goes to many programs, which wait side by side.
        BLOCK, num_warps = (1024, 4) if N <= 2**20 else (4096, 8)
        programs = triton.cdiv(N, BLOCK)
        meet(shards)
    else:
        BLOCK, num_warps = 8192, 16
        programs = min(PROGRAMS, triton.cdiv(N, BLOCK))
    for rank, (own, out) in enumerate(zip(shards, results, strict=True)):
        peers = own_signals = None
        if signals is not None:
            peers, own_signals = (*signals[rank + 1 :], *signals[:rank]), signals[rank]
        with on(own):
            all_reduce_kernel[(programs,)](
                tuple(shards), out, N, peers, own_signals, rank, BLOCK=BLOCK, num_warps=num_warps
            )
    if signals is None:
        meet(shards)
    return results
