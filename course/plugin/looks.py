"""Runs that look at kernels and grade nothing: what --compiled and --try have in common."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from course import running
from course.paths import PRODUCTION, PUZZLES
from course.plugin import failures
from course.plugin.ladder import check_of, ladder, level_of, puzzle_of
from course.plugin.scoreboard import Scoreboard
from kernelgauge.run import Observer


class Look(Observer):
    """A plugin for a run that looks at kernels. It prints faults as any run does, and no scores.

    option: what asked for it, for messages
    verb: how pytest's last line counts what was looked at
    """

    option = verb = ""

    def __init__(self, config: pytest.Config):
        self.config = config
        running.observers.append(self)
        self._board = Scoreboard(config)

    def choose(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Return the tests to run, of those of puzzles that were asked for, in order."""
        raise NotImplementedError

    def write(self, terminal) -> None:
        """Print what was found."""
        raise NotImplementedError

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        both = config.option.production or not config.option.solutions
        asked = [it for it in items if puzzle_of(it.path) and hasattr(it.module, "puzzle")]
        chosen = self.choose([it for it in asked if both or level_of(it.path) != PRODUCTION])
        if not chosen and not config.option.collectonly:
            raise pytest.UsageError(
                f"{self.option}: nothing that was asked for has a compile check: name a puzzle, "
                f"as in pytest puzzles/07_matmul/tiled.py {self.option}"
            )
        config.hook.pytest_deselected(items=[it for it in items if it not in chosen])
        items[:] = chosen

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report):
        if report.when == "call" and report.passed:
            return self.verb, ".", self.verb.upper()
        return None

    def pytest_runtest_logreport(self, report):
        self._board.pytest_runtest_logreport(report)

    def pytest_terminal_summary(self, terminalreporter):
        if self.config.option.verbose <= -2:
            return
        rows = self._board.rows
        for puzzle in sorted(rows, key=ladder().index):
            if rows[puzzle].is_untouched:
                terminalreporter.line(f"{puzzle}   {rows[puzzle].to_do}", yellow=True)
            failures.write(terminalreporter, rows[puzzle].failures, self.config.option.verbose)
        self.write(terminalreporter)


def of_kind(items: Iterable[pytest.Item], check: str) -> list[pytest.Item]:
    """Return the tests of one kind of check."""
    return [item for item in items if check_of(item.name) == check]


def case_of(test: str) -> str:
    """Return what a compile check is about, by its name: bfloat16 of test_compiles[bfloat16]."""
    name, _, case = test.rpartition("::")[2].partition("[")
    words = [name.removeprefix("test_compiles").strip("_"), case.removesuffix("]")]
    return "-".join(filter(None, words))


def folder_to_write(option: str, given: str) -> Path:
    """Return the folder that an option names, made if it is not there. Raises UsageError."""
    folder = Path(given)
    if folder.suffix == ".py" or "::" in given or folder.resolve().is_relative_to(PUZZLES):
        raise pytest.UsageError(
            f"{option} {given}: this names a folder to write to; name the puzzle first: "
            f"pytest {given} {option}"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise pytest.UsageError(f"{option} {given}: cannot write there: {error.strerror}") from None
    return folder
