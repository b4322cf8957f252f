"""Load what a puzzle consists of: its subject, its reference, and its known mistakes."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from pathlib import Path

from course import paths
from kernelgauge import words
from kernelgauge.core.paths import display_path, load
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Unsolved
from kernelgauge.subject import loader
from kernelgauge.words.fault import note


def load_subject(chapter: str, name: str, function: str) -> Callable:
    """Return the function to grade.

    Raises Unsolved without a file or with gaps in it, Wrong if it does not load.
    """
    path = settings.subjects / chapter / f"{name}.py"
    if settings.sealed:
        from kernelgauge.sealed import replay

        found = replay.load_subject(path, function)
    else:
        found = loader.load_subject(path, function)
    if lines := gaps(path):
        raise Unsolved(words.say(note("fill-the-gaps", file=display_path(path), lines=lines)))
    return found


def gaps(path: Path) -> list[int]:
    """Return the lines of a file's kernels in which a `...` is still to be replaced."""
    return _gaps(path.read_bytes())


# Each call of a case loads its subject.
@functools.lru_cache(maxsize=4)
def _gaps(source: bytes) -> list[int]:
    if b"..." not in source:
        return []
    kernels = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
        and any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)
    )
    return [
        statement.lineno
        for kernel in kernels
        for statement in ast.walk(kernel)
        if isinstance(statement, (ast.Assign, ast.Expr))
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is ...
    ]


def load_reference(chapter: str, function: str) -> Callable:
    """Return a function of a chapter's reference file."""
    return getattr(load(paths.REFERENCE / f"{chapter}.py"), function)


def load_mistakes(chapter: str, function: str) -> Callable | None:
    """Return the generator of mistakes that are known for one function, None without one."""
    path = paths.REFERENCE / "mistakes" / f"{chapter}.py"
    return getattr(load(path), function, None) if path.exists() else None
