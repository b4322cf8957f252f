"""What a race found, and how a learner is told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RaceResult:
    """What a race found.

    subject_ms, reference_ms: medians of a call
    ratio, low, high: the speed-up, and its 95 % interval
    at_least, scale: what the spec asks for, and the factor that was put on it
    verdict: "passed", "failed" or "inconclusive"
    share, limit: the part of the GPU's measured limit that the subject reaches, and which limit;
        None where the work or the limit is not known
    calls, seconds: how often each side was timed, and how long that took
    """

    subject_ms: float
    reference_ms: float
    ratio: float
    low: float
    high: float
    at_least: float
    scale: float
    verdict: str
    share: float | None
    limit: str | None
    calls: int
    seconds: float

    @property
    def bar(self) -> float:
        return self.at_least * self.scale

    def summary(self) -> str:
        """A few words for the scoreboard."""
        columns = self.columns()
        words = f"{columns['speed-up']}, bar {columns['bar']}"
        return f"{words}; {columns['limit']}" if columns["limit"] else words

    def columns(self) -> dict[str, str]:
        """One line of the table that a run ends with: what it measured, by heading."""
        return {
            "yours": f"{self.subject_ms:.4g} ms",
            "reference": f"{self.reference_ms:.4g} ms",
            "speed-up": self._ratio(),
            "bar": f"{self.bar:.3g}",
            "limit": f"{100 * self.share:.0f} % of {self.limit}" if self.limit else "",
        }

    def message(self) -> str:
        """What a learner reads: the numbers, and what they mean for the verdict."""
        asked = f"the spec asks for {self.at_least:.3g}x"
        if self.scale != 1:
            asked += f", scaled by {self.scale:.3g} to {self.bar:.3g}x"
        headlines = {
            "passed": "fast enough",
            "failed": "too slow",
            "inconclusive": "too close to call",
        }
        lines = [
            f"{headlines[self.verdict]}: {self._ratio()} the speed of the reference, and {asked}",
            f"yours {self.subject_ms:.4g} ms, the reference {self.reference_ms:.4g} ms "
            f"(medians of {self.calls} calls each, L2 flushed before each)",
        ]
        if self.share is not None:
            lines.append(f"yours reaches {100 * self.share:.0f} % of this GPU's {self.limit}")
        if self.verdict == "failed":
            lines.append(f"hint: {self._hint()}")
        if self.verdict == "inconclusive":
            lines.append(
                f"the interval in brackets still holds the bar after {self.seconds:.1f} s, so to "
                "reach it may be luck: that is no pass\n"
                "hint: make the kernel 1 % faster, or run again on a GPU that does nothing else"
            )
        return "\n".join(lines)

    def _ratio(self) -> str:
        ratio, low, high = (
            f"{number:.2f}" if number < 9.995 else f"{number:.3g}"
            for number in (self.ratio, self.low, self.high)
        )
        return f"{ratio}x [{low}, {high}]"

    def _hint(self) -> str:
        if self.share is None or self.limit is None:
            return "how often does each element cross the memory, and how many launches are there?"
        if "bandwidth" not in self.limit:
            return "try other tile sizes, num_warps and num_stages, and an order of programs for L2"
        if self.share > 0.8:
            return "the memory is busy all the time: move each element once, and nothing else"
        return (
            "are neighbouring lanes on neighbouring addresses, is each element loaded once, and "
            "has each program enough to do?"
        )
