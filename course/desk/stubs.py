"""Bring a stub back, and keep what the learner wrote.

Stubs as they came are in reference/stubs, a folder that mirrors puzzles/. They are plain copies:
git's HEAD holds the learner's own kernel once it is committed, and a download has no git at all.
tests/test_contract.py compares the two trees.
"""

from __future__ import annotations

import ast
from datetime import date
from itertools import count
from pathlib import Path

from course.paths import PUZZLES, ROOT

STUBS = ROOT / "reference" / "stubs"


def is_untouched(puzzle: str) -> bool:
    """Whether a puzzle's file is still the stub."""
    file, stub = PUZZLES / f"{puzzle}.py", STUBS / f"{puzzle}.py"
    return file.exists() and stub.exists() and file.read_bytes() == stub.read_bytes()


def title_of(puzzle: str) -> tuple[str, str]:
    """Return the number and the title of a puzzle's spec: "01.4" and "Swish"."""
    text = ast.get_docstring(ast.parse((STUBS / f"{puzzle}.py").read_text())) or ""
    number, _, title = text.partition("\n")[0].partition(" ")
    return number, title.strip()


def reset(puzzle: str, today: date) -> Path | None:
    """Make a puzzle's file the stub again. Raises OSError, and then nothing is lost.

    Returns where the learner's file is kept, tiled.py.2026-11-23, or None if there was nothing to
    keep. A file that is there already is never overwritten: the next one is tiled.py.2026-11-23.2.
    """
    stub = (STUBS / f"{puzzle}.py").read_bytes()
    file = PUZZLES / f"{puzzle}.py"
    if is_untouched(puzzle):
        return None
    kept = _keep(file, today) if file.exists() else None
    file.write_bytes(stub)
    return kept


def _keep(file: Path, today: date) -> Path:
    """Copy a file to a new one beside it."""
    for number in count(1):
        suffix = f".{today}" if number == 1 else f".{today}.{number}"
        kept = file.with_name(file.name + suffix)
        try:
            with kept.open("xb") as copy:
                copy.write(file.read_bytes())
        except FileExistsError:
            continue
        return kept
    raise AssertionError("count() does not end")
