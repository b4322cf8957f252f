"""Load what a puzzle consists of: its subject, its reference, and its known mistakes."""

from __future__ import annotations

from collections.abc import Callable

from course import paths
from kernelgauge.core.paths import load
from kernelgauge.core.settings import settings
from kernelgauge.subject import loader


def load_subject(chapter: str, name: str, function: str) -> Callable:
    """Return the function to grade. Raises Unsolved without a file, Wrong if it does not load."""
    return loader.load_subject(settings.subjects / chapter / f"{name}.py", function)


def load_reference(chapter: str, function: str) -> Callable:
    """Return a function of a chapter's reference file."""
    return getattr(load(paths.REFERENCE / f"{chapter}.py"), function)


def load_mistakes(chapter: str, function: str) -> Callable | None:
    """Return the generator of mistakes that are known for one function, None without one."""
    path = paths.REFERENCE / "mistakes" / f"{chapter}.py"
    return getattr(load(path), function, None) if path.exists() else None
