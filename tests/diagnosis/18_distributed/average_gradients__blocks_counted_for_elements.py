# fault: faults counts blocks that have any, and not elements
# cause: tl.sum\(bad, axis=0\) in its place

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
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(grads_ptr + offs, mask=offs < N, other=0.0).to(tl.float32)
    bad = (x - x != 0.0).to(tl.int32)  # NaN - NaN and inf - inf are NaN
    count = tl.max(bad, axis=0)
    if count > 0:
        tl.atomic_add(faults_ptr, count, sem="relaxed")


@triton.jit
def average_kernel(
    grads, faults, averages,
    first, last,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = first + tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < last
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    healthy = 0
    for rank in tl.static_range(len(grads)):
        ok = tl.load(faults[rank]) == 0
        healthy += ok.to(tl.int32)
        total += tl.load(grads[rank] + offs, mask=mask & ok, other=0.0).to(tl.float32)
    average = total / tl.maximum(healthy, 1).to(tl.float32)
    for rank in tl.static_range(len(averages)):
        y = average.to(averages[rank].dtype.element_ty)
        tl.store(averages[rank] + offs, y, mask=mask)


def average_gradients(
    grads: list[torch.Tensor],
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    R = len(grads)
    N = grads[0].numel()
    averages = [torch.empty_like(grad) for grad in grads]
    faults = [torch.zeros((), dtype=torch.int32, device=grad.device) for grad in grads]
    BLOCK = 1024
    for rank in range(R):
        with on(grads[rank]):
            count_faults_kernel[(triton.cdiv(N, BLOCK),)](grads[rank], faults[rank], N, BLOCK=BLOCK)
    meet(grads)
    # Each rank averages a slice and stores it into the averages of all.
    length = triton.cdiv(triton.cdiv(N, R), 16) * 16
    for rank in range(R):
        first = min(rank * length, N)
        last = min(first + length, N)
        with on(grads[rank]):
            average_kernel[(triton.cdiv(last - first, BLOCK),)](
                tuple(grads), tuple(faults), tuple(averages), first, last, BLOCK=BLOCK
            )
    meet(grads)
    return averages, faults
