"""The speed-up of a subject over its reference: a ratio of medians, with an interval.

Subject and reference are timed in blocks of a few calls each. A block counts by the median of each
side, so that a disturbed call does not matter. The speed-up is the ratio of the medians over all
blocks, and its interval comes from a bootstrap over blocks, which keeps together what was measured
side by side.

Chance shrinks with the number of blocks; the margin added at both ends does not. It is 0.5 %, the
most by which a kernel differed from itself on an H200 (with 16 Mi elements and more), or the
resolution of an event if that is more. So a kernel exactly as fast as the bar is always
inconclusive, however lucky its times are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SYSTEMATIC_ERROR = 0.005
EVENT_RESOLUTION_MS = 0.0005
RESAMPLES = 2000
# Fewer blocks say too little about their spread for a bootstrap: the interval is their extremes.
MIN_BLOCKS_TO_RESAMPLE = 6
# With fewer blocks, a narrow interval may itself be luck.
MIN_BLOCKS_TO_SETTLE = 40

# Milliseconds of the subject's and of the reference's calls, which took turns.
Block = tuple[list[float], list[float]]


@dataclass(frozen=True)
class Interval:
    """How many times as fast as the reference a subject is.

    subject_ms, reference_ms: medians of the blocks' medians
    ratio, low, high: reference_ms / subject_ms and its 95 % interval
    settled: whether chance adds so little to the margin that more blocks would not help
    """

    subject_ms: float
    reference_ms: float
    ratio: float
    low: float
    high: float
    settled: bool

    def verdict(self, bar: float) -> str:
        """Return whether the ratio reaches the bar: "passed", "failed" or "inconclusive"."""
        if self.low >= bar:
            return "passed"
        return "failed" if self.high < bar else "inconclusive"


def interval_of(blocks: list[Block]) -> Interval:
    """Compute the interval from one block or more."""
    medians = np.array([[np.median(side) for side in block] for block in blocks])
    subject_ms, reference_ms = np.median(medians, axis=0)
    margin = max(SYSTEMATIC_ERROR, EVENT_RESOLUTION_MS / min(subject_ms, reference_ms))
    if len(blocks) < MIN_BLOCKS_TO_RESAMPLE:
        subject = [ms for block in blocks for ms in block[0]]
        reference = [ms for block in blocks for ms in block[1]]
        low, high = min(reference) / max(subject), max(reference) / min(subject)
    else:
        drawn = np.random.default_rng(0).integers(len(blocks), size=(RESAMPLES, len(blocks)))
        resampled = np.median(medians[drawn], axis=1)  # [RESAMPLES, 2]
        low, high = np.quantile(resampled[:, 1] / resampled[:, 0], (0.025, 0.975))
    return Interval(
        subject_ms=float(subject_ms),
        reference_ms=float(reference_ms),
        ratio=float(reference_ms / subject_ms),
        low=float(low * (1 - margin)),
        high=float(high * (1 + margin)),
        settled=len(blocks) >= MIN_BLOCKS_TO_SETTLE and float(high / low) - 1 < margin / 2,
    )
