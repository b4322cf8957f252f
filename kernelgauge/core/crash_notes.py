"""Last words of a process: they outlive it, and say of what it died.

A process that is one of several, and is not missed, writes them into a crash log: faulthandler in
its own words, `end_process` a fault as a line of JSON.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import sys
from pathlib import Path
from typing import TextIO

from kernelgauge import words
from kernelgauge.core.blame import is_graded_file
from kernelgauge.words.fault import Call, Fault, Place, note, revived

# Exit status of a process that ended itself because it cannot use its GPU any more.
DEAD_GPU = 77

_crash_log: TextIO | None = None


def keep_log(path: Path) -> None:
    """Let this process, for which another one can go on, leave its last words in this file."""
    global _crash_log
    _crash_log = path.open("w", buffering=1)
    faulthandler.enable(file=_crash_log)


def crash_log() -> TextIO:
    """Return the file for last words: the crash log if there is one, else standard error."""
    return _crash_log or sys.stderr


def end_worker(fault: Fault) -> None:
    """End this process if others go on: with a dead GPU it would fail every later test."""
    if _crash_log:
        end_process(fault)


def end_process(fault: Fault) -> None:
    """End this process at once, whatever the GPU does, and leave the fault in the crash log."""
    text = json.dumps(fault.plain()) if _crash_log else words.message(fault)
    print(text, file=crash_log(), flush=True)
    os._exit(DEAD_GPU)


def describe_crash(log: Path, subject: Path) -> Fault:
    """Return why a process died that ran the subject in this file, from its crash log."""
    text = log.read_text(errors="replace") if log.exists() else ""
    call = Call(str(subject))
    if left := re.search(r"^\{.*\}$", text, re.MULTILINE):
        fault = revived(json.loads(left[0]))
        return fault if fault.place else fault.but(call=call)
    frames = re.findall(r'File "([^"]+)", line (\d+)', text)
    place = next((Place(file, int(line)) for file, line in frames if is_graded_file(file)), None)
    kind, said = "process-ended", note("crashed-the-process")
    if text.startswith("Timeout"):
        kind, said = "endless", note("could-not-be-interrupted")
    elif fatal := re.search(r"^Fatal Python error: (.*)", text, re.MULTILINE):
        said = note("crashed-the-process", signal=fatal[1])
    return Fault(kind, (said,), place, None if place else call)
