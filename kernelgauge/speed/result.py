"""What a race measured, as a learner reads it."""

from __future__ import annotations

from dataclasses import dataclass

from kernelgauge.core.figure import Figure
from kernelgauge.speed.interval import Interval
from kernelgauge.speed.roofline import Bound

HEADLINES = {"passed": "fast enough", "failed": "too slow", "inconclusive": "too close to call"}


@dataclass(frozen=True)
class RaceResult:
    """What a race measured.

    interval: the speed-up over the reference
    at_least, scale: the speed-up that the spec asks for, and a factor on it
    bound: the least time that the GPU's limits allow; None if the work or the limit is unknown
    calls, seconds: timed calls of each side, and how long they took
    """

    interval: Interval
    at_least: float
    scale: float
    bound: Bound | None
    calls: int
    seconds: float

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
            "speed-up": self._ratio(),
            "bar": f"{self.bar:.3g}",
            "limit": f"{100 * self.share:.0f} % of {self.bound.limit}" if self.bound else "",
        }

    def figures(self) -> list[Figure]:
        """Return what was measured, beside what is asked for."""
        found = [
            Figure("speed-up over the reference", self.interval.ratio, self.bar, "x", True),
            Figure("time of yours", self.interval.subject_ms, unit="ms"),
            Figure("time of the reference", self.interval.reference_ms, unit="ms"),
        ]
        if self.bound:
            found.append(Figure(f"share of the {self.bound.limit}", 100 * self.share, unit="%"))
        return found

    def message(self) -> str:
        """Return what a learner reads: the figures, the verdict, and what to try."""
        asked = f"the spec asks for {self.at_least:.3g}x"
        if self.scale != 1:
            asked += f", scaled by {self.scale:.3g} to {self.bar:.3g}x"
        columns = self.columns()
        lines = [
            f"{HEADLINES[self.verdict]}: {self._ratio()} the speed of the reference; {asked}",
            f"yours takes {columns['yours']}, the reference {columns['reference']} "
            f"(medians of {self.calls} calls each, the L2 cache flushed before every call)",
        ]
        if self.bound:
            lines.append(f"yours reaches {100 * self.share:.0f} % of this GPU's {self.bound.limit}")
        if self.verdict == "failed":
            lines.append(f"hint: {self._hint()}")
        if self.verdict == "inconclusive":
            lines.append(
                f"after {self.seconds:.1f} s of timing the interval in brackets still contains the "
                "bar, so reaching it may be luck, which is not a pass\n"
                "hint: make the kernel 1 % faster, or run again on an otherwise idle GPU"
            )
        return "\n".join(lines)

    def _ratio(self) -> str:
        interval = self.interval
        ratio, low, high = (
            f"{number:.2f}" if number < 9.995 else f"{number:.3g}"
            for number in (interval.ratio, interval.low, interval.high)
        )
        return f"{ratio}x [{low}, {high}]"

    def _hint(self) -> str:
        if not self.bound:
            return "count how often each element is loaded and stored, and how many kernels run"
        if "bandwidth" not in self.bound.limit:
            return "try other tile sizes, num_warps and num_stages, and a program order for the L2"
        if self.share > 0.8:
            return "the memory is busy all the time: load and store each element only once"
        return (
            "check that neighbouring lanes access neighbouring addresses, that each element is "
            "loaded only once, and that each program has enough work"
        )
