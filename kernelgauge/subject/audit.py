"""Calls that reach beyond a subject's arguments, as Python reports them to an audit hook.

This is not a sandbox: it misses what a library looks up and passes on, and a C library of the
subject's own that writes into this process.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from types import FrameType, FunctionType

from kernelgauge.core import blame
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.words.fault import Fault, Note, Place, note

REMEDY = note("mind-the-launchers-business")

# What a call does, and the prefixes of the audit events by which Python reports it.
TAMPERING = {
    "looks-into-frames": ("sys._getframe", "sys._current_frames", "object.__getattr__"),
    "traces-the-judge": ("sys.settrace", "sys.setprofile"),
    "searches-the-judge": ("gc.get_",),
    "reads-the-answers": ("open",),
    "was-replaced": ("object.__setattr__",),
}
ELSEWHERE = {
    "reaches-through-ctypes": ("ctypes",),
    "starts-a-thread": ("_thread.start",),
    "starts-a-process": ("subprocess", "os.system", "os.exec", "os.fork", "os.posix_spawn"),
}
FRAMES = {"tb_frame", "gi_frame", "cr_frame", "ag_frame"}
# Modules that make such a call on behalf of their caller.
AGENTS = {"_thread", "concurrent", "ctypes", "inspect", "multiprocessing", "os", "subprocess"}
AGENTS |= {"threading", "traceback"}

# For each body of `listening` that is running, what was seen in it.
_watching: list[list[Fault]] = []
# The threads that are in the hook: what it does itself is no act of theirs.
_auditing: list[int] = []


# Holds something while the running test is in a debugger, which traces.
debugged: list[bool] = []


@contextlib.contextmanager
def listening() -> Iterator[list[Fault]]:
    """Yield a list that receives each such call of the learner's code in the body.

    The call itself raises Wrong too, but the learner's code may swallow that.
    """
    _install()
    # Bound here, where a subject that changes this module cannot replace it.
    seen: list[Fault] = []
    watching = _watching
    watching.append(seen)
    try:
        yield seen
    finally:
        here = _thread.get_ident()
        if not watching or watching.pop() is not seen or here in _auditing:
            _auditing[:] = [it for it in _auditing if it != here]
            replaced = note("was-replaced", name=f"{__name__}: its state")
            seen.append(Fault("tampering", (replaced,), remedy=REMEDY))


def is_listening() -> bool:
    """Return whether the body of a `listening` is running."""
    return bool(_watching)


@functools.cache
def _install() -> None:
    """Add the audit hook, which stays until the process ends."""
    sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple) -> None:
    # The judge reads the code of frames again and again.
    if not _watching or (event == "object.__getattr__" and arguments[1] not in FRAMES):
        return
    here, act = _thread.get_ident(), _act(event)
    if act is None or here in _auditing or (event == "sys.settrace" and debugged):
        return
    _auditing.append(here)
    try:
        if act == "was-replaced":
            said = _replaced(*arguments)
            place = blame.current_place() if said else None
        else:
            place = _culprit(event, arguments, sys._getframe(1))
            said = note(act) if place else None
    finally:
        _auditing.remove(here)
    if said:
        kind = "tampering" if act in TAMPERING else "outside-kernel"
        _watching[-1].append(Fault(kind, (said,), place, remedy=REMEDY))
        raise Wrong(_watching[-1][-1])


def _replaced(owner: object, attribute: str, *_: object) -> Note | None:
    """Return what is said of a function of the judge that is given other code."""
    if attribute != "__code__" or not isinstance(owner, FunctionType):
        return None
    if owner.__module__.partition(".")[0] not in settings.packages:
        return None
    return note("was-replaced", name=f"{owner.__module__}.{owner.__qualname__}")


@functools.cache
def _act(event: str) -> str | None:
    """Return the note that says what such an event is, None if it is no business of the judge."""
    acts = TAMPERING | ELSEWHERE
    return next((act for act, events in acts.items() if event.startswith(events)), None)


def _culprit(event: str, arguments: tuple, frame: FrameType | None) -> Place | None:
    """Return the learner's line behind a call; None for other code or a fair call."""
    if event == "open":
        path = os.path.abspath(arguments[0]) if isinstance(arguments[0], str) else ""
        hidden = settings.answers is not None and path.startswith(f"{settings.answers}{os.sep}")
        return blame.current_place() if hidden and not blame.is_graded_file(path) else None
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in AGENTS:
        frame = frame.f_back
    if frame is None or not blame.is_graded_file(frame.f_code.co_filename):
        return None
    return Place(frame.f_code.co_filename, frame.f_lineno)
