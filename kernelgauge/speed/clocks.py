"""The clock of a GPU beside the times, and what holds it back, as the driver tells it.

Reading needs nvidia-ml-py, the extra "clocks": `pip install -e '.[clocks]'`. Where it is missing,
or the driver does not answer, nothing is known, and nothing is said of clocks.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from kernelgauge.words.fault import Note, note

# The driver's bits for why a clock is below its highest. An idle GPU, and a clock that someone
# chose, are left out: neither comes and goes while kernels are timed.
# Source: NVML's "Clocks Event Reasons".
REASONS = {
    0x04: "power limit",
    0x08: "slowdown by hardware",
    0x20: "temperature limit of software",
    0x40: "temperature limit of hardware",
    0x80: "power brake",
}


@dataclass(frozen=True)
class Clocks:
    """The clock of the multiprocessors while something was timed.

    low, high, most: in MHz: the least and the most that were read, and what the GPU can do
    held_back: what held the clock back at any reading, in the words of `REASONS`
    """

    low: int
    high: int
    most: int
    held_back: tuple[str, ...] = ()

    def note(self) -> Note:
        """Return what a reader of the times should know."""
        reasons = " and ".join(self.held_back)
        kind = "clock-held-back" if reasons else "clock-free"
        return note(kind, low=self.low, high=self.high, most=self.most, reasons=reasons)

    def plain(self) -> dict[str, Any]:
        """Return it in Python's own types."""
        return asdict(self) | {"held_back": list(self.held_back)}


def read() -> Clocks | None:
    """Return the clock of the current GPU now, None where it cannot be read.

    Call it just after the work, between two calls. Whether the clock dips within a call it does not
    show.
    """
    if not torch.cuda.is_available():
        return None
    return _read(str(torch.cuda.get_device_properties("cuda").uuid))


def joined(readings: Iterable[Clocks | None]) -> Clocks | None:
    """Return what several readings of one GPU have in common, None if there are none."""
    known = [reading for reading in readings if reading]
    if not known:
        return None
    return Clocks(
        low=min(reading.low for reading in known),
        high=max(reading.high for reading in known),
        most=max(reading.most for reading in known),
        held_back=tuple(dict.fromkeys(why for reading in known for why in reading.held_back)),
    )


@functools.lru_cache(maxsize=8)
def _device(uuid: str) -> tuple[Any, Any, int] | None:
    """Return the library, its handle of a GPU, and the GPU's highest clock in MHz.

    The driver takes a millisecond to tell the highest clock, and microseconds for the present one.
    """
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        return nvml, handle, nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)
    # Not installed, no driver, or no permission: NVML has an error class for each.
    except Exception:
        return None


def _read(uuid: str) -> Clocks | None:
    found = _device(uuid)
    if found is None:
        return None
    nvml, handle, most = found
    try:
        mhz = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
        # The name that all versions have: newer ones say "events" for "throttle" too.
        bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    except Exception:
        return None
    held_back = tuple(reason for bit, reason in REASONS.items() if bits & bit)
    return Clocks(mhz, mhz, most, held_back)
