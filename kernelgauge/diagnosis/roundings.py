"""Whether an element is wrong because numbers are rounded to 16 bits on the way, and in which line.

The subject is called again with other roundings, up or down at random: all of them, and then those
of one line alone. A line is named if the element changes with its roundings by more than is
allowed, and lies nearer to what it should be on average, where nothing is lost by rounding.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from kernelgauge.core.verdict import Verdict
from kernelgauge.core.work import TooMuch, at_most
from kernelgauge.diagnosis.what_if import IMPOSSIBLE
from kernelgauge.memory.call_sites import CallSite
from kernelgauge.memory.roundings import CALLS, FRACTIONS, Roundings
from kernelgauge.words.fault import Note, note

# How often the subject is called with the roundings of one line, and how often before it is seen
# that they matter; of how many lines, and with how much work. Seconds end what the work does not
# count, and so must not end what it does.
DRAWS, FEW = 10, 4
MAX_LINES = 8
MAX_WORK = 15_000.0
MAX_SECONDS = 12.0
# As parts of its error: how far the element must move, what may be left of the error on average,
# and how far it moves where the error is small by luck.
MOVES, LEFT, BY_FAR = 0.4, 0.7, 2.0

# Of a run, those that numbers are rounded to on the way, as in memory.watch.
FORMATS = frozenset(f"{how}{name}" for how in ("", "to ", "scratch ") for name in ("fp16", "bf16"))


@dataclass(frozen=True)
class Rounded:
    """A wrong element, and the means to compute it again.

    got, truth, allowed: its value, what it should be, and the error allowed
    again: calls the subject, and returns the element
    """

    got: float
    truth: float
    allowed: float
    again: Callable[[], float]


class _Spent(Exception):
    """No more calls are made."""


def too_coarse(element: Rounded, only: CallSite | None = None) -> tuple[CallSite, Note] | None:
    """Return the line whose roundings make an element wrong, and what to say of it.

    only: the one line to look at; None for all

    None where nothing is certain. A subject that raises is not asked again.
    """
    if not all(map(math.isfinite, (element.got, element.truth, element.allowed))):
        return None
    search = _Search(element)
    try:
        with at_most(MAX_WORK), contextlib.suppress(_Spent, TooMuch):
            search.run(only)
    except (Verdict, *IMPOSSIBLE):
        return None
    if not search.found:
        return None
    line, moved = max(search.found.items(), key=lambda it: it[1])
    return line, note(
        "rounded-on-the-way",
        line=line.line,
        source=line.call(*CALLS),
        bits=1 + FRACTIONS[search.lines[line]],
        moved=moved,
        allowed=element.allowed,
    )


class _Search:
    """The calls that are made, and what they have shown so far.

    lines: those that round numbers to 16 bits, and the format
    found: those whose roundings explain the error, and how far the element moves with them
    """

    def __init__(self, element: Rounded) -> None:
        self.element = element
        self.lines: dict[CallSite, str] = {}
        self.found: dict[CallSite, float] = {}
        self._until = time.process_time() + MAX_SECONDS

    def run(self, only: CallSite | None) -> None:
        """Try all roundings at once, and then those of each line."""
        with Roundings() as roundings:
            same = self.element.again() == self.element.got
        self.lines = roundings.seen
        tried = [it for it in self.lines if only in (None, it)]
        if not same or not 0 < len(tried) <= MAX_LINES:
            return
        if len(tried) > 1 and not self._moved(None):
            return
        for line in tried:
            if moved := self._moved(line):
                self.found[line] = moved

    def _moved(self, line: CallSite | None) -> float:
        """Return how far the element moves with other roundings, 0 if that explains no error."""
        got, truth, allowed = self.element.got, self.element.truth, self.element.allowed
        values: list[float] = []
        far = 0.0
        for seed in range(DRAWS):
            if time.process_time() > self._until:
                raise _Spent
            with Roundings(seed, line):
                values.append(self.element.again())
            far = max(far, abs(values[-1] - got))
            if not math.isfinite(far) or (seed + 1 == FEW and 2 * far < allowed):
                return 0.0
        off, left = (abs(it - truth) for it in (got, sum(values) / DRAWS))
        explains = far > MOVES * off and left < LEFT * off
        return far if far > allowed and (explains or far > BY_FAR * off) else 0.0
