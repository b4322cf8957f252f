"""The hints of a puzzle, out of its chapter's lesson, where they are folded away."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from course.paths import PUZZLES

# In pytest's cache: how many hints of each puzzle a learner has seen.
SEEN = "kata/hints"

HINT = re.compile(
    r"^<details><summary>(?P<name>\w+): (?P<kind>.+?)</summary>\n(?P<text>.*?)^</details>",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Hint:
    """One hint.

    kind: "a question", "the idea" or "the line of thought"
    text: paragraphs, as the lesson has them
    line: where it stands in the lesson
    """

    kind: str
    text: str
    line: int


def lesson_of(puzzle: str) -> Path:
    """Return the path of the lesson of a puzzle's chapter."""
    return PUZZLES / puzzle.partition("/")[0] / "README.md"


def chapter_of(puzzle: str) -> str:
    """Return the title of a puzzle's chapter: 01 Pointwise: loads, stores, masks, program ids."""
    return lesson_of(puzzle).read_text().partition("\n")[0].lstrip("# ")


def hints_of(puzzle: str) -> list[Hint]:
    """Return a puzzle's hints in their order; none of a worked example."""
    lesson, name = lesson_of(puzzle).read_text(), puzzle.partition("/")[2]
    return [
        Hint(found["kind"], found["text"].strip("\n"), _line(lesson, found.start()))
        for found in HINT.finditer(lesson)
        if found["name"] == name
    ]


def are_all_seen(cache: pytest.Cache | None, puzzle: str) -> bool:
    """Whether a learner has seen all hints of a puzzle. cache: pytest's, None if it is off"""
    seen = cache.get(SEEN, {}) if cache else {}
    return seen.get(puzzle, 0) >= len(hints_of(puzzle))


def idea_of(puzzle: str) -> int:
    """Return the line at which the lesson's section "The idea" begins."""
    lesson = lesson_of(puzzle).read_text()
    return _line(lesson, lesson.index("\n## The idea\n") + 1)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
