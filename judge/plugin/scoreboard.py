"""What a learner sees after a run: one row a puzzle, what to open next, and what was kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from judge.core.paths import PUZZLES, display_path
from judge.core.settings import settings
from judge.core.verdict import Unsolved
from judge.plugin.ladder import CHECKS, check_of, checks_of, ladder

PROPERTY = "kata"
CACHE = "kata/progress"

PASSED, WRONG, UNSOLVED, NOT_MEASURED = "passed", "wrong", "unsolved", "not measured"


def describe(
    made,
    puzzle: str,
    test: str,
    error: BaseException | None,
    measured: dict[str, str] | None = None,
    raced: dict[str, str] | None = None,
) -> None:
    """Attach to pytest's report what the scoreboard needs; xdist carries it to the controller.

    measured, raced: as in judge.challenge
    """
    verdict = PASSED if made.passed else NOT_MEASURED if made.skipped else WRONG
    if isinstance(error, Unsolved):
        verdict = UNSOLVED
    check = check_of(test)
    score = {"puzzle": puzzle, "check": check, "verdict": verdict}
    score |= {"measured": dict(measured or {}), "raced": dict(raced or {})}
    made.user_properties.append((PROPERTY, score))


def status(made) -> tuple | None:
    """How pytest's terminal counts a report of a puzzle that neither passed nor was wrong."""
    properties = getattr(made, "user_properties", ())  # which the report of a collection has not
    verdicts = [score["verdict"] for name, score in properties if name == PROPERTY]
    if verdicts == [UNSOLVED]:
        return UNSOLVED, "u", ("UNSOLVED", {"yellow": True})
    if verdicts == [NOT_MEASURED]:
        return NOT_MEASURED, "-", ("NOT MEASURED", {"yellow": True})
    return None


@dataclass
class Row:
    """One puzzle. verdicts: of each check, one a case; measured: for the last column."""

    verdicts: dict[str, list[str]] = field(default_factory=dict)
    measured: dict[str, str] = field(default_factory=dict)

    def of(self, check: str) -> str | None:
        """The verdict of all the cases of a check together."""
        verdicts = self.verdicts.get(check)
        if not verdicts:
            return None
        return next(v for v in (UNSOLVED, WRONG, NOT_MEASURED, PASSED) if v in verdicts)


class Scoreboard:
    """Collects the reports of a run, and writes the board."""

    def __init__(self, config):
        self.config = config
        self.rows: dict[str, Row] = {}
        # The columns of each race, by puzzle and test.
        self.races: dict[tuple[str, str], dict[str, str]] = {}

    def pytest_runtest_logreport(self, report) -> None:
        """Take in one report, whichever process made it."""
        for name, value in report.user_properties:
            if name == PROPERTY:
                row = self.rows.setdefault(value["puzzle"], Row())
                row.verdicts.setdefault(value["check"], []).append(value["verdict"])
                row.measured |= value["measured"]
                if value["raced"]:
                    self.races[value["puzzle"], report.nodeid.split("::")[-1]] = value["raced"]

    def pytest_terminal_summary(self, terminalreporter) -> None:
        """Write the board, unless no puzzle was asked for or pytest was told to be silent."""
        if self.rows and self.config.option.verbose > -2:
            self.write(terminalreporter, settings.subjects)
            if self.races:
                self.write_times(terminalreporter)

    def save(self, grading: Path) -> dict[str, dict]:
        """Merge this run into what earlier runs left in pytest's cache, and return it all.

        Only the learner's own stubs are remembered; what was found about a file is forgotten when
        the file changes.
        """
        cache = getattr(self.config, "cache", None)
        if grading != PUZZLES or cache is None:
            return {}
        kept = cache.get(CACHE, {})
        kept = {
            puzzle: entry
            for puzzle, entry in kept.items()
            if entry["digest"] == _digest(grading, puzzle)
        }
        for puzzle, row in self.rows.items():
            entry = kept.setdefault(puzzle, {"digest": _digest(grading, puzzle), "checks": {}})
            entry["checks"] |= {check: row.of(check) for check in row.verdicts}
        cache.set(CACHE, kept)
        return kept

    def write(self, terminal, grading: Path) -> None:
        """Print the board on pytest's terminal."""
        kept = self.save(grading)
        terminal.section("scoreboard", sep="-")
        puzzles = sorted(self.rows, key=ladder().index)
        width = max(len(puzzle) for puzzle in puzzles) + 2
        terminal.line(" " * width + "".join(f"{check:<14}" for check in CHECKS).rstrip())
        for puzzle in puzzles:
            self._write_row(terminal, puzzle, width)
        done = [puzzle for puzzle in puzzles if self._state(puzzle) == PASSED]
        terminal.line("")
        terminal.line(f"{len(done)} of {len(puzzles)} solved.{self._but_for_speed(puzzles)}")
        if kept:
            everywhere = ladder()
            solved = [p for p in everywhere if _solved(kept.get(p), checks_of(p))]
            if set(everywhere) != set(puzzles):
                terminal.line(f"On the whole ladder: {len(solved)} of {len(everywhere)} solved.")
            if following := next((p for p in everywhere if p not in solved), None):
                terminal.line(f"Next: {display_path(grading / following)}.py")

    def write_times(self, terminal) -> None:
        """Print a line for each race, in the order of the ladder."""
        terminal.section("times: medians, L2 flushed before each call", sep="-")
        steps = ladder()
        races = sorted(self.races.items(), key=lambda race: (steps.index(race[0][0]), race[0][1]))
        lines = [("test", *races[0][1])]
        lines += [(f"{puzzle} {test}", *columns.values()) for (puzzle, test), columns in races]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            cells = (f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True))
            terminal.line("  ".join(cells).rstrip())

    def _write_row(self, terminal, puzzle: str, width: int) -> None:
        row = self.rows[puzzle]
        terminal.write(f"{puzzle:<{width}}")
        if all(row.of(check) in (UNSOLVED, NOT_MEASURED) for check in row.verdicts):
            terminal.line("unsolved", yellow=True)
            return
        for check in CHECKS:
            verdict = row.of(check)
            if verdict is None:
                terminal.write(f"{'-':<14}")
            elif verdict == WRONG:
                verdicts = row.verdicts[check]
                wrong = f"WRONG {verdicts.count(WRONG)}/{len(verdicts)}"
                terminal.write(f"{wrong:<14}", red=True)
            elif verdict == PASSED:
                terminal.write(f"{'ok':<14}", green=True)
            else:
                terminal.write(f"{verdict:<14}", yellow=True)
        terminal.line("; ".join(row.measured.values()) or "")

    def _state(self, puzzle: str) -> str:
        row = self.rows[puzzle]
        states = {row.of(check) for check in row.verdicts} - {NOT_MEASURED}
        return PASSED if states == {PASSED} else WRONG

    def _but_for_speed(self, puzzles: Iterable[str]) -> str:
        unmeasured = any(self.rows[p].of("speedup") == NOT_MEASURED for p in puzzles)
        return " Speed was not measured: that takes a GPU." if unmeasured else ""


def _solved(entry: dict | None, checks: set[str]) -> bool:
    if entry is None:
        return False
    found = entry["checks"]
    return checks <= set(found) and all(found[c] in (PASSED, NOT_MEASURED) for c in checks)


def _digest(grading: Path, puzzle: str) -> str:
    path = grading / f"{puzzle}.py"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
