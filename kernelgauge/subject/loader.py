"""Load the function to grade."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kernelgauge import words
from kernelgauge.core import timeouts
from kernelgauge.core.blame import explain
from kernelgauge.core.paths import display_path, load
from kernelgauge.core.verdict import Unsolved, Wrong
from kernelgauge.subject import state, surroundings
from kernelgauge.subject.tamper import untouched
from kernelgauge.words.fault import Call, Fault, Note, note


def load_subject(path: Path, function: str) -> Callable:
    """Return the function to grade. Raises Unsolved without a file, Wrong if it does not load."""
    require_file(path)
    try:
        module = load(path, untouched(path))
        surroundings.check(path)
        state.use(path, module)
        # A module may look names up by code of its own.
        found = getattr(module, function, None)
    except BaseException as error:
        if timeouts.ends_the_run(error):
            raise
        raise Wrong(explain(error, path)) from error
    if found is None:
        raise no_function(path, note("no-function", function=function))
    if not callable(found):
        kind = type(found).__name__
        raise no_function(path, note("not-a-function", function=function, type=kind))
    return found


def no_function(path: Path, said: Note) -> Wrong:
    """Return that a file lacks the function to grade, to be raised."""
    return Wrong(Fault("no-function", (said,), call=Call(str(path))))


def require_file(path: Path) -> None:
    """Raise Unsolved where a subject's file is missing."""
    if not path.exists():
        raise Unsolved(words.say(note("no-file", file=display_path(path))))
