"""Notes that a worker leaves before its process dies, and what the others read in them."""

from __future__ import annotations

import faulthandler
import os
import re
import sys
from pathlib import Path
from typing import TextIO

from judge.core.blame import is_graded_file
from judge.core.paths import display_path

DEAD_GPU = 77

GIVEN_UP_FILE = "given-up"

# The open file of this worker's diary, under "file": what faulthandler is given.
diary: dict[str, TextIO] = {}

_given_up: dict[str, str] = {}

_notes: Path | None = None


def share(notes: Path, worker: str) -> None:
    """Leave notes for the xdist controller and the other workers of this run, in a folder of its.

    One is the worker's diary: what ends this process is written there.
    """
    global _notes
    _notes = notes
    diary["file"] = (notes / worker).open("w", buffering=1)
    faulthandler.enable(file=diary["file"])


def give_up(puzzle: str, why: str, notes: Path | None = None) -> None:
    """No worker runs another test of this puzzle. why: what it did, and in which test."""
    _given_up.setdefault(puzzle, why)
    if notes := notes or _notes:
        with (notes / GIVEN_UP_FILE).open("a") as file:
            file.write(f"{puzzle} {why}\n")


def given_up(puzzle: str) -> str | None:
    """Why no more tests of this puzzle are to be run, if a worker of this run gave it up."""
    if _notes and (_notes / GIVEN_UP_FILE).exists():
        for line in (_notes / GIVEN_UP_FILE).read_text().splitlines():
            _given_up.setdefault(*line.split(" ", 1))
    return _given_up.get(puzzle)


def end_worker(reason: str) -> None:
    """End an xdist worker to which the GPU is dead: none of its later tests could pass."""
    if "file" in diary:
        end_process(reason)


def end_process(reason: str) -> None:
    """At once, and whatever the GPU does. The controller of a worker reads why."""
    print(f"GPU: {reason}", file=diary.get("file", sys.stderr), flush=True)
    os._exit(DEAD_GPU)


def describe_crash(notes: Path, worker: str) -> str:
    """Why a worker died, in a sentence, from its diary."""
    path = notes / worker
    text = path.read_text(errors="replace") if path.exists() else ""
    if dead := re.search(r"^GPU: (.*)", text, re.DOTALL | re.MULTILINE):
        return dead[1].strip()
    frames = re.findall(r'File "([^"]+)", line (\d+)', text)
    where = next(
        (f" at {display_path(file)}:{line}" for file, line in frames if is_graded_file(file)), ""
    )
    if text.startswith("Timeout"):
        return f"did not return in time{where} and could not be interrupted: the process was ended"
    if fatal := re.search(r"^Fatal Python error: (.*)", text, re.MULTILINE):
        return f"crashed the process{where}: {fatal[1]}"
    return "crashed the process"
