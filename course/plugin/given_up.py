"""Puzzles that no process of a run should test again, since one of their tests hung or crashed.

Under xdist the workers of a run and their controller share a folder, whose file `given-up` lists
them. A run without workers keeps the list in memory.
"""

from __future__ import annotations

import json
from pathlib import Path

FILE = "given-up"

# What a puzzle did, by the kind of its fault.
SAID = {"endless": "did not return within the time limit", "process-ended": "ended its process"}

_folder: Path | None = None
_given_up: dict[str, tuple[str, str]] = {}


def share(folder: Path) -> None:
    """Share the list with the other processes of this run."""
    global _folder
    _folder = folder


def add(puzzle: str, kind: str, test: str, folder: Path | None = None) -> None:
    """Let no process of this run test this puzzle again.

    kind: of the fault in this test, one of SAID
    folder: the shared folder, if the controller gives up a puzzle
    """
    _given_up.setdefault(puzzle, (kind, test))
    if folder := folder or _folder:
        with (folder / FILE).open("a") as file:
            file.write(json.dumps([puzzle, kind, test]) + "\n")


def why(puzzle: str) -> str:
    """Return what this puzzle did in this run that it was given up for, "" if it was not."""
    if _folder and (_folder / FILE).exists():
        for line in (_folder / FILE).read_text().splitlines():
            name, *reason = json.loads(line)
            _given_up.setdefault(name, tuple(reason))
    if puzzle not in _given_up:
        return ""
    kind, test = _given_up[puzzle]
    return f"{SAID[kind]} in {test}"
