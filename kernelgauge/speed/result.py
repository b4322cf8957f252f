"""What a race measured, beside what is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernelgauge.core.figure import Figure
from kernelgauge.speed.clocks import Clocks
from kernelgauge.speed.interval import Interval
from kernelgauge.speed.roofline import Bound
from kernelgauge.words.compiling import speed_up
from kernelgauge.words.fault import Fault, Note, note


@dataclass(frozen=True)
class RaceResult:
    """What a race measured.

    interval: the speed-up over the reference
    at_least, scale: the speed-up that the spec asks for, and a factor on it
    bound: the least time that the GPU's limits allow; None if the work or the limit is unknown
    calls, seconds: timed calls of each side, and how long they took
    clocks: the GPU's clock beside them; None if it could not be read
    """

    interval: Interval
    at_least: float
    scale: float
    bound: Bound | None
    calls: int
    seconds: float
    clocks: Clocks | None = None

    @property
    def bar(self) -> float:
        """The speed-up to reach."""
        return self.at_least * self.scale

    @property
    def verdict(self) -> str:
        """Whether the bar is reached: "passed", "failed" or "inconclusive"."""
        return self.interval.verdict(self.bar)

    @property
    def share(self) -> float | None:
        """The part of the GPU's limit that the subject reaches; None if unknown."""
        return self.bound.ms / self.interval.subject_ms if self.bound else None

    def summary(self) -> str:
        """Return a few words for the scoreboard."""
        columns = self.columns()
        words = f"{columns['speed-up']}, bar {columns['bar']}"
        return f"{words}; {columns['limit']}" if columns["limit"] else words

    def columns(self) -> dict[str, str]:
        """Return this race's line of the table that a run ends with, by heading."""
        return {
            "yours": f"{self.interval.subject_ms:.4g} ms",
            "reference": f"{self.interval.reference_ms:.4g} ms",
            "speed-up": speed_up(self.interval.ratio, self.interval.low, self.interval.high),
            "bar": f"{self.bar:.3g}",
            "limit": f"{self._percent:.0f} % of {self.bound.limit}" if self.bound else "",
        }

    def figures(self) -> list[Figure]:
        """Return what was measured, beside what is asked for."""
        found = [
            Figure("speed-up over the reference", self.interval.ratio, self.bar, "x", True),
            Figure("time of yours", self.interval.subject_ms, unit="ms"),
            Figure("time of the reference", self.interval.reference_ms, unit="ms"),
        ]
        if self.bound:
            found.append(Figure(f"share of the {self.bound.limit}", self._percent, unit="%"))
        return found

    def plain(self) -> dict[str, Any]:
        """Return what was measured in Python's own types: milliseconds, ratios, and the limit."""
        interval = self.interval
        limit = {"name": self.bound.limit, "share": self.share} if self.bound else None
        return {
            "verdict": self.verdict,
            "subject_ms": interval.subject_ms,
            "reference_ms": interval.reference_ms,
            "speedup": interval.ratio,
            "low": interval.low,
            "high": interval.high,
            "at_least": self.at_least,
            "scale": self.scale,
            "calls": self.calls,
            "seconds": self.seconds,
            "limit": limit,
            "clocks": self.clocks.plain() if self.clocks else None,
        }

    def fault(self) -> Fault:
        """Return what is wrong with a race that is not won: the figures, and what to try."""
        interval = self.interval
        speed = {"ratio": interval.ratio, "low": interval.low, "high": interval.high}
        times = {"subject": interval.subject_ms, "reference": interval.reference_ms}
        undecided = self.verdict == "inconclusive"
        said = [
            note(
                "race-undecided" if undecided else "race-lost",
                **speed,
                at_least=self.at_least,
                scale=self.scale,
            ),
            note("race-times", **times, calls=self.calls),
        ]
        if self.bound:
            said.append(note("share-of-limit", percent=self._percent, limit=self.bound.limit))
        if undecided:
            said.append(note("interval-contains-bar", seconds=self.seconds))
            said += [self.clocks.note()] if self.clocks else []
        numbers = speed | {"at_least": self.bar, "milliseconds": times}
        remedy = note("one-percent-faster") if undecided else self._remedy()
        return Fault("too-slow", tuple(said), numbers=numbers, remedy=remedy)

    @property
    def _percent(self) -> float:
        return 100 * (self.share or 0.0)

    def _remedy(self) -> Note:
        if not self.bound:
            return note("count-loads-and-kernels")
        if self.bound.unit != "B":
            return note("other-tiles-and-warps")
        return note("each-element-once" if self._percent > 80 else "neighbouring-addresses")
