"""Whose code raised an error or is running now: the learner's, the judge's or a library's."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.words import show_place
from kernelgauge.words.fault import Fault, Note, Place, note

# Found in the error or in the line that raised it, these show that the launcher assumes a GPU.
ASSUMES_CUDA = ("active drivers", "not compiled with CUDA", "is_cuda", "No CUDA GPUs")

# What Triton says of a kernel that is called as a function, compiled or not.
CALLED_WITHOUT_GRID = "Cannot call @triton.jit'd outside of the scope of a kernel"

# The modules that call the learner's code.
CALLERS = ("kernelgauge.kernel", "kernelgauge.subject.guarded_call")


def is_unsolved(error: BaseException, path: Path) -> bool:
    """Return whether code in `path` itself raised NotImplementedError, as untouched stubs do."""
    if type(error) is not NotImplementedError or error.__traceback__ is None:
        return False
    innermost = traceback.extract_tb(error.__traceback__)[-1]
    return Path(innermost.filename).resolve() == path.resolve()


def explain(error: BaseException, path: Path) -> Fault:
    """Return what the subject in `path` raised, at the line of the learner's code."""
    if isinstance(error, Wrong):
        return error.fault
    name = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        place = Place(error.filename, error.lineno or 0)
        return Fault("syntax-error", _raised(name, error.msg, error.text), place)
    frame = _graded_frame(error.__traceback__, path)
    line = (frame and frame.line) or ""
    text: str | None = None
    # What a subject raises may itself raise when it is shown.
    with contextlib.suppress(Exception):
        text = str(error)
    fault = Fault("raises", _raised(name, text, line), _place(frame) or Place(str(path)))
    if any(word in f"{text}{line}" for word in ASSUMES_CUDA):
        return fault.but(remedy=note("run-without-a-gpu"))
    if text == CALLED_WITHOUT_GRID:
        return fault.but(remedy=note("launch-with-a-grid"))
    return fault


def _raised(name: str, text: str | None, line: str | None) -> tuple[Note, ...]:
    below = (note("line-of-source", line=line.strip()),) if line else ()
    return note("raised", error=name, text=text), *below


def graded_place(trace: TracebackType | None, path: Path | None = None) -> Place | None:
    """Return the innermost line that is the learner's code, None without one.

    path: a file that counts as the learner's too
    """
    return _place(_graded_frame(trace, path))


def graded_frame(trace: TracebackType | None, path: Path | None = None) -> str | None:
    """Return file:line of `graded_place`."""
    place = graded_place(trace, path)
    return show_place(place) if place else None


def is_graded_file(filename: str) -> bool:
    """Return whether this file is graded, unlike those of the judge, the tests and libraries."""
    return _is_graded_file(filename, settings.subjects)


@functools.lru_cache(maxsize=4096)
def _is_graded_file(filename: str, subjects: Path | None) -> bool:
    path = Path(filename)
    if subjects is None:
        return not filename.startswith("<") and not is_library(filename)
    return path.is_relative_to(subjects.resolve()) and not path.name.startswith("test_")


def is_library(filename: str) -> bool:
    """Return whether a file is neither a kernel nor its launcher.

    What is installed beside torch may well be the package whose kernels are checked.
    """
    standard, *others = _library_folders()
    inside = filename.removeprefix(standard)
    of_python = inside != filename and not inside.partition(os.sep)[0].endswith("-packages")
    return of_python or filename.startswith(tuple(others))


@functools.cache
def _library_folders() -> tuple[str, ...]:
    """Return the folders of Python's own library, and of others that are no kernels."""
    import numpy
    import torch
    import triton

    modules = [os, numpy, torch, triton, *(sys.modules[name] for name in settings.packages)]
    return tuple(os.path.dirname(os.path.abspath(it.__file__ or "")) + os.sep for it in modules)


def current_place() -> Place | None:
    """Return the line of the learner's code that is being executed, None if there is none."""
    for frame in _from_the_learners_code():
        return Place(frame.f_code.co_filename, frame.f_lineno)
    return None


def compiled_by_torch() -> bool:
    """Return whether the learner's code that is being executed was called by torch.compile."""
    return any(
        Path(frame.f_code.co_filename).parts[-3:] == ("torch", "_dynamo", "eval_frame.py")
        for frame in _from_the_learners_code()
    )


def _from_the_learners_code() -> Iterator[FrameType]:
    """Yield the innermost frame of the learner's code that is being executed, and its callers.

    Who calls the instrument may be the same author, and is not what it executes.
    """
    stack = (frame for frame, _ in traceback.walk_stack(sys._getframe(1)))
    frames = itertools.takewhile(lambda it: it.f_globals.get("__name__") not in CALLERS, stack)
    return itertools.dropwhile(lambda it: not is_graded_file(it.f_code.co_filename), frames)


def _graded_frame(trace: TracebackType | None, path: Path | None) -> traceback.FrameSummary | None:
    frames = [
        frame
        for frame in traceback.extract_tb(trace)
        if is_graded_file(frame.filename) or (path and Path(frame.filename) == path.resolve())
    ]
    return frames[-1] if frames else None


def _place(frame: traceback.FrameSummary | None) -> Place | None:
    return Place(frame.filename, frame.lineno or 0) if frame else None
