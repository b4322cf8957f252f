"""How many times as fast, and between which bounds: a ratio of medians with its interval.

A block gives one number for each side, the median of its calls, so that a call that was disturbed
does not count. The ratio is that of the medians over all blocks. Its interval is a bootstrap over
blocks, which keeps together what was measured side by side.

Chance shrinks with the number of blocks. Not so the margin that is put on both ends: 0.5 %, the
most by which a kernel differed from itself on an H200 over 16 Mi elements and more, or the
resolution of an event where that is more. So a kernel that is exactly as fast as the bar asks is
never told apart from one that is not: it is inconclusive, whatever the luck.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SYSTEMATIC = 0.005
EVENT_RESOLUTION_MS = 0.0005
RESAMPLES = 2000
# Fewer blocks than this say too little about their spread: the extremes are the interval then.
FEWEST_TO_RESAMPLE = 6
# From here on chance may be called small.
ENOUGH_BLOCKS = 40

# The milliseconds of one side, and of the other, measured in turn.
Block = tuple[list[float], list[float]]


@dataclass(frozen=True)
class Interval:
    """The speed of a subject in units of the reference's.

    subject_ms, reference_ms: medians of the blocks' medians
    ratio, low, high: reference_ms / subject_ms and its 95 % interval
    settled: whether chance adds so little to the margin that more blocks would change nothing
    """

    subject_ms: float
    reference_ms: float
    ratio: float
    low: float
    high: float
    settled: bool

    def verdict(self, bar: float) -> str:
        """Whether the ratio reaches the bar: "passed", "failed" or "inconclusive"."""
        if self.low >= bar:
            return "passed"
        return "failed" if self.high < bar else "inconclusive"


def interval_of(blocks: list[Block]) -> Interval:
    """The interval from blocks of (subject's, reference's) milliseconds, at least one block."""
    medians = np.array([[np.median(side) for side in block] for block in blocks])
    subject_ms, reference_ms = np.median(medians, axis=0)
    margin = max(SYSTEMATIC, EVENT_RESOLUTION_MS / min(subject_ms, reference_ms))
    if len(blocks) < FEWEST_TO_RESAMPLE:
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
        settled=len(blocks) >= ENOUGH_BLOCKS and float(high / low) - 1 < margin / 2,
    )
