"""What a cell is told of GPUs, none of which it has."""

from __future__ import annotations

import functools
from typing import Any

import torch
import triton
from torch.utils._python_dispatch import _disable_current_modes

from kernelgauge.core.settings import settings

# Of Triton's driver: what launchers choose block sizes by.
OF_DRIVER = ("max_shared_mem", "max_num_regs", "multiprocessor_count", "warpSize")


def told(device: torch.device) -> str:
    """Return what a cell is told that a tensor lies on."""
    return str(device)


def meant(device: str) -> torch.device:
    """Return the device of an allocation that a cell asks for. Raises ValueError."""
    found = torch.device(device)
    if found.type not in ("cpu", "meta", settings.device):
        raise ValueError(device)
    return found


def facts() -> dict[str, Any] | None:
    """Return what a cell's torch and Triton are to say of the GPUs, None in the interpreter.

    current: the number of the current GPU
    devices: of each GPU what torch.cuda.get_device_properties has
    driver: of each what Triton's driver has
    target: backend, architecture and warp size
    """
    if settings.interpreted:
        return None
    return {"current": torch.cuda.current_device(), **_machine()}


@functools.cache
def _machine() -> dict[str, Any]:
    from triton.runtime import driver

    numbers = range(torch.cuda.device_count())
    target = driver.active.get_current_target()
    of_driver = [driver.active.utils.get_device_properties(it) for it in numbers]
    return {
        "devices": [_plain(torch.cuda.get_device_properties(it)) for it in numbers],
        "driver": [{n: it[n] for n in OF_DRIVER if n in it} for it in of_driver],
        "target": [target.backend, target.arch, target.warp_size],
    }


def lend_scratch() -> None:
    """Let kernels that make tensor descriptors have the memory that Triton asks a launcher for."""

    def allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        with _disable_current_modes():
            return torch.empty(size, dtype=torch.int8, device=settings.device)

    triton.set_allocator(allocate)


def _plain(properties: Any) -> dict[str, Any]:
    named = {name: getattr(properties, name) for name in dir(properties) if name[0] != "_"}
    return {n: v for n, v in named.items() if isinstance(v, (bool, int, float, str))}
