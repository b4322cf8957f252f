"""Wrong subjects on purpose, and a puzzle's own tests run on them in this process.

A mutant is a solution with one small edit, listed in tests/mutants/NN_chapter.toml: one table for
each puzzle and in it one for each mutant, with

    find, replace   text that occurs once in the solution, and what takes its place; or a list of
                    each, where one edit alone makes no likely mistake
    check           the kind of check that must fail
    message         words that the message must contain
    test            the test to run, with or without the id of one case; default: all of the check
    interpreter     true where only the interpreter can see it
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from judge.core import paths
from judge.core.verdict import NotMeasured, Wrong
from judge.plugin import scoreboard, session

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

    @property
    def seen_on_gpu(self) -> bool:
        return self.check != "traffic" and not self.interpreter

    def source(self) -> str:
        """The edited solution. Raises ValueError unless each edit applies exactly once."""
        text = (paths.SOLUTIONS / f"{self.puzzle}.py").read_text()
        one = isinstance(self.find, str)
        edits = [(self.find, self.replace)] if one else zip(self.find, self.replace, strict=True)
        for find, replace in edits:
            if (count := text.count(find)) != 1:
                raise ValueError(f"{self.puzzle}: found {count} times, not once: {find}")
            text = text.replace(find, replace)
        return text

    def concerns(self, case: Case) -> bool:
        """Whether this case of the puzzle's tests is one that must fail."""
        if scoreboard.check_of(case.test) != self.check:
            return False
        return self.test in ("", case.test, case.name)


@dataclass(frozen=True)
class Case:
    """One test of a puzzle with its parameters. name: as pytest shows it, test_masks[ragged]"""

    puzzle: str
    test: str
    name: str
    function: Callable
    parameters: dict

    def run(self, seed: str = "") -> None:
        """Run it as pytest would, on the same random numbers. Raises what the test raises."""
        session.begin(f"puzzles/{test_file(self.puzzle)}::{self.name}{seed}")
        session.demand_means_for(scoreboard.check_of(self.test))
        self.function(**self.parameters)


def read(path: Path) -> list[Mutant]:
    """The mutants of one chapter."""
    chapter = tomllib.loads(path.read_text())
    return [
        Mutant(f"{path.stem}/{puzzle}", name, **fields)
        for puzzle, mutants in chapter.items()
        for name, fields in mutants.items()
    ]


def test_file(puzzle: str) -> Path:
    """chapter/test_name.py, below puzzles/."""
    chapter, name = puzzle.split("/")
    return Path(chapter, f"test_{name}.py")


def test_module(puzzle: str) -> ModuleType:
    """The puzzle's tests, as a module."""
    return paths.load(paths.PUZZLES / test_file(puzzle))


def cases_of(puzzle: str) -> list[Case]:
    """Every case of every test of the puzzle, in the order of its file."""
    found = []
    for test, function in vars(test_module(puzzle)).items():
        if scoreboard.check_of(test) and inspect.isfunction(function):
            for label, parameters in _parameters(function):
                name = f"{test}[{label}]" if label else test
                found.append(Case(puzzle, test, name, function, parameters))
    return found


def _parameters(function: Callable) -> Iterator[tuple[str, dict]]:
    """The id and the parameters of each case that pytest.mark.parametrize makes of a function."""
    axes = []
    for mark in getattr(function, "pytestmark", []):
        names, rows = mark.args
        if isinstance(names, str):
            names, rows = [names], [(row,) for row in rows]
        labels = mark.kwargs.get("ids") or ["-".join(map(str, row)) for row in rows]
        values = [dict(zip(names, row, strict=True)) for row in rows]
        axes.append(list(zip(labels, values, strict=True)))
    for combined in itertools.product(*axes):
        merged = {}
        for _, values in combined:
            merged |= values
        yield "-".join(label for label, _ in combined), merged


@contextmanager
def graded(puzzle: str, source: str, folder: Path) -> Iterator[None]:
    """In the body this source is what the puzzle's tests grade; it is written below folder."""
    path = folder / f"{puzzle}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    before, paths.subjects = paths.subjects, folder
    try:
        yield
    finally:
        paths.subjects = before


def first_fault(cases: list[Case]) -> tuple[Case, Wrong] | None:
    """The first case that fails and why, or None. Raises NotMeasured if none can be measured."""
    unmeasured = None
    measured = False
    for case in cases:
        try:
            case.run()
        except Wrong as wrong:
            return case, wrong
        except NotMeasured as reason:
            unmeasured = reason
        else:
            measured = True
    if unmeasured and not measured:
        raise unmeasured
    return None
