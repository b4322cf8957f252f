"""The GPUs of this process: the current one alone, until ranks are spread over all."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

# Bytes of a GPU's memory that torch's caching allocator may keep while other processes use it.
MAX_CACHED_BYTES = 2**30

# All GPUs, once they can reach one another's memory.
_connected: list[torch.device] = []


def used() -> list[torch.device]:
    """Return the GPUs that this process uses, none without one."""
    if _connected or not torch.cuda.is_available():
        return _connected
    return [torch.device("cuda", torch.cuda.current_device())]


def connect() -> list[torch.device]:
    """Return all GPUs, whose kernels can read and write one another's memory from here on.

    Where two of them cannot, and where there is one only, just the current GPU.
    """
    count = torch.cuda.device_count()
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    if not _connected and pairs and all(torch.cuda.can_device_access_peer(*it) for it in pairs):
        for a, b in pairs:
            # torch enables a GPU's access to another's memory before it copies between them.
            source = torch.zeros(1, device=f"cuda:{a}")
            torch.empty(1, device=f"cuda:{b}").copy_(source)
        _connected.extend(torch.device("cuda", number) for number in range(count))
        synchronize()
    return used()


def spread(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors, that of rank r on GPU r modulo their number."""
    devices = connect()
    return [x.to(devices[rank % len(devices)]) for rank, x in enumerate(tensors)]


def synchronize() -> None:
    """Wait until all GPUs that this process uses are idle."""
    for device in used():
        torch.cuda.synchronize(device)


def idle_within(seconds: float) -> bool:
    """Wait until all GPUs that this process uses have done what their streams hold, but no longer.

    Returns whether they have.
    """
    until = time.monotonic() + seconds
    for device in used():
        done = torch.cuda.current_stream(device).record_event()
        while not done.query():
            if time.monotonic() > until:
                return False
            time.sleep(0.0001)
    return True


def leave() -> None:
    """Wait until all GPUs that this process uses are idle, and give other processes their memory.

    torch keeps the memory of tensors that are gone. The reference of a race may need tens of GiB,
    and a dozen workers that each keep as much, while they wait for their race, leave none for it.
    """
    synchronize()
    if any(torch.cuda.memory_reserved(device) > MAX_CACHED_BYTES for device in used()):
        torch.cuda.empty_cache()
