"""The race: whether a subject is fast enough compared with the reference, and honestly timed.

Order: subject (A) and reference (B) take turns as A B B A B A A B, one block. So the position in a
pair, the position in the block and a steady drift affect both alike.

Verdict: "passed" if the lower end of the speed-up's interval reaches the bar, "failed" if the upper
end stays below it. In between, more blocks are timed; if time runs out, or more would not help, the
verdict is "inconclusive", which is not a pass.

Honesty: the times count only if the timed calls returned right results, did all their work on the
timed stream, take no longer on new values than on known ones, and are not impossibly short.
"""

from __future__ import annotations

import functools
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kernelgauge.core.tensors import nbytes
from kernelgauge.core.verdict import Wrong
from kernelgauge.speed import clocks
from kernelgauge.speed.buffers import Buffers, poison, snapshot
from kernelgauge.speed.interval import Block, interval_of
from kernelgauge.speed.result import RaceResult
from kernelgauge.speed.roofline import Limits, Operations
from kernelgauge.speed.timer import CudaTimer
from kernelgauge.words import say
from kernelgauge.words.fault import Fault, Note, note

# Whether the subject runs first, in each pair of a block.
SUBJECT_FIRST = (True, False, False, True)

WARMUP_SECONDS, WARMUP_PAIRS = 0.1, 3
MIN_BLOCKS, MIN_SECONDS = 8, 0.5
MAX_BLOCKS = 400

AUDITS = 7
# On an H200, a stream wakes up to 0.18 ms after the event that it waits for, and the second kernel
# of a call may be as late. So calls are repeated until they take some 20 times as long, the
# shortest 60 times.
AUDITED_MS, SHORTEST_MS = 3.0, 0.05
# What is tolerated: how much later other streams are done, how much longer a call takes while those
# are held back (both as shares of its time), and milliseconds, over all repetitions, for either.
MAX_SHARE_ELSEWHERE, MAX_SHARE_LONGER, MAX_MS_ELSEWHERE = 0.1, 0.25, 0.3
# How many times as long a call may take on new values as on known ones. The second of two short
# calls in a row was measured to be up to 10 % faster than the first.
MAX_GAIN_WHEN_KNOWN = 1.2


def race(
    subject: Callable,
    reference: Callable,
    inputs: tuple | Callable[[int], tuple],
    *,
    at_least: float,
    bytes_moved: int | None = None,
    operations: Operations | None = None,
    check: Callable[[tuple, object], None] | None = None,
    limits: Limits | None = None,
    max_seconds: float = 20.0,
    scale: float = 1.0,
    timer: CudaTimer | None = None,
    clock: Callable[[], float] = time.monotonic,
    read_clocks: Callable[[], clocks.Clocks | None] = clocks.read,
) -> RaceResult:
    """Time a subject against the reference, alone on the GPU (see kernelgauge/speed/gpu_lock.py).

    subject, reference: called with the inputs; one that works in place returns what it changed
    inputs: the arguments, or a function that makes them (see `Buffers`)
    at_least, scale: the required speed-up is their product
    bytes_moved, operations: the least work, for the share of the limit and the impossible times
    check: called with the inputs and the result of some timed calls, drawn at random; raises Wrong
        if the result is wrong, and must not change either
    limits: the measured limits of this GPU; without them no time is impossible
    max_seconds: how long to time at most, after one untimed call of each
    timer, clock, read_clocks: replaced in tests

    Raises Wrong if the times are not honest, ValueError if the reference itself is impossibly fast,
    and whatever the subject raises.
    """
    timer = timer or CudaTimer()
    turns = _PairedRuns(subject, reference, Buffers(inputs, timer.free_bytes()), timer)
    turns.compile()
    began = clock()

    def is_over() -> bool:
        return clock() - began > max_seconds

    turns.warm_up(lambda: clock() - began > WARMUP_SECONDS, is_over)
    bar, target = at_least * scale, MIN_BLOCKS
    readings = []
    while True:
        over = turns.block(is_over)
        readings.append(read_clocks())
        if not over and (len(turns.blocks) < target or clock() - began < MIN_SECONDS):
            continue
        interval = interval_of(turns.blocks)
        verdict = interval.verdict(bar)
        last = over or interval.settled or len(turns.blocks) >= MAX_BLOCKS
        if last or verdict != "inconclusive":
            break
        target = math.ceil(1.5 * len(turns.blocks))
    seconds = clock() - began
    if verdict != "failed":
        turns.check_streams()
    turns.check_results(check)
    if verdict != "failed":
        turns.check_memory()
        turns.check_results(check)
    if limits:
        written = max(nbytes(result) for result in turns.kept.values())
        if beaten := limits.impossible(interval.reference_ms, bytes_moved, operations, written):
            raise ValueError(f"the work counted is more than the reference does: {say(beaten)}")
        if beaten := limits.impossible(interval.subject_ms, bytes_moved, operations, written):
            said = note("impossible-time", arithmetic=beaten)
            numbers = {"milliseconds": interval.subject_ms}
            remedy = note("call-did-not-work")
            raise Wrong(Fault("impossible-time", (said,), numbers=numbers, remedy=remedy))
    return RaceResult(
        interval=interval,
        at_least=at_least,
        scale=scale,
        bound=limits.bound(bytes_moved, operations) if limits else None,
        calls=sum(len(block[0]) for block in turns.blocks),
        seconds=seconds,
        clocks=clocks.joined(readings),
    )


