"""The race: is a subject so many times as fast as the reference, and was the time honest?

Order. Subject (A) and reference (B) take turns as A B B A B A A B, a block. Whatever the place in a
pair, in the block, or a steady drift adds to one of them it adds to the other.

Verdict. "passed" where the lower end of the ratio's interval reaches the bar, "failed" where the
upper end is under it. In between, more blocks; if time runs out, or more would not help,
"inconclusive", which is no pass.

Honesty. A time counts only if what the timed calls returned is right, if all their work was done on
the stream that was timed, if numbers that were never seen before take no longer than known ones,
and if no physical limit says that it is too short.
"""

from __future__ import annotations

import functools
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from judge.core.tensors import nbytes
from judge.core.verdict import Wrong
from judge.speed.buffers import Buffers, poison, snapshot
from judge.speed.interval import Block, interval_of
from judge.speed.result import RaceResult
from judge.speed.roofline import Limits
from judge.speed.timer import CudaTimer

# Who runs first in the pairs of a block: the subject, the reference, the reference, the subject.
SUBJECT_FIRST = (True, False, False, True)

WARMUP_SECONDS, WARMUP_PAIRS = 0.1, 3
MIN_BLOCKS, MIN_SECONDS = 8, 0.5
MAX_BLOCKS = 400

AUDITS = 7
# Streams wake up to 0.18 ms after what they wait for, and so may the second kernel of a call: on an
# H200. So calls are repeated until they last some 20 times as long, the shortest 60 times.
AUDITED_MS, SHORTEST_MS = 3.0, 0.05
# What of the calls' time may lie outside the stream unnoticed, or be more than by themselves.
MAX_SHARE_ELSEWHERE, MAX_SHARE_LONGER, MAX_MS_ELSEWHERE = 0.1, 0.25, 0.3
# How much quicker a call may be on numbers that it knows: of two short calls one after the other
# the second was measured to be up to 10 % quicker.
MAX_GAIN_WHEN_KNOWN = 1.2


