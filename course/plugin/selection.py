"""Which tests a run collects: both levels or one, stubs that are named, the proof of the tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from course.paths import PRODUCTION, located
from course.plugin.ladder import LEVELS, ladder, level_of, puzzle_of


def arguments(given: Iterable[str], both_levels: bool) -> Iterator[str]:
    """Yield what to collect for the paths and test ids on the command line.

    A stub, puzzles/07_matmul/tiled.py, stands for its tests. Where both levels are graded, a test
    file of the first level, or a test of it, brings along that of the second.
    """
    for argument in given:
        path, *test = argument.split("::")
        file = Path(path)
        if file.suffix == ".py" and not file.name.startswith("test_"):
            tests = file.with_name(f"test_{file.name}")
            file = tests if tests.exists() and puzzle_of(located(tests)) else file
        yield "::".join([str(file), *test])
        twin = file.parent / PRODUCTION / file.name
        if both_levels and file.suffix == ".py" and twin.exists():
            name = test[0].partition("[")[0] if test else ""
            if not name or f"def {name}(" in twin.read_text():
                yield "::".join([str(twin), *test])


def is_hidden(path: Path, given: Iterable[str], both_levels: bool) -> bool:
    """Return whether a folder is one of the second level that nobody asked for."""
    if both_levels or path.name != PRODUCTION or not path.is_dir():
        return False
    return not _is_named(path, given)


def in_order(items: Iterable) -> list:
    """Sort pytest's items as the ladder is climbed, not by file name."""
    steps = {puzzle: number for number, puzzle in enumerate(ladder())}
    return sorted(
        items,
        key=lambda it: (steps.get(puzzle_of(it.path), -1), LEVELS.index(level_of(it.path))),
    )


def split_proof(items: Iterable, proof: bool, given: Iterable[str]) -> tuple[list, list]:
    """Split pytest's items into those to run and those to leave out.

    proof: run the tests marked so, and no others. Otherwise they run where their file is named.
    """
    wanted, left_out = [], []
    files = _files(given)
    for item in items:
        is_proof = item.get_closest_marker("proof") is not None
        runs = is_proof if proof else not is_proof or item.path in files
        (wanted if runs else left_out).append(item)
    return wanted, left_out


def _files(given: Iterable[str]) -> set[Path]:
    return {located(argument.split("::")[0]) for argument in given}


def _is_named(folder: Path, given: Iterable[str]) -> bool:
    return any(path.is_relative_to(folder) for path in _files(given))
