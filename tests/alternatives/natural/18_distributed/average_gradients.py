# Every rank averages all elements for itself, and skips faulty ranks by a branch.

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
def count_faults_kernel(
    grads_ptr, faults_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(grads_ptr + offs, mask=offs < N, other=0.0).to(tl.float32)
    finite = tl.abs(x) < float("inf")
    tl.atomic_add(faults_ptr, tl.sum(tl.where(finite, 0, 1)))


@triton.jit
def average_kernel(
    grads, faults, out_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    healthy = 0
    for rank in tl.static_range(len(grads)):
        if tl.load(faults[rank]) == 0:
            total += tl.load(grads[rank] + offs, mask=offs < N, other=0.0).to(tl.float32)
            healthy += 1
    if healthy > 0:
        total = total / healthy
    tl.store(out_ptr + offs, total, mask=offs < N)


def average_gradients(grads):
    N = grads[0].numel()
    grid = (triton.cdiv(N, 1024),)
    averages = [torch.empty_like(x) for x in grads]
    faults = [torch.zeros((), dtype=torch.int32, device=x.device) for x in grads]
    for x, count in zip(grads, faults, strict=True):
        with on(x):
            count_faults_kernel[grid](x, count, N, BLOCK=1024)
    meet(grads)
    for x, out in zip(grads, averages, strict=True):
        with on(x):
            average_kernel[grid](tuple(grads), tuple(faults), out, N, BLOCK=1024)
    meet(grads)
    return averages, faults
