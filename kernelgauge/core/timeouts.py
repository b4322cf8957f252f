"""Time limits for tests that never end.

In the interpreter a limit counts processor time: other programs may keep a machine busy, and that
is not the learner's fault. A body that waits and computes nothing is interrupted after `PATIENCE`
times as long. On a GPU, where a limit has to end kernels too, it counts the time of a clock.

An endless loop shows earlier: in the interpreter a step of a call, which is one program of a launch
or what the launcher does between launches, may take `STEP` of the limit. So slow calls of many
programs have all of it.

A time limit interrupts Python, which is all that runs in the interpreter. Python cannot interrupt a
hung kernel on a GPU; then the whole process ends `GRACE` seconds later.
"""

from __future__ import annotations

import ast
import contextlib
import faulthandler
import linecache
import math
import signal
import time
from collections.abc import Iterator

from kernelgauge.core import crash_notes
from kernelgauge.core.blame import graded_place
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.words.fault import Fault, note

# Seconds after the limit at which a process that could not be interrupted is ended.
GRACE = 15.0
# How many seconds may pass for each second of processor time.
PATIENCE = 4.0
# The part of the limit that one step may take, and how often that is looked at after as long.
STEP = 1 / 3
EVERY = 1 / 60

_seconds = 0.0
# Processor time at which the limit, and the step that runs, began; None outside of steps.
_begun = 0.0
_step: float | None = None


class TimeLimit(BaseException):
    """Raised in the main thread at the limit. `except Exception` in a subject does not catch it."""


def ends_the_run(error: BaseException) -> bool:
    """Return whether what graded code raised is not its own fault: a time limit, or Ctrl-C."""
    return isinstance(error, (TimeLimit, *settings.passing_errors))


class Overrun(Wrong):
    """The subject did not return in time."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise Overrun if the body takes longer; end the process if it cannot be interrupted.

    seconds: the limit, of processor time in the interpreter; 0 for none
    """
    if seconds <= 0:
        yield
        return

    def interrupt(signum: int, frame: object) -> None:
        if signum == signal.SIGPROF and not (allowed := _used_up()):
            return
        # Once: a second one would break off what puts things back.
        signal.setitimer(signal.ITIMER_PROF, 0)
        _end_process_after(GRACE)
        raise TimeLimit(signum, allowed if signum == signal.SIGPROF else _clock_seconds(seconds))

    before = {timer: signal.signal(timer, interrupt) for timer in (signal.SIGPROF, signal.SIGALRM)}
    _start(seconds)
    try:
        yield
    except TimeLimit as interruption:
        signum, allowed = interruption.args
        by_clock = signum == signal.SIGALRM
        place = graded_place(interruption.__traceback__)
        may_be_endless = place is not None and _has_loop(place.file)
        raise Overrun(
            Fault(
                "endless",
                (note("did-not-return", seconds=allowed, counts_processor=not by_clock),),
                place=place,
                numbers={"allowed_seconds": allowed},
                remedy=note("end-every-loop" if may_be_endless else "allow-more-time"),
            )
        ) from None
    finally:
        lift_time_limit()
        for timer, handler in before.items():
            signal.signal(timer, handler)


def _has_loop(file: str) -> bool:
    """Return whether a file's source has a loop, as far as that is known."""
    with contextlib.suppress(SyntaxError):
        nodes = ast.walk(ast.parse("".join(linecache.getlines(file))))
        return any(isinstance(node, (ast.For, ast.While)) for node in nodes)
    return False


@contextlib.contextmanager
def no_time_limit() -> Iterator[None]:
    """Suspend the time limit in the body, which may have others; then it starts from zero again."""
    limited, seconds = seconds_left() < math.inf, _seconds
    lift_time_limit()
    yield
    if limited:
        _start(seconds)


@contextlib.contextmanager
def steps() -> Iterator[None]:
    """In the body, `next_step` begins a step, and so do its begin and its end."""
    global _step
    outside, _step = _step, time.process_time()
    try:
        yield
    finally:
        _step = None if outside is None else time.process_time()


def next_step() -> None:
    """Begin the next step, within `steps`."""
    global _step
    if _step is not None:
        _step = time.process_time()


def step_seconds() -> float:
    """Return how many seconds of processor time a step may take; inf if there is no limit."""
    return _seconds * STEP if seconds_left() < math.inf else math.inf


def lift_time_limit() -> None:
    """Cancel the time limit of the body that is running, for a debugger."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()


def seconds_left() -> float:
    """Return how many seconds of the clock the body that is running has left; inf if no limit."""
    return signal.getitimer(signal.ITIMER_REAL)[0] or math.inf


def _start(seconds: float) -> None:
    global _seconds, _begun
    _seconds, _begun = seconds, time.process_time()
    clock = _clock_seconds(seconds)
    if clock > seconds:
        signal.setitimer(signal.ITIMER_PROF, seconds * STEP, seconds * EVERY)
    signal.setitimer(signal.ITIMER_REAL, clock)
    _end_process_after(clock + GRACE)


def _used_up() -> float:
    """Return the limit of processor time that has passed, that of a step or of all, 0 if none."""
    now = time.process_time()
    # The timer and this clock differ by a tick.
    nearly = _seconds * EVERY / 2
    for begun, allowed in ((_step, _seconds * STEP), (_begun, _seconds)):
        if begun is not None and now - begun > allowed - nearly:
            return allowed
    return 0.0


def _end_process_after(seconds: float) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True, file=crash_notes.crash_log())


def _clock_seconds(seconds: float) -> float:
    return seconds * PATIENCE if settings.interpreted else seconds
