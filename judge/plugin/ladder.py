"""The puzzles in the order of the climb, and the kinds of check that each is held to."""

from __future__ import annotations

import re
from pathlib import Path

from judge.core.paths import PUZZLES

CHECKS = ("shapes", "masks", "numerics", "traffic", "compiles", "speedup")


def ladder() -> list[str]:
    """All puzzles in the order of the climb: chapter by chapter, as each lesson lists them."""
    return [puzzle for chapter in sorted(PUZZLES.glob("[0-9]*_*")) for puzzle in _steps(chapter)]


def checks_of(puzzle: str) -> set[str]:
    """The kinds of check that a puzzle's test file makes."""
    chapter, name = puzzle.split("/")
    text = (PUZZLES / chapter / f"test_{name}.py").read_text()
    return set(re.findall(rf"^def test_({'|'.join(CHECKS)})", text, re.MULTILINE))


def check_of(test: str) -> str | None:
    """Which kind of check a test's name stands for."""
    found = re.match(rf"test_({'|'.join(CHECKS)})(?:_|\[|$)", test)
    return found[1] if found else None


def puzzle_of(path: Path) -> str | None:
    """The puzzle that a test file belongs to, or None for other test files."""
    if not path.is_relative_to(PUZZLES) or not path.name.startswith("test_"):
        return None
    return f"{path.parent.name}/{path.stem.removeprefix('test_')}"


def _steps(chapter: Path) -> list[str]:
    names = {path.stem.removeprefix("test_") for path in chapter.glob("test_*.py")}
    lesson = chapter / "README.md"
    text = lesson.read_text() if lesson.exists() else ""

    def place(name: str) -> tuple[int, str]:
        position = text.find(f"{name}.py")
        return (position if position >= 0 else len(text), name)

    return [f"{chapter.name}/{name}" for name in sorted(names, key=place)]
