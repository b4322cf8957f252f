"""Time limits for tests that never end.

A time limit interrupts Python, which is all that runs in the interpreter. Python cannot interrupt a
hung kernel on a GPU; then the whole process ends `GRACE` seconds later. Under xdist that costs only
the puzzle that was running, and a new worker goes on.
"""

from __future__ import annotations

import contextlib
import faulthandler
import signal
from collections.abc import Iterator

from judge.core import crash_notes
from judge.core.blame import graded_frame
from judge.core.verdict import Wrong

# Seconds after the limit at which a process that could not be interrupted is ended.
GRACE = 15.0

_seconds = 0.0


class TimeLimit(BaseException):
    """Raised in the main thread at the limit. `except Exception` in a subject does not catch it."""


class Overrun(Wrong):
    """The subject did not return in time."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise Overrun if the body takes longer; end the process if it cannot be interrupted.

    seconds: the limit; 0 for none
    """
    if seconds <= 0:
        yield
        return

    def interrupt(signum: int, frame: object) -> None:
        raise TimeLimit

    before = signal.signal(signal.SIGALRM, interrupt)
    _start(seconds)
    try:
        yield
    except TimeLimit as interruption:
        place = graded_frame(interruption.__traceback__)
        raise Overrun(
            f"{place + ' ' if place else ''}did not return within {seconds:g} s\n"
            "hint: does every loop end? (--time-limit SECONDS allows more time)"
        ) from None
    finally:
        lift_time_limit()
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def no_time_limit() -> Iterator[None]:
    """Suspend the time limit in the body; afterwards it starts from zero again."""
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    lift_time_limit()
    yield
    if left:
        _start(_seconds)


def lift_time_limit() -> None:
    """Cancel the time limit of the body that is running, for a debugger."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()


def _start(seconds: float) -> None:
    global _seconds
    _seconds = seconds
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=crash_notes.crash_log())
