"""What an interpreted call does, in units that are the same on every machine, and a limit to it.

A unit is about a tenth of a millisecond: one access of a program. Time itself would let the speed
of a machine choose which cases are run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kernelgauge.core.verdict import NotMeasured

# Lanes of an access that take as long as the access itself, elements of the operands of tl.dot that
# take a unit, and what it takes to start a program.
LANES = 4096
FACTORS = 16_000
PROGRAM = 3.0


class TooMuch(NotMeasured):
    """A call that does more than it was allowed to."""


class Meter:
    """Counts units.

    allowed: how many there may be
    spent: how many there were
    """

    def __init__(self, allowed: float):
        self.allowed, self.spent = allowed, 0.0

    def spend(self, units: float) -> None:
        """Count so many more. Raises TooMuch."""
        self.spent += units
        if self.spent > self.allowed:
            raise TooMuch("the interpreter takes too long for a call of this size")


_meters: list[Meter] = []


@contextlib.contextmanager
def at_most(units: float) -> Iterator[Meter]:
    """Raise TooMuch where kernels do more than this in the body."""
    _meters.append(Meter(units))
    try:
        yield _meters[-1]
    finally:
        _meters.pop()


def spend(units: float) -> None:
    """Count so many more where somebody limits them. Raises TooMuch."""
    if _meters:
        _meters[-1].spend(units)
