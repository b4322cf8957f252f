"""Load the functions of a puzzle: its subject, its reference, and its known mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from judge.core import paths
from judge.core.blame import SUBJECT_ERRORS, explain
from judge.core.paths import display_path, load
from judge.core.settings import settings
from judge.core.verdict import Unsolved, Wrong
from judge.subject.tamper import untouched


def load_subject(chapter: str, name: str, function: str) -> Callable:
    """Return the function to grade. Raises Unsolved without a file, Wrong if it does not load."""
    path = settings.subjects / chapter / f"{name}.py"
    require_file(path)
    try:
        module = load(path, untouched(path))
    except SUBJECT_ERRORS as error:
        raise Wrong(explain(error, path)) from error
    found = getattr(module, function, None)
    if found is None:
        raise Wrong(
            f"{display_path(path)} defines no function {function}: the tests call it by that name"
        )
    if not callable(found):
        raise Wrong(f"{display_path(path)}: {function} is a {type(found).__name__}, not a function")
    return found


def require_file(path: Path) -> None:
    """Raise Unsolved where a subject's file is missing."""
    if not path.exists():
        raise Unsolved(f"unsolved: {display_path(path)} does not exist")


def load_reference(chapter: str, function: str) -> Callable:
    """Return a function of a chapter's reference file."""
    return getattr(load(paths.ROOT / "reference" / f"{chapter}.py"), function)


def load_mistakes(chapter: str, function: str) -> Callable | None:
    """Return the generator of mistakes that are known for one function, None without one."""
    path = paths.ROOT / "reference" / "mistakes" / f"{chapter}.py"
    return getattr(load(path), function, None) if path.exists() else None
