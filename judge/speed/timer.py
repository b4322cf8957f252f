"""The time of one call on a GPU, its launch not included.

Each call is timed by itself, from a device at rest:

    hold | flush the L2 | start event | the call | end event | wait for the whole device

The hold is a kernel that spins. It keeps the stream busy while the host queues the rest, so that
what lies between the events is the work of the GPU and not the time that Python and the driver take
to launch it. Where the host did not finish in time, the next hold is longer. A call that itself
waits for the GPU (`item`) cannot be held: what it makes the GPU wait for is then part of its time.

The flush writes a buffer several times as large as the L2. So a call finds nothing of its inputs in
the cache, and, as in a program where another kernel ran before, pays for writing back what it
evicts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

T = TypeVar("T")

FLUSH_FACTOR = 4
FIRST_HOLD_MS = 0.2
# A call that is still not queued after this long waits for the GPU: a longer hold would not help.
MAX_HOLD_MS = 4.0
CALIBRATION_CYCLES = 2_000_000
POLL_SECONDS = 20e-6
# So many streams wait for a call to begin without slowing one another down: with torch's
# whole pool the last was late by 0.1 ms on an H200, with 32 by nothing.
STREAMS = 32


class CudaTimer:
    """Times calls on one GPU, on the stream that is current when the timer is made.

    behind: whether the GPU was through with the flush before the last call was queued, so that the
        time may contain time of the host; `spans` asks after its first call, and holds so long that
        only a call that waits is late
    """

    def __init__(self, device: torch.device | None = None):
        index = None if device is None else device.index
        self.device = torch.device("cuda", torch.cuda.current_device() if index is None else index)
        self.behind = False
        self._hold_ms = FIRST_HOLD_MS
        with torch.cuda.device(self.device):
            self._stream = torch.cuda.current_stream()
            l2_bytes = torch.cuda.get_device_properties(self.device).L2_cache_size
            self._evictor = torch.empty(
                FLUSH_FACTOR * l2_bytes // 4, dtype=torch.int32, device="cuda"
            )
            self._start = torch.cuda.Event(enable_timing=True)
            self._end = torch.cuda.Event(enable_timing=True)
            pooled = _pooled_streams()
            self._groups = [pooled[i : i + STREAMS] for i in range(0, len(pooled), STREAMS)]
            self._reached = [torch.cuda.Event(enable_timing=True) for _ in range(STREAMS)]
            self.cycles_per_ms = self._calibrate()

    def time(self, call: Callable[[], T]) -> tuple[float, T]:
        """Milliseconds of one call, and what it returned. The device is at rest afterwards."""
        with torch.cuda.device(self.device), torch.cuda.stream(self._stream):
            self._prepare(self._hold_ms)
            self._start.record(self._stream)
            returned = call()
            self._end.record(self._stream)
            self.behind = self._start.query()
            self._finish()
        if self.behind:
            self._hold_ms = min(2 * self._hold_ms, MAX_HOLD_MS)
        return self._start.elapsed_time(self._end), returned

    @property
    def groups(self) -> int:
        """Of how many groups of streams `spans` can see one at a time."""
        return len(self._groups)

    def spans(self, calls: Sequence[Callable[[], object]], group: int = 0) -> list[float]:
        """Milliseconds from the start of the first call until each stream was done with them all.

        The first span is that of the stream that is timed. The streams of the group, of torch's
        pool, begin after the start, so what a call gave to any of them falls into that stream's
        span. The last span is the whole device's, by the clock of the host: it contains streams
        that torch does not know, as far as they outlast the calls.
        """
        with torch.cuda.device(self.device), torch.cuda.stream(self._stream):
            self._prepare(2 * MAX_HOLD_MS)
            self._start.record(self._stream)
            others = self._groups[group]
            for stream in others:
                stream.wait_event(self._start)
            calls[0]()
            self.behind = self._start.query()
            for call in calls[1:]:
                call()
            self._end.record(self._stream)
            for stream, reached in zip(others, self._reached, strict=False):
                reached.record(stream)
            beyond = self._finish(poll_seconds=0)
        spans = [self._start.elapsed_time(reached) for reached in self._reached[: len(others)]]
        own = self._start.elapsed_time(self._end)
        return [own, *spans, own + beyond]

    def free_bytes(self) -> int:
        """Memory that could be allocated now."""
        cached = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return torch.cuda.mem_get_info(self.device)[0] + cached

    def _prepare(self, hold_ms: float) -> None:
        torch.cuda._sleep(int(hold_ms * self.cycles_per_ms))
        self._evictor.zero_()

    def _finish(self, poll_seconds: float = POLL_SECONDS) -> float:
        """Wait for the end event, then for the device. Returns the milliseconds of the latter."""
        # In steps, so that a time limit can interrupt the wait for a hung kernel. A sleep of any
        # length ends some 50 us late, which the milliseconds would be short of.
        while not self._end.query():
            if poll_seconds:
                time.sleep(poll_seconds)
        ended = time.perf_counter()
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - ended)

    def _calibrate(self) -> float:
        """Cycles that `torch.cuda._sleep` spins in a millisecond."""
        readings = []
        for _ in range(5):
            self._start.record(self._stream)
            torch.cuda._sleep(CALIBRATION_CYCLES)
            self._end.record(self._stream)
            self._end.synchronize()
            readings.append(CALIBRATION_CYCLES / self._start.elapsed_time(self._end))
        # An idle GPU speeds up while it is measured.
        return statistics.median(readings[2:])


def _pooled_streams() -> list[torch.cuda.Stream]:
    """Every stream that `torch.cuda.Stream()` can give out on the current device."""
    least, greatest = torch.cuda.Stream.priority_range()
    streams = {}
    for priority in range(greatest, least + 1):
        # The pool of a priority is given out in turn.
        while (stream := torch.cuda.Stream(priority=priority)).cuda_stream not in streams:
            streams[stream.cuda_stream] = stream
    return list(streams.values())
