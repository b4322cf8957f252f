"""Notes that outlive a process: why it died, and which puzzles no process should run again.

Under xdist the workers of a run and their controller share a folder. Each worker has a crash log
there, named after it, in which faulthandler and `end_process` write why the process died. The file
`given-up` lists the puzzles that hung or crashed. A run without workers keeps that list in memory.
"""

from __future__ import annotations

import faulthandler
import os
import re
import sys
from pathlib import Path
from typing import TextIO

from kernelgauge.core.blame import is_graded_file
from kernelgauge.core.paths import display_path

# Exit status of a process that ended itself because it cannot use its GPU any more.
DEAD_GPU = 77

GIVEN_UP_FILE = "given-up"

_folder: Path | None = None
_crash_log: TextIO | None = None
_given_up: dict[str, str] = {}


def share(folder: Path, worker: str) -> None:
    """Make this process an xdist worker of that name, which leaves its notes in this folder."""
    global _folder, _crash_log
    _folder = folder
    _crash_log = (folder / worker).open("w", buffering=1)
    faulthandler.enable(file=_crash_log)


def crash_log() -> TextIO:
    """Return the file for last words: the crash log of a worker, else standard error."""
    return _crash_log or sys.stderr


def give_up(puzzle: str, reason: str, folder: Path | None = None) -> None:
    """Let no process of this run test this puzzle again.

    reason: what the puzzle did and in which test; a message puts the puzzle's name before it
    folder: the shared folder, if the controller gives up a puzzle
    """
    _given_up.setdefault(puzzle, reason)
    if folder := folder or _folder:
        with (folder / GIVEN_UP_FILE).open("a") as file:
            file.write(f"{puzzle} {reason}\n")


def given_up(puzzle: str) -> str | None:
    """Return why this puzzle was given up in this run, None if it was not."""
    if _folder and (_folder / GIVEN_UP_FILE).exists():
        for line in (_folder / GIVEN_UP_FILE).read_text().splitlines():
            _given_up.setdefault(*line.split(" ", 1))
    return _given_up.get(puzzle)


def end_worker(reason: str) -> None:
    """End this process if it is an xdist worker: with a dead GPU it would fail every later test."""
    if _crash_log:
        end_process(reason)


def end_process(reason: str) -> None:
    """End this process at once, whatever the GPU does, and leave the reason in the crash log."""
    print(f"GPU: {reason}", file=crash_log(), flush=True)
    os._exit(DEAD_GPU)


def describe_crash(folder: Path, worker: str) -> str:
    """Say in a sentence why a worker died, from its crash log."""
    path = folder / worker
    text = path.read_text(errors="replace") if path.exists() else ""
    if dead := re.search(r"^GPU: (.*)", text, re.DOTALL | re.MULTILINE):
        return dead[1].strip()
    frames = re.findall(r'File "([^"]+)", line (\d+)', text)
    graded = (f" at {display_path(file)}:{line}" for file, line in frames if is_graded_file(file))
    place = next(graded, "")
    if text.startswith("Timeout"):
        return f"did not return in time{place} and could not be interrupted: the process was ended"
    if fatal := re.search(r"^Fatal Python error: (.*)", text, re.MULTILINE):
        return f"crashed the process{place}: {fatal[1]}"
    return "crashed the process"
