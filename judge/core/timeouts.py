"""Tests that never end, and processes that die: what a learner reads, and who goes on.

A time limit interrupts Python, which is all that an interpreted kernel is. What Python cannot
interrupt (a kernel that hangs on a GPU) ends the process a little later; under xdist the crash then
costs the puzzle that was running and a new worker goes on.
"""

from __future__ import annotations

import contextlib
import faulthandler
import signal
from collections.abc import Iterator

from judge.core import crash_notes
from judge.core.blame import graded_frame
from judge.core.verdict import Wrong

# How long after the limit a process that could not be interrupted is ended.
GRACE = 15.0

_seconds = 0.0


class TimeLimit(BaseException):
    """Raised in the main thread, wherever it is. No `except Exception` of a kernel swallows it."""


class Overrun(Wrong):
    """A subject that did not return in time."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeLimit in the body after so many seconds; end the process if that does not help."""
    if seconds <= 0:
        yield
        return

    def interrupt(signum: int, frame: object) -> None:
        raise TimeLimit

    before = signal.signal(signal.SIGALRM, interrupt)
    _arm(seconds)
    try:
        yield
    except TimeLimit as interruption:
        raise Overrun(_explain(seconds, interruption)) from None
    finally:
        lift_time_limit()
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def no_time_limit() -> Iterator[None]:
    """The body takes as long as it takes; what comes after it has the whole time again."""
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    lift_time_limit()
    yield
    if left:
        _arm(_seconds)


def _arm(seconds: float) -> None:
    global _seconds
    _seconds = seconds
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + GRACE, exit=True, **crash_notes.diary)


def lift_time_limit() -> None:
    """No limit any more for the body that runs now: somebody sits in a debugger."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()


def _explain(seconds: float, interruption: BaseException) -> str:
    where = graded_frame(interruption.__traceback__)
    place = f"{where} " if where else ""
    return (
        f"{place}did not return within {seconds:g} s\n"
        "hint: does every loop come to an end? (--time-limit SECONDS gives more time)"
    )