@dataclass
class _PairedRuns:
    """A subject and its reference, called in turn.

    blocks: the times measured
    kept: for each content one of the subject's timed results, drawn at random
    """

    subject: Callable
    reference: Callable
    buffers: Buffers
    timer: CudaTimer
    blocks: list[Block] = field(default_factory=list)
    kept: dict[int, object] = field(default_factory=dict)
    _seen: dict[int, int] = field(default_factory=dict)
    _pairs: int = 0
    # Not seeded, so that a subject cannot predict the order of the contents.
    _random: random.Random = field(default_factory=random.Random)

    def compile(self) -> None:
        """Call each once without timing it, since it may compile and tune."""
        for function in (self.subject, self.reference):
            function(*self.buffers.fill(0, 0))

    def warm_up(self, is_enough: Callable[[], bool], is_over: Callable[[], bool]) -> None:
        """Call both in turn, and discard the times."""
        pairs = 0
        while not is_over() and not (pairs >= WARMUP_PAIRS and is_enough()):
            self._pair(subject_first=True)
            pairs += 1

    def block(self, is_over: Callable[[], bool]) -> bool:
        """Time a block, and return whether time ran out.

        An unfinished block is dropped, unless it is the first.
        """
        subject, reference = [], []
        for subject_first in SUBJECT_FIRST:
            subject_ms, reference_ms = self._pair(subject_first)
            subject.append(subject_ms)
            reference.append(reference_ms)
            over = is_over()
            if over:
                break
        if len(subject) == len(SUBJECT_FIRST) or not self.blocks:
            self.blocks.append((subject, reference))
        return over

    def check_results(self, check: Callable[[tuple, object], None] | None) -> None:
        """Raise Wrong if `check` finds that a kept result is wrong."""
        if check is None:
            return
        for content, result in self.kept.items():
            try:
                check(self.buffers.contents[content], result)
            except Wrong as wrong:
                what, *rest = wrong.fault.said
                said = note("timed-call-wrong", what=what), *rest
                remedy = note("same-memory-other-values")
                raise Wrong(wrong.fault.but(said=said, remedy=remedy)) from wrong

    def check_streams(self) -> None:
        """Raise Wrong if work of the subject ran outside the timed stream."""
        contents = len(self.buffers.contents)
        ms = float(
            np.median([self._time(0, number, number % contents) for number in range(AUDITS)])
        )
        waits = self.timer.behind
        for group in range(self.timer.groups):
            found = self._work_elsewhere(ms, waits, group, AUDITS)
            if found and (found := self._work_elsewhere(ms, waits, group, 3 * AUDITS)):
                said = note("work-outside-stream", evidence=found)
                remedy = note("launch-on-current-stream")
                raise Wrong(Fault("outside-kernel", (said,), numbers=found.values, remedy=remedy))

    def check_memory(self) -> None:
        """Raise Wrong if the subject is faster on values that it has seen. Keeps new results."""
        for audits in (AUDITS, 3 * AUDITS):
            new, known = [], []
            for number in range(audits):
                content = self.buffers.renew()
                self.kept.clear()
                self._seen.clear()
                new.append(self._time(0, number, content))
                known.append(self._time(0, number + 1, content))
            new_ms, known_ms = float(np.median(new)), float(np.median(known))
            if new_ms <= MAX_GAIN_WHEN_KNOWN * known_ms:
                return
        numbers = {"new": new_ms, "known": known_ms}
        said = note("faster-on-known-values", **numbers)
        remedy = note("compute-in-every-call")
        raise Wrong(Fault("outside-kernel", (said,), numbers=numbers, remedy=remedy))

    def _work_elsewhere(self, ms: float, waits: bool, group: int, audits: int) -> Note | None:
        """Return how the subject's work on other streams shows, None if it does not.

        ms: how long a call takes by itself
        waits: whether a call waits for the GPU; then only one is audited at a time, because the
            other streams would not start together with a second one
        """
        number = 1 if waits else math.ceil(AUDITED_MS / max(ms, SHORTEST_MS))
        places = min(number, len(self.buffers.places))
        spans, waited = [], []
        for audit in range(audits):
            content = audit % len(self.buffers.contents)
            calls = [
                functools.partial(self.subject, *self.buffers.fill(place, content))
                for place in range(places)
            ]
            spans.append(self.timer.spans((calls * number)[:number], group))
            waited.append(self.timer.behind)
        if not waits and np.mean(waited) > 0.75:
            return note("waits-for-stream")
        # Lower quartiles: a stream may wake late, but hidden work lengthens nearly every span.
        measured = np.array(spans) / number  # [audits, streams], the timed stream first
        own = float(np.quantile(measured[:, 0], 0.25))
        beyond = float(np.quantile(measured[:, 1:] - measured[:, :1], 0.25, axis=0).max())
        unnoticed = MAX_MS_ELSEWHERE / number
        if own - ms > max(MAX_SHARE_LONGER * ms, unnoticed):
            return note("slower-without-other-streams", alone=ms, held=own)
        if beyond > max(MAX_SHARE_ELSEWHERE * own, unnoticed):
            return note("gpu-done-later", stream=own, gpu=own + beyond)
        return None

    def _pair(self, subject_first: bool) -> tuple[float, float]:
        """Return milliseconds of the subject and the reference, with one content at one place."""
        self._pairs += 1
        content = self._random.randrange(len(self.buffers.contents))
        order = (0, 1) if subject_first else (1, 0)
        ms = {who: self._time(who, self._pairs, content) for who in order}
        return ms[0], ms[1]

    def _time(self, who: int, place: int, content: int) -> float:
        """Return milliseconds of one call of the subject (0) or the reference (1)."""
        function = self.reference if who else self.subject
        arguments = self.buffers.fill(place, content)
        ms, result = self.timer.time(lambda: function(*arguments))
        if who == 0:
            # Reservoir sampling: each timed result of this content is equally likely to be kept.
            self._seen[content] = self._seen.get(content, 0) + 1
            if self._random.randrange(self._seen[content]) == 0:
                self.kept[content] = snapshot(result)
        poison(result)
        return ms
