"""Where a puzzle's files are, and how they are loaded: by path, so that names never collide."""

from __future__ import annotations

import importlib.util
import linecache
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, TracebackType

import pytest

from judge.core.verdict import Unsolved, Verdict, Wrong

ROOT = Path(__file__).resolve().parents[2]
PUZZLES = ROOT / "puzzles"
SOLUTIONS = ROOT / "reference" / "solutions"

# The folder whose files are graded; conftest.py sets it from --solutions and --subject.
subjects = PUZZLES

# What a subject may raise to the judge. The rest (KeyboardInterrupt, a time limit) is not its own.
RAISED = (Exception, SystemExit, pytest.skip.Exception, pytest.fail.Exception)

# In an error, or in the line that raised it: the launcher takes a GPU for granted.
ASKS_FOR_CUDA = ("active drivers", "not compiled with CUDA", "is_cuda", "No CUDA GPUs")

_modules: dict[Path, ModuleType] = {}


def shown(path: Path | str) -> str:
    """A path as a learner would type it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("../..") else relative


def load(path: Path) -> ModuleType:
    """The module at this path, executed once a process. Its name is private to Triton Kata.

    Raises Wrong if it changes what the judge relies on.
    """
    # Not above: that module imports this one.
    from judge.subject.tamper import untouched

    path = path.resolve()
    if path not in _modules:
        name = "kata:" + shown(path).removesuffix(".py").replace(os.sep, ":")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            with untouched(path):
                spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        _modules[path] = module
    return _modules[path]


def load_subject(chapter: str, name: str, function: str) -> Callable:
    """The function to grade. Raises Unsolved or Wrong, whatever is in the file."""
    path = subjects / chapter / f"{name}.py"
    if not path.exists():
        raise Unsolved(f"unsolved: {shown(path)} does not exist")
    try:
        module = load(path)
    except RAISED as error:
        raise Wrong(explain(error, path)) from error
    found = getattr(module, function, None)
    if found is None:
        raise Wrong(f"{shown(path)} defines no function {function}: the tests call it by that name")
    if not callable(found):
        raise Wrong(f"{shown(path)}: {function} is no function but {type(found).__name__}")
    return found


def load_reference(chapter: str, function: str) -> Callable:
    return getattr(load(ROOT / "reference" / f"{chapter}.py"), function)


def load_mistakes(chapter: str, function: str) -> Callable | None:
    """What may go wrong in this function alone, None where nothing is written down."""
    path = ROOT / "reference" / "mistakes" / f"{chapter}.py"
    return getattr(load(path), function, None) if path.exists() else None


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
        return f"{shown(error.filename)}:{error.lineno}  {type(error).__name__}: {error.msg}{line}"
    place = learners_frame(error.__traceback__, path) or shown(path)
    line = _source(error.__traceback__, path)
    told = f"{place}  {type(error).__name__}: {error}" + line
    if any(word in f"{error}{line}" for word in ASKS_FOR_CUDA):
        told += (
            "\nhint: the same file runs without a GPU, in the interpreter: allocate with "
            "device=x.device, and ask for no device of your own"
        )
    return told


def learners_frame(trace: TracebackType | None, path: Path | None = None) -> str | None:
    """file:line of the innermost frame that is the learner's own code, if there is one."""
    frame = _learners_frame(trace, path)
    return f"{shown(frame.filename)}:{frame.lineno}" if frame else None


def is_learners(filename: str) -> bool:
    """Whether this file is graded, rather than one of the judge, the tests or a library."""
    path = Path(filename)
    return path.is_relative_to(subjects.resolve()) and not path.name.startswith("test_")


def current_line() -> str | None:
    """file:line of the learner's code that is being executed now, if any."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_learners(frame.f_code.co_filename):
            return f"{shown(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _learners_frame(
    trace: TracebackType | None, path: Path | None
) -> traceback.FrameSummary | None:
    frames = [
        frame
        for frame in traceback.extract_tb(trace)
        if is_learners(frame.filename) or (path and Path(frame.filename) == path.resolve())
    ]
    return frames[-1] if frames else None


def _source(trace: TracebackType | None, path: Path | None) -> str:
    frame = _learners_frame(trace, path)
    if frame is None:
        return ""
    line = linecache.getline(frame.filename, frame.lineno).strip()
    return f"\n    {line}" if line else ""
