"""Tests that never end, and processes that die: what a learner reads, and who goes on.

A time limit interrupts Python, which is all that an interpreted kernel is. What Python cannot
interrupt (a kernel that hangs on a GPU) ends the process a little later; under xdist the crash then
costs the puzzle that was running and a new worker goes on.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from judge.loading import learners_frame
from judge.verdict import Wrong

# How long after the limit a process that could not be interrupted is ended.
GRACE = 15.0
DEAD_GPU = 77

_diary: dict[str, TextIO] = {}
_seconds = 0.0


class TimeLimit(BaseException):
    """Raised in the main thread, wherever it is. No `except Exception` of a kernel swallows it."""


class Overrun(Wrong):
    """A subject that did not return in time."""


def keep_diary(testrun: str, worker: str) -> None:
    """Write what ends this process to a file that the xdist controller reads afterwards."""
    _diary["file"] = _diary_path(testrun, worker).open("w", buffering=1)
    faulthandler.enable(file=_diary["file"])
    atexit.register(_diary_path(testrun, worker).unlink, missing_ok=True)


def _diary_path(testrun: str, worker: str) -> Path:
    return Path(tempfile.gettempdir()) / f"triton-kata-{testrun}-{worker}.log"


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
        raise Overrun(_overrun(seconds, interruption)) from None
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
    faulthandler.dump_traceback_later(seconds + GRACE, exit=True, **_diary)


def lift_time_limit() -> None:
    """No limit any more for the body that runs now: somebody sits in a debugger."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()


def _overrun(seconds: float, interruption: BaseException) -> str:
    where = learners_frame(interruption.__traceback__)
    place = f"{where} " if where else ""
    return (
        f"{place}did not return within {seconds:g} s\n"
        "hint: does every loop come to an end? (--time-limit SECONDS gives more time)"
    )


def die(reason: str) -> None:
    """End an xdist worker whose GPU hangs or is dead to it: none of its later tests could pass."""
    if "file" in _diary:
        _diary["file"].write(f"GPU: {reason}\n")
        os._exit(DEAD_GPU)


def obituary(testrun: str, worker: str) -> str:
    """Why a worker died, in a sentence, from its diary."""
    diary = _diary_path(testrun, worker)
    text = diary.read_text(errors="replace") if diary.exists() else ""
    diary.unlink(missing_ok=True)
    if dead := re.search(r"^GPU: (.*)", text, re.DOTALL | re.MULTILINE):
        return dead[1].strip()
    frame = re.search(r'File "([^"]*(?:puzzles|solutions)[^"]*)", line (\d+)', text)
    where = f" at {os.path.relpath(frame[1])}:{frame[2]}" if frame else ""
    if text.startswith("Timeout"):
        return f"did not return in time{where} and could not be interrupted: the process was ended"
    if fatal := re.search(r"^Fatal Python error: (.*)", text, re.MULTILINE):
        return f"crashed the process{where}: {fatal[1]}"
    return "crashed the process"
