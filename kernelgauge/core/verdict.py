"""The outcomes of a check that did not pass."""

from __future__ import annotations

from typing import Any

from kernelgauge import words
from kernelgauge.words.fault import Fault


class Verdict(Exception):
    """Why a check did not pass. Its text is the whole message for the learner."""


class Unsolved(Verdict):
    """The stub is untouched."""


class Wrong(Verdict):
    """The subject does not do what its spec says.

    fault: what is wrong
    observation: what a diagnosis of all cases makes of a wrong result, see diagnosis.observation
    """

    def __init__(self, fault: Fault, observation: Any = None):
        super().__init__(fault)
        self.fault = fault
        self.observation = observation

    def without_traceback(self) -> Wrong:
        """Return the same verdict, to be kept: frames hold all tensors of the test."""
        return Wrong(self.fault, self.observation)

    def within(self, outer: Fault) -> Wrong:
        """Return the verdict that this came instead of what `outer` asks for."""
        return Wrong(outer.but(instead=self.fault), self.observation)

    def __str__(self) -> str:
        return words.message(self.fault)


class NotMeasured(Verdict):
    """This machine or this mode cannot decide the check: it neither passed nor failed."""


class NotRun(Verdict):
    """An earlier case of the puzzle hung or crashed, so this one was not tried."""
