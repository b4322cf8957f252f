"""The puzzles in the order of the climb, what they take, their levels, and the kinds of check."""

from __future__ import annotations

import re
from pathlib import Path

from course import paths
from course.paths import PRODUCTION, PUZZLES

CHECKS = ("shapes", "masks", "numerics", "traffic", "compiles", "speedup")

# The first level has no folder of its own.
SOLVED = "solved"
LEVELS = (SOLVED, PRODUCTION)

DIFFICULTIES = ("easy", "medium", "hard", "very hard")
# How the row of a puzzle in its lesson ends: with an estimate of its time, and its difficulty.
EFFORT = rf"\| *(\d+ min|[\d.]+ h) *\| *({'|'.join(DIFFICULTIES)}) *\|$"


def ladder() -> list[str]:
    """List all puzzles in the order of the climb: by chapter, and there as the lesson has them."""
    return [puzzle for chapter in sorted(PUZZLES.glob("[0-9]*_*")) for puzzle in _steps(chapter)]


def effort_of(puzzle: str) -> tuple[str, str]:
    """Return how long a puzzle takes and how hard it is, as its row in the lesson says.

    Estimates of the first level, for someone who has solved what stands before: "20 min", "easy".
    """
    chapter, name = puzzle.split("/")
    lesson = (PUZZLES / chapter / "README.md").read_text()
    found = re.search(rf"^\| *\[{name}\.py\].*?{EFFORT}", lesson, re.MULTILINE)
    return (found[1], found[2]) if found else ("", "")


def path_of_tests(puzzle: str, level: str = SOLVED) -> Path:
    """Return the path of a puzzle's tests of one level."""
    chapter, name = puzzle.split("/")
    folder = PUZZLES / chapter
    return (folder / PRODUCTION if level == PRODUCTION else folder) / f"test_{name}.py"


def checks_of(puzzle: str, level: str = SOLVED) -> set[str]:
    """Return the kinds of check that a puzzle's test file makes; none where there is no file."""
    path = path_of_tests(puzzle, level)
    text = path.read_text() if path.exists() else ""
    return set(re.findall(rf"^def test_({'|'.join(CHECKS)})", text, re.MULTILINE))


def check_of(test: str) -> str | None:
    """Return the kind of check that a test's name stands for, None for other tests."""
    found = re.match(rf"test_({'|'.join(CHECKS)})(?:_|\[|$)", test)
    return found[1] if found else None


def puzzle_of(path: Path) -> str | None:
    """Return the puzzle that a test file belongs to, None for other test files."""
    if not path.is_relative_to(PUZZLES) or not path.name.startswith("test_"):
        return None
    return "/".join(paths.puzzle_at(path))


def level_of(path: Path) -> str:
    """Return the level of a puzzle's test file."""
    return PRODUCTION if path.parent.name == PRODUCTION else SOLVED


def _steps(chapter: Path) -> list[str]:
    names = {path.stem.removeprefix("test_") for path in chapter.glob("test_*.py")}
    lesson = chapter / "README.md"
    text = lesson.read_text() if lesson.exists() else ""

    def position(name: str) -> tuple[int, str]:
        found = text.find(f"[{name}.py]")
        return (found if found >= 0 else len(text), name)

    return [f"{chapter.name}/{name}" for name in sorted(names, key=position)]
