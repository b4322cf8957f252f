"""Load the function to grade."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kernelgauge.core.blame import explain
from kernelgauge.core.paths import display_path, load
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Unsolved, Wrong
from kernelgauge.subject import state
from kernelgauge.subject.tamper import untouched


def load_subject(path: Path, function: str) -> Callable:
    """Return the function to grade. Raises Unsolved without a file, Wrong if it does not load."""
    require_file(path)
    try:
        module = load(path, untouched(path))
    except settings.subject_errors as error:
        raise Wrong(explain(error, path)) from error
    state.use(path, module)
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
