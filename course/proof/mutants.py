"""Wrong subjects on purpose, and a puzzle's own tests run on them in this process.

A mutant is a solution with one small edit, listed in tests/mutants/NN_chapter.toml: one table for
each puzzle and in it one for each mutant, with

    find, replace   text that occurs once in the solution, and what takes its place; or a list of
                    each, where one edit alone makes no likely mistake
    check           the kind of check that must fail; "speedup" for what is right and slow, which
                    only a GPU shows
    message         words that the message must contain
    cause           a pattern of what a learner must read first, after all tests of the level have
                    run; default: the words of `message`
    test            the test to run, with or without the id of one case; default: all of the check
    interpreter     true where only the interpreter can see it
    level           "production" where only the second level must catch it; default: the first
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from pathlib import Path

from course import paths
from course.plugin import ladder
from course.proof.runner import Case
from kernelgauge.core.settings import settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = paths.ROOT / "tests" / "mutants"


@dataclass(frozen=True)
class Mutant:
    """A wrong version of one solution; the fields are those of the file, see above."""

    puzzle: str
    name: str
    find: str | list[str]
    replace: str | list[str]
    check: str
    message: str
    test: str = ""
    interpreter: bool = False
    level: str = ladder.SOLVED
    cause: str = ""

    @property
    def seen_here(self) -> bool:
        """Whether it fails where this process runs kernels: in the interpreter, or on a GPU."""
        if settings.interpreted:
            return self.check != "speedup"
        return self.check != "traffic" and not self.interpreter

    def source(self) -> str:
        """The edited solution. Raises ValueError unless each edit applies exactly once."""
        return edited(paths.SOLUTIONS / f"{self.puzzle}.py", self.find, self.replace)

    def concerns(self, case: Case) -> bool:
        """Whether this case of the puzzle's tests is one that must fail."""
        if case.level != self.level or ladder.check_of(case.test) != self.check:
            return False
        return self.test in ("", case.test, case.name)


def edited(path: Path, find: str | list[str], replace: str | list[str]) -> str:
    """What this file says after the edits. Raises ValueError unless each applies exactly once."""
    text = path.read_text()
    edits = [(find, replace)] if isinstance(find, str) else zip(find, replace, strict=True)
    for old, new in edits:
        if (count := text.count(old)) != 1:
            raise ValueError(f"{path.name}: found {count} times, not once: {old}")
        text = text.replace(old, new)
    return text


def tables(path: Path) -> list[tuple[str, str, dict]]:
    """The puzzle, the name and the fields of each table of a chapter's file."""
    return [
        (f"{path.stem}/{puzzle}", name, fields)
        for puzzle, named in tomllib.loads(path.read_text()).items()
        for name, fields in named.items()
    ]


@functools.cache
def read(path: Path) -> list[Mutant]:
    """The mutants of one chapter."""
    return [Mutant(puzzle, name, **fields) for puzzle, name, fields in tables(path)]
