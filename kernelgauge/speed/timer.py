"""The time that one call takes on a GPU, without its launch.

Each call is timed separately, on an idle device:

    hold | flush the L2 | start event | the call | end event | wait for the whole device

The hold is a kernel that spins. It keeps the stream busy while the host queues everything else, so
that the time between the events is the GPU's, without what Python and the driver take to launch. If
the host was too slow, the next hold is longer. A call that waits for the GPU itself (`item`) cannot
be held; the time that it keeps the GPU waiting then counts.

The flush overwrites a buffer several times as large as the L2. So the call finds none of its inputs
in the cache and, as after another kernel in a real program, pays for writing back what it evicts.
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
# A call that takes longer than this to queue is waiting for the GPU; a longer hold would not help.
MAX_HOLD_MS = 4.0
# The holds of `spans`, under which other streams are held back too before the first call.
FIRST_AUDIT_HOLD_MS, MAX_AUDIT_HOLD_MS = 1.0, 2 * MAX_HOLD_MS
CALIBRATION_CYCLES = 2_000_000
POLL_SECONDS = 20e-6
# How many streams can wait for an event without delaying one another: on an H200 the last of 32 was
# on time, and the last of torch's whole pool 0.1 ms late.
STREAMS = 32


class CudaTimer:
    """A timer of calls on the current GPU and its current stream, as of when the timer is made.

    beside: other GPUs that a call works on. They are held and flushed too; the time begins when all
        are ready, and ends when all are done
    behind: whether the GPU had finished the flush before the last call was queued, so that the time
        may include time of the host; after `spans`, whether its first call waits for the GPU, since
        the hold is long enough for any other call
    cycles_per_ms: how many cycles `torch.cuda._sleep` spins in a millisecond
    """

    def __init__(self, beside: Sequence[torch.device] = ()):
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.behind = False
        self._hold_ms = FIRST_HOLD_MS
        self._audit_hold_ms = FIRST_AUDIT_HOLD_MS
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
        self._beside: list[tuple[torch.cuda.Stream, torch.Tensor]] = []
        for device in beside:
            with torch.cuda.device(device):
                evictor = torch.empty_like(self._evictor, device=device)
                self._beside.append((torch.cuda.current_stream(), evictor))

    def time(self, call: Callable[[], T]) -> tuple[float, T]:
        """Time a call: milliseconds, and what it returned. The device is idle afterwards."""
        with torch.cuda.device(self.device), torch.cuda.stream(self._stream):
            self._prepare(self._hold_ms)
            self._start.record(self._stream)
            returned = call()
            self._wait_for_others()
            self._end.record(self._stream)
            self.behind = self._start.query()
            self._finish()
        if self.behind:
            self._hold_ms = min(2 * self._hold_ms, MAX_HOLD_MS)
        return self._start.elapsed_time(self._end), returned

    @property
    def groups(self) -> int:
        """The number of groups of streams, of which `spans` can watch one at a time."""
        return len(self._groups)

    def spans(self, calls: Sequence[Callable[[], object]], group: int = 0) -> list[float]:
        """Return the milliseconds from the start of the first call until each stream is done.

        The first span is that of the timed stream. The streams of the group, from torch's pool, are
        held back until the start, so any work that a call puts on one of them is in its span. The
        last span is that of the whole device, by the clock of the host; it shows work on streams
        unknown to torch, as far as that outlasts the calls.
        """
        with torch.cuda.device(self.device), torch.cuda.stream(self._stream):
            others = self._groups[group]
            while True:
                self._prepare(self._audit_hold_ms)
                self._start.record(self._stream)
                for stream in others:
                    stream.wait_event(self._start)
                calls[0]()
                self.behind = self._start.query()
                for call in calls[1:]:
                    call()
                if self._audit_hold_ms == MAX_AUDIT_HOLD_MS or not self._start.query():
                    break
                # Otherwise the GPU would wait for the host between the calls.
                self._end.record(self._stream)
                self._finish()
                self._audit_hold_ms = min(2 * self._audit_hold_ms, MAX_AUDIT_HOLD_MS)
            self._wait_for_others()
            self._end.record(self._stream)
            for stream, reached in zip(others, self._reached, strict=False):
                reached.record(stream)
            beyond = self._finish(poll_seconds=0)
        spans = [self._start.elapsed_time(reached) for reached in self._reached[: len(others)]]
        own = self._start.elapsed_time(self._end)
        return [own, *spans, own + beyond]

    def free_bytes(self) -> int:
        """Return how many bytes could be allocated now."""
        cached = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return torch.cuda.mem_get_info(self.device)[0] + cached

    def _prepare(self, hold_ms: float) -> None:
        torch.cuda._sleep(int(hold_ms * self.cycles_per_ms))
        self._evictor.zero_()
        for _, evictor in self._beside:
            with torch.cuda.device(evictor.device):
                torch.cuda._sleep(int(hold_ms * self.cycles_per_ms))
                evictor.zero_()
        if self._beside:
            ready = self._stream.record_event()
            self._wait_for_others()
            for stream, _ in self._beside:
                stream.wait_event(ready)

    def _wait_for_others(self) -> None:
        """Let the timed stream wait for those of the other GPUs."""
        for stream, _ in self._beside:
            self._stream.wait_event(stream.record_event())

    def _finish(self, poll_seconds: float = POLL_SECONDS) -> float:
        """Wait for the end event, then for the device. Returns how many ms the latter took."""
        # Poll, so that a time limit can interrupt the wait for a hung kernel. A sleep of any length
        # ends some 50 us late, by which the result would be too short.
        while not self._end.query():
            if poll_seconds:
                time.sleep(poll_seconds)
        ended = time.perf_counter()
        torch.cuda.synchronize()
        for stream, _ in self._beside:
            stream.synchronize()
        return 1e3 * (time.perf_counter() - ended)

    def _calibrate(self) -> float:
        """Measure how many cycles `torch.cuda._sleep` spins in a millisecond."""
        readings = []
        for _ in range(5):
            self._start.record(self._stream)
            torch.cuda._sleep(CALIBRATION_CYCLES)
            self._end.record(self._stream)
            self._end.synchronize()
            readings.append(CALIBRATION_CYCLES / self._start.elapsed_time(self._end))
        # An idle GPU speeds up during the first readings.
        return statistics.median(readings[2:])


def _pooled_streams() -> list[torch.cuda.Stream]:
    """Return every stream that `torch.cuda.Stream()` can return on the current device."""
    least, greatest = torch.cuda.Stream.priority_range()  # type: ignore[call-arg]
    streams = {}
    for priority in range(greatest, least + 1):
        # torch returns the streams of a priority in turn, and then the first again.
        while (stream := torch.cuda.Stream(priority=priority)).cuda_stream not in streams:
            streams[stream.cuda_stream] = stream
    return list(streams.values())
