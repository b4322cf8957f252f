"""Whose code raised an error, or runs now: the learner's, the judge's or a library's."""

from __future__ import annotations

import linecache
import sys
import traceback
from pathlib import Path
from types import TracebackType

import pytest

from judge.core.paths import display_path
from judge.core.settings import settings
from judge.core.verdict import Verdict

# What a subject may raise to the judge. The rest (KeyboardInterrupt, a time limit) is not its own.
RAISED = (Exception, SystemExit, pytest.skip.Exception, pytest.fail.Exception)

# In an error, or in the line that raised it: the launcher takes a GPU for granted.
ASKS_FOR_CUDA = ("active drivers", "not compiled with CUDA", "is_cuda", "No CUDA GPUs")


def is_unsolved(error: BaseException, path: Path) -> bool:
    """The launcher itself says NotImplementedError, as every untouched stub does."""
    if type(error) is not NotImplementedError or error.__traceback__ is None:
        return False
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    return Path(innermost.filename).resolve() == path.resolve()


def explain(error: BaseException, path: Path) -> str:
    """What a subject raised, with the place in the learner's own file first."""
    if isinstance(error, Verdict):
        return str(error)
    if isinstance(error, SyntaxError) and error.filename:
        line = f"\n    {error.text.strip()}" if error.text else ""
        place = f"{display_path(error.filename)}:{error.lineno}"
        return f"{place}  {type(error).__name__}: {error.msg}{line}"
    place = graded_frame(error.__traceback__, path) or display_path(path)
    line = _source(error.__traceback__, path)
    told = f"{place}  {type(error).__name__}: {error}" + line
    if any(word in f"{error}{line}" for word in ASKS_FOR_CUDA):
        told += (
            "\nhint: the same file runs without a GPU, in the interpreter: allocate with "
            "device=x.device, and ask for no device of your own"
        )
    return told


def graded_frame(trace: TracebackType | None, path: Path | None = None) -> str | None:
    """file:line of the innermost frame that is the learner's own code, if there is one."""
    frame = _graded_frame(trace, path)
    return f"{display_path(frame.filename)}:{frame.lineno}" if frame else None


def is_graded_file(filename: str) -> bool:
    """Whether this file is graded, rather than one of the judge, the tests or a library."""
    path = Path(filename)
    return path.is_relative_to(settings.subjects.resolve()) and not path.name.startswith("test_")


def current_line() -> str | None:
    """file:line of the learner's code that is being executed now, if any."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_graded_file(frame.f_code.co_filename):
            return f"{display_path(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _graded_frame(trace: TracebackType | None, path: Path | None) -> traceback.FrameSummary | None:
    frames = [
        frame
        for frame in traceback.extract_tb(trace)
        if is_graded_file(frame.filename) or (path and Path(frame.filename) == path.resolve())
    ]
    return frames[-1] if frames else None


def _source(trace: TracebackType | None, path: Path | None) -> str:
    frame = _graded_frame(trace, path)
    if frame is None:
        return ""
    line = linecache.getline(frame.filename, frame.lineno).strip()
    return f"\n    {line}" if line else ""