def race(
    subject: Callable,
    reference: Callable,
    inputs: tuple | Callable[[int], tuple],
    *,
    at_least: float,
    bytes_moved: int | None = None,
    operations: tuple[float, str | torch.dtype] | None = None,
    check: Callable[[tuple, object], None] | None = None,
    limits: Limits | None = None,
    max_seconds: float = 20.0,
    scale: float = 1.0,
    timer: CudaTimer | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> RaceResult:
    """Time a subject against the reference, alone on the GPU (see judge/speed/gpu_lock.py).

    subject, reference: called with the inputs; one that works in place returns what it changed
    inputs: the arguments, or a function that makes them (see `Buffers`)
    at_least, scale: the bar is their product
    bytes_moved, operations: the least that the work takes, for the share of the limit and the floor
    check: called with the inputs and the result of some timed calls, drawn at random; raises Wrong
        on a wrong result, and changes neither
    max_seconds: bound of the measuring, which begins when both have run once
    timer, clock: what measures

    Raises Wrong if the time was not honest, ValueError if the reference itself beats the floor, and
    what the subject raises.
    """
    timer = timer or CudaTimer()
    turns = _PairedRuns(subject, reference, Buffers(inputs, timer.free_bytes()), timer)
    turns.compile()
    began = clock()

    def is_over() -> bool:
        return clock() - began > max_seconds

    turns.warm_up(lambda: clock() - began > min(WARMUP_SECONDS, max_seconds), is_over)
    bar, target = at_least * scale, MIN_BLOCKS
    while True:
        over = turns.block(is_over)
        if not over and (len(turns.blocks) < target or clock() - began < MIN_SECONDS):
            continue
        found = interval_of(turns.blocks)
        verdict = found.verdict(bar)
        last = over or found.settled or len(turns.blocks) >= MAX_BLOCKS
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
    bound = None
    if limits:
        written = max(nbytes(result) for result in turns.kept.values())
        if beaten := limits.impossible(found.reference_ms, bytes_moved, operations, written):
            raise ValueError(f"the reference does less than is counted for it: {beaten}")
        if beaten := limits.impossible(found.subject_ms, bytes_moved, operations, written):
            raise Wrong(
                f"impossible time: {beaten}\n"
                "hint: the call did not do its work, or returned before it was done"
            )
        bound = limits.bound(bytes_moved, operations)
    return RaceResult(
        subject_ms=found.subject_ms,
        reference_ms=found.reference_ms,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        at_least=at_least,
        scale=scale,
        verdict=verdict,
        share=bound.ms / found.subject_ms if bound else None,
        limit=bound.limit if bound else None,
        calls=sum(len(block[0]) for block in turns.blocks),
        seconds=seconds,
    )


@dataclass
class _PairedRuns:
    """Subject and reference, called in turn. kept: by content, one timed result drawn at random."""

    subject: Callable
    reference: Callable
    buffers: Buffers
    timer: CudaTimer
    blocks: list[Block] = field(default_factory=list)
    kept: dict[int, object] = field(default_factory=dict)
    _seen: dict[int, int] = field(default_factory=dict)
    _pairs: int = 0
    # Not seeded: a subject must not know which contents come next.
    _random: random.Random = field(default_factory=random.Random)

    def compile(self) -> None:
        """The first call of each, which may compile and tune, is not timed."""
        for function in (self.subject, self.reference):
            function(*self.buffers.fill(0, 0))

    def warm_up(self, is_enough: Callable[[], bool], is_over: Callable[[], bool]) -> None:
        """Time pairs, and forget the times."""
        pairs = 0
        while not is_over() and not (pairs >= WARMUP_PAIRS and is_enough()):
            self._pair(subject_first=True)
            pairs += 1

    def block(self, is_over: Callable[[], bool]) -> bool:
        """Time a block. Returns whether time ran out; an unfinished block counts if it is alone."""
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
        """Raises Wrong if `check` finds a kept result wrong."""
        for content, result in self.kept.items() if check else ():
            try:
                check(self.buffers.contents[content], result)
            except Wrong as wrong:
                raise Wrong(
                    f"a result that was returned while the time was taken is wrong: {wrong}\n"
                    "hint: results must not depend on an earlier call; while the time is taken, "
                    "the same memory holds new numbers in every call"
                ) from wrong

    def check_streams(self) -> None:
        """Raises Wrong if the device did work for the subject outside the stream that is timed."""
        contents = len(self.buffers.contents)
        ms = float(
            np.median([self._time(0, number, number % contents) for number in range(AUDITS)])
        )
        waits = self.timer.behind
        for group in range(self.timer.groups):
            for audits in (AUDITS, 3 * AUDITS):
                found = self._work_elsewhere(ms, waits, group, audits)
                if not found:
                    break
            else:
                raise Wrong(
                    f"work outside the timed stream: {found}\n"
                    "hint: launch on the current stream, the one that Triton takes unless told "
                    "otherwise"
                )

    def check_memory(self) -> None:
        """Raises Wrong if the subject is quicker on numbers that it knows. Keeps new results."""
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
        raise Wrong(
            f"remembers what it computed: a call takes {new_ms:.3g} ms on numbers that it never "
            f"saw, and {known_ms:.3g} ms on the same numbers again\n"
            "hint: compute the result in every call, from the arguments alone"
        )

    def _work_elsewhere(self, ms: float, waits: bool, group: int, audits: int) -> str:
        """How other streams are seen to work for the subject, or nothing.

        ms, waits: what a call takes by itself, and whether it waits for the GPU: the streams would
            not begin with a second call then
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
            return "the call waits for another stream"
        # Quartiles, since streams wake sooner or later: work makes nearly every span longer.
        measured = np.array(spans) / number  # [audits, streams], the first the call's own
        own = np.quantile(measured[:, 0], 0.25)
        beyond = np.quantile(measured[:, 1:] - measured[:, :1], 0.25, axis=0).max()
        unnoticed = MAX_MS_ELSEWHERE / number
        if own - ms > max(MAX_SHARE_LONGER * ms, unnoticed):
            return (
                f"a call takes {ms:.3g} ms, and {own:.3g} ms where other streams begin with it, "
                "not before"
            )
        if beyond > max(MAX_SHARE_ELSEWHERE * own, unnoticed):
            return f"the stream was done after {own:.3g} ms, the GPU after {own + beyond:.3g} ms"
        return ""

    def _pair(self, subject_first: bool) -> tuple[float, float]:
        """Milliseconds of the subject and of the reference, at one place, with one content."""
        self._pairs += 1
        content = self._random.randrange(len(self.buffers.contents))
        if subject_first:
            subject_ms = self._time(0, self._pairs, content)
            return subject_ms, self._time(1, self._pairs, content)
        reference_ms = self._time(1, self._pairs, content)
        return self._time(0, self._pairs, content), reference_ms

    def _time(self, who: int, place: int, content: int) -> float:
        """Milliseconds of one call, of the subject (0) or the reference (1)."""
        function = self.reference if who else self.subject
        arguments = self.buffers.fill(place, content)
        ms, result = self.timer.time(lambda: function(*arguments))
        if who == 0:
            # Each timed result of this content is kept with the same probability.
            self._seen[content] = self._seen.get(content, 0) + 1
            if self._random.randrange(self._seen[content]) == 0:
                self.kept[content] = snapshot(result)
        poison(result)
        return ms
