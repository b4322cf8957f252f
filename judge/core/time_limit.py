"""Tests that never end, and processes that die: what a learner reads, and who goes on.

A time limit interrupts Python, which is all that an interpreted kernel is. What Python cannot
interrupt (a kernel that hangs on a GPU) ends the process a little later; under xdist the crash then
costs the puzzle that was running and a new worker goes on.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from judge.core.paths import is_learners, learners_frame, shown
from judge.core.verdict import Wrong

# How long after the limit a process that could not be interrupted is ended.
GRACE = 15.0
DEAD_GPU = 77
GIVEN_UP = "given-up"

_diary: dict[str, TextIO] = {}
_given_up: dict[str, str] = {}
_notes: Path | None = None
_seconds = 0.0


class TimeLimit(BaseException):
    """Raised in the main thread, wherever it is. No `except Exception` of a kernel swallows it."""


class Overrun(Wrong):
    """A subject that did not return in time."""


def share(notes: Path, worker: str) -> None:
    """Leave notes for the xdist controller and the other workers of this run, in a folder of its.

    One is the worker's diary: what ends this process is written there.
    """
    global _notes
    _notes = notes
    _diary["file"] = (notes / worker).open("w", buffering=1)
    faulthandler.enable(file=_diary["file"])


def give_up(puzzle: str, why: str, notes: Path | None = None) -> None:
    """No worker runs another test of this puzzle. why: what it did, and in which test."""
    _given_up.setdefault(puzzle, why)
    if notes := notes or _notes:
        with (notes / GIVEN_UP).open("a") as file:
            file.write(f"{puzzle} {why}\n")


def given_up(puzzle: str) -> str | None:
    """Why no more tests of this puzzle are to be run, if a worker of this run gave it up."""
    if _notes and (_notes / GIVEN_UP).exists():
        for line in (_notes / GIVEN_UP).read_text().splitlines():
            _given_up.setdefault(*line.split(" ", 1))
    return _given_up.get(puzzle)


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
    faulthandler.dump_traceback_later(seconds + GRACE, exit=True, **_diary)


def lift_time_limit() -> None:
    """No limit any more for the body that runs now: somebody sits in a debugger."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()


def _explain(seconds: float, interruption: BaseException) -> str:
    where = learners_frame(interruption.__traceback__)
    place = f"{where} " if where else ""
    return (
        f"{place}did not return within {seconds:g} s\n"
        "hint: does every loop come to an end? (--time-limit SECONDS gives more time)"
    )


def die(reason: str) -> None:
    """End an xdist worker to which the GPU is dead: none of its later tests could pass."""
    if "file" in _diary:
        end_process(reason)


def end_process(reason: str) -> None:
    """At once, and whatever the GPU does. The controller of a worker reads why."""
    print(f"GPU: {reason}", file=_diary.get("file", sys.stderr), flush=True)
    os._exit(DEAD_GPU)


def obituary(notes: Path, worker: str) -> str:
    """Why a worker died, in a sentence, from its diary."""
    diary = notes / worker
    text = diary.read_text(errors="replace") if diary.exists() else ""
    if dead := re.search(r"^GPU: (.*)", text, re.DOTALL | re.MULTILINE):
        return dead[1].strip()
    frames = re.findall(r'File "([^"]+)", line (\d+)', text)
    where = next((f" at {shown(file)}:{line}" for file, line in frames if is_learners(file)), "")
    if text.startswith("Timeout"):
        return f"did not return in time{where} and could not be interrupted: the process was ended"
    if fatal := re.search(r"^Fatal Python error: (.*)", text, re.MULTILINE):
        return f"crashed the process{where}: {fatal[1]}"
    return "crashed the process"
