"""What a learner sees after a run: what is wrong, a row a puzzle, and what to open next."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course.desk import comparison
from course.paths import HOME, PRODUCTION, PUZZLES, SOLUTIONS, display_path
from course.plugin import diagnoses, failures
from course.plugin.ladder import (
    CHECKS,
    SOLVED,
    check_of,
    checks_of,
    ladder,
    level_of,
    path_of_tests,
    puzzle_of,
)
from course.plugin.listing import write_ladder
from course.plugin.progress import Findings, Progress, counted, is_done, production_of
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured, NotRun, Unsolved
from kernelgauge.core.verdict import Wrong as WrongVerdict
from kernelgauge.words.tables import aligned

if TYPE_CHECKING:
    # The header is printed without Triton, which these import.
    from kernelgauge.memory.budgets import Traffic
    from kernelgauge.run import Run

PROPERTY = "kata"
# Of sentences.
WIDTH = 100
# How many puzzles a line names.
MAX_NAMED = 8

PASSED, WRONG, UNSOLVED = "passed", "wrong", "unsolved"
NOT_MEASURED, NOT_RUN = "not measured", "not run"

NOTHING: dict[str, Any] = {
    "measured": {}, "raced": {}, "race": None, "compared": {}, "figures": [],
}  # fmt: skip

# How pytest's progress line shows a verdict, and how its last line counts it.
STATUS = {
    WRONG: ("F", ("WRONG", {"red": True})),
    UNSOLVED: ("u", ("UNSOLVED", {"yellow": True})),
    NOT_MEASURED: ("-", ("NOT MEASURED", {"yellow": True})),
    NOT_RUN: ("-", ("NOT RUN", {"yellow": True})),
}


def describe(
    made,
    puzzle: str,
    level: str,
    test: str,
    error: BaseException | None,
    *,
    order: int = 0,
    run: Run | None = None,
    withheld: bool = False,
) -> None:
    """Attach to pytest's report what the scoreboard needs; xdist carries it to the controller.

    error: what the test raised
    order: its place among the tests of the run
    run: what its checks measured
    withheld: whether a learner is to find the cause
    """
    verdict = PASSED if made.passed else NOT_MEASURED if made.skipped else WRONG
    for kind, name in ((Unsolved, UNSOLVED), (NotRun, NOT_RUN)):
        if isinstance(error, kind):
            verdict = name
    score = {"puzzle": puzzle, "level": level, "test": test, "verdict": verdict, "order": order}
    score |= _measured(run) if run else NOTHING
    kept = isinstance(error, (NotMeasured, NotRun, Unsolved))
    score["why"] = str(error) if kept else ""
    wrong = isinstance(error, WrongVerdict)
    score["told"] = failures.told(error.fault, withheld) if wrong else None
    made.user_properties.append((PROPERTY, score))


def _measured(run: Run) -> dict[str, Any]:
    """Return what a test measured: words by kind of check, columns of a race, and figures."""
    race = run.races[-1] if run.races else None
    words = {"traffic": _moved(run.traffic[-1])} if run.traffic else {}
    words |= {"speedup": race.summary()} if race else {}
    found = [it.found for it in run.observers if hasattr(it, "found")]
    return {
        "measured": words,
        "raced": race.columns() if race else {},
        "race": race.plain() if race else None,
        "compared": dict(*found),
        "figures": [it.plain() for it in run.figures],
    }


def _moved(traffic: Traffic) -> str:
    """Say how often each tensor was read and written."""
    moves = [
        (name, verb, times)
        for name, moved in traffic.tensors.items()
        for verb, times in (("read", moved.loads), ("written", moved.stores))
        if times
    ]
    return ", ".join(f"{name} {verb} {times:.3g}x" for name, verb, times in moves)


def score_of(made) -> dict | None:
    """Return what `describe` attached to a report, None where it did not."""
    properties = getattr(made, "user_properties", ())  # which the report of a collection has not
    return next((value for name, value in properties if name == PROPERTY), None)


def failure_of(made) -> failures.Failure | None:
    """Return what is wrong in a report of a puzzle's test, None if nothing is."""
    score = score_of(made)
    if score is None or not score["told"]:
        return None
    puzzle, level = score["puzzle"], score["level"]
    path = display_path(path_of_tests(puzzle, level))
    return failures.Failure(
        puzzle, level, score["test"], path, score["order"], score["told"], made.capstdout
    )


def status(made) -> tuple | None:
    """Return how pytest's terminal counts the report of a puzzle that did not pass.

    An error of a test file of ours, which is no verdict, is left to pytest.
    """
    score = score_of(made)
    if (
        score is None
        or score["verdict"] not in STATUS
        or not isinstance(made.longrepr, str | tuple)
    ):
        return None
    return score["verdict"], *STATUS[score["verdict"]]


@dataclass
class Row:
    """One puzzle in this run.

    verdicts: of each level, by test
    measured: for the last column
    compared: beside our solution, by kind of check
    to_do: what to do before anything can be graded
    failures: its wrong cases
    """

    verdicts: dict[str, dict[str, str]] = field(
        default_factory=lambda: {SOLVED: {}, PRODUCTION: {}}
    )
    measured: dict[str, str] = field(default_factory=dict)
    compared: dict[str, comparison.Group] = field(default_factory=dict)
    to_do: str = ""
    failures: list[failures.Failure] = field(default_factory=list)

    @property
    def is_untouched(self) -> bool:
        """Whether there is nothing to grade yet: an untouched stub, or one with gaps."""
        found = [v for tests in self.verdicts.values() for v in tests.values()]
        return UNSOLVED in found and set(found) <= {UNSOLVED, NOT_MEASURED}

    def findings(self) -> Findings:
        """Return for each level which tests passed, as progress keeps it."""
        return {
            level: {test: verdict in (PASSED, NOT_MEASURED) for test, verdict in tests.items()}
            for level, tests in self.verdicts.items()
            if tests
        }

    def count(self, level: str, check: str) -> str:
        """Return the cell of the table for one kind of check: passed of all, or a word."""
        verdicts = [v for test, v in self.verdicts[level].items() if check_of(test) == check]
        if not verdicts:
            return "-"
        if set(verdicts) == {NOT_MEASURED}:
            return "needs a GPU" if check == "speedup" else "not measured"
        if NOT_RUN in verdicts and WRONG not in verdicts:
            return "not run"
        passed = sum(verdict in (PASSED, NOT_MEASURED) for verdict in verdicts)
        return f"{passed}/{len(verdicts)}"


class Scoreboard:
    """Collects the reports of a run, and prints what they say."""

    def __init__(self, config):
        self.config = config
        self.rows: dict[str, Row] = {}
        # The columns of each race, by puzzle and test.
        self.races: dict[tuple[str, str], dict[str, str]] = {}

    def pytest_runtest_logreport(self, report) -> None:
        """Take in one report, whichever process made it."""
        for name, found in getattr(report, "user_properties", ()):
            if name == diagnoses.PROPERTY:
                self.take(found)
        if not (score := score_of(report)):
            return
        puzzle, level, test = score["puzzle"], score["level"], score["test"]
        row = self.rows.setdefault(puzzle, Row())
        row.verdicts[level][test] = score["verdict"]
        row.measured |= score["measured"]
        row.compared |= score["compared"]
        if score["verdict"] == UNSOLVED:
            row.to_do = score["why"]
        if failure := failure_of(report):
            row.failures.append(failure)
        if score["raced"]:
            self.races[puzzle, report.nodeid.split("::")[-1]] = score["raced"]

    def take(self, found: Sequence[dict[str, Any]]) -> None:
        """Take in what was found once all cases of a file were through."""
        for one in found:
            path, _, test = one["nodeid"].partition("::")
            row = self.rows.get(puzzle_of(HOME / path) or "", Row())
            level = level_of(Path(path))
            row.failures = [
                replace(it, told=one["told"]) if (it.level, it.test) == (level, test) else it
                for it in row.failures
            ]

    def pytest_terminal_summary(self, terminalreporter) -> None:
        """Print everything, unless no puzzle was asked for or pytest was told to be silent."""
        if not self.rows or self.config.option.verbose <= -2:
            return
        puzzles = sorted(self.rows, key=ladder().index)
        for puzzle in puzzles:
            failures.write(terminalreporter, self.rows[puzzle].failures, self.config.option.verbose)
        progress = self.write(terminalreporter, puzzles)
        if self.races:
            self.write_times(terminalreporter)
        if self.config.option.compare:
            self.write_comparisons(terminalreporter, puzzles, progress)

    def write(self, terminal, puzzles: list[str]) -> Progress:
        """Print a row for each puzzle, how many are solved, and what to open next.

        Returns the progress with what this run found.
        """
        own = settings.subjects == PUZZLES
        progress = self.keep(puzzles)
        terminal.section("scoreboard", sep="-")
        width = max(map(len, puzzles)) + 2
        if any(self.rows[p].failures for p in puzzles):
            columns = "".join(f"{check.replace('speedup', 'speed'):<10}" for check in CHECKS)
            terminal.line(" " * width + columns.rstrip())
        for puzzle in puzzles:
            self._write_row(terminal, puzzle, width, progress.of(puzzle))
        solved = [p for p in puzzles if is_done(progress.of(p), p, SOLVED)]
        if len(puzzles) > 1 or solved:
            terminal.line("")
        if len(puzzles) == 1 and solved:
            self.congratulate(terminal, puzzles[0], progress.of(puzzles[0]))
        else:
            terminal.line(f"{counted(puzzles, progress)}.{self._without_speed(puzzles)}")
        if own:
            write_ladder(terminal, puzzles, progress, first=puzzles if len(puzzles) == 1 else ())
        return progress

    def _write_row(self, terminal, puzzle: str, width: int, found: Findings) -> None:
        row = self.rows[puzzle]
        terminal.write(f"{puzzle:<{width}}")
        if row.is_untouched:
            terminal.line(row.to_do, yellow=True)
            return
        solved = is_done(found, puzzle, SOLVED)
        if not solved or (row.failures and not row.verdicts[PRODUCTION]):
            for check in CHECKS:
                terminal.write(f"{row.count(SOLVED, check):<10}", red=bool(row.failures))
            terminal.line("")
            return
        terminal.write("solved        ", green=True)
        terminal.line(production_of(found, puzzle))

    def keep(self, puzzles: Iterable[str]) -> Progress:
        """Keep what this run found. Returns the progress with it."""
        own = settings.subjects == PUZZLES
        progress = Progress(getattr(self.config, "cache", None) if own else None, settings.subjects)
        for puzzle in puzzles:
            progress.add(puzzle, self.rows[puzzle].findings())
        progress.save()
        return progress

    def congratulate(self, terminal, puzzle: str, found: Findings) -> None:
        """Say that a puzzle is solved, what is left of production, and what it compares with."""
        name = puzzle.partition("/")[2]
        terminal.line(f"{name} is solved.{self._said(puzzle)}{self._without_speed([puzzle])}")
        if estimate := self.rows[puzzle].compared.get("speedup", {}).get("said"):
            terminal.line(f"An estimate of speed: at best about {estimate}.")
        if checks_of(puzzle, PRODUCTION):
            self._write_production(terminal, puzzle, found)
        if settings.subjects == PUZZLES and not self.config.option.compare:
            file = display_path(PUZZLES / f"{puzzle}.py")
            terminal.line(f"Compare with ours: pytest {file} --compare")

    def _write_production(self, terminal, puzzle: str, found: Findings) -> None:
        tests = found.get(PRODUCTION, {})
        command = f"pytest {display_path(path_of_tests(puzzle))} --production"
        missing = [test for test, passed in tests.items() if not passed]
        if not tests:
            terminal.line(f"Production, what it takes to ship it: {command}")
        elif missing:
            passed = len(tests) - len(missing)
            terminal.line(f"Production: {passed} of {len(tests)}. Missing: {_topics(missing)}.")
            terminal.line(f"    {command}")
        else:
            # What an earlier run passed may not have been timed.
            timed = dict.fromkeys(tests, PASSED) == self.rows[puzzle].verdicts[PRODUCTION]
            shipped = " It could be shipped." if timed else ""
            terminal.line(f"Production: {len(tests)} of {len(tests)}.{shipped}")

    def _said(self, puzzle: str) -> str:
        measured = "; ".join(self.rows[puzzle].measured.values())
        return f" Measured: {measured}." if measured else ""

    def _without_speed(self, puzzles: Iterable[str]) -> str:
        def is_unmeasured(puzzle: str) -> bool:
            tests = self.rows[puzzle].verdicts[SOLVED].items()
            return any(check_of(t) == "speedup" and v == NOT_MEASURED for t, v in tests)

        return (
            " Speed was not measured: that takes a GPU." if any(map(is_unmeasured, puzzles)) else ""
        )

    def write_comparisons(self, terminal, puzzles: list[str], progress: Progress) -> None:
        """Print how each puzzle that is solved stands beside our solution, and name the others."""
        solved = [p for p in puzzles if is_done(progress.of(p), p, SOLVED)]
        for puzzle in solved:
            name = puzzle.partition("/")[2]
            file = settings.subjects / f"{puzzle}.py"
            terminal.section(f"{name}: yours next to ours", sep="-")
            found = self.rows[puzzle].compared
            groups = [found[check] for check in CHECKS if check in found]
            for line in comparison.table([*groups, comparison.of_files(file, puzzle)]):
                terminal.line(line)
            if difference := comparison.difference_of(puzzle):
                terminal.line("")
                terminal.line("What ours does differently:")
                for line in textwrap.wrap(difference, WIDTH - 4):
                    terminal.line(f"    {line}")
            if self.config.option.show_solution:
                show_solution(terminal, puzzle)
            elif settings.subjects == PUZZLES:
                terminal.line(f"To read it: pytest {display_path(file)} --show-solution")
        if others := [p for p in puzzles if p not in solved]:
            terminal.line("")
            names = [p.partition("/")[2] for p in others]
            shown = ", ".join(names) if len(names) <= MAX_NAMED else f"{len(names)} puzzles"
            file = display_path(PUZZLES / f"{others[0]}.py")
            command = f" What is missing: pytest {file}" * (settings.subjects == PUZZLES)
            terminal.line(f"Not solved, and so not compared: {shown}.{command}")

    def write_times(self, terminal) -> None:
        """Print a line for each race, in the order of the ladder."""
        terminal.section("times: medians, L2 flushed before each call", sep="-")
        steps = ladder()
        races = sorted(self.races.items(), key=lambda race: (steps.index(race[0][0]), race[0][1]))
        lines = [("test", *races[0][1])]
        lines += [(f"{puzzle} {test}", *columns.values()) for (puzzle, test), columns in races]
        for line in aligned(lines):
            terminal.line(line)


def show_solution(terminal, puzzle: str) -> None:
    """Print our solution of a puzzle."""
    solution = SOLUTIONS / f"{puzzle}.py"
    terminal.line("")
    terminal.line(f"{display_path(solution)}:")
    terminal.line("")
    terminal.line(solution.read_text().rstrip())


def _topics(tests: list[str]) -> str:
    """Return what tests are about, by their names: offsets beyond 32 bits (2), bad input."""
    topics: dict[str, int] = {}
    for test in tests:
        name = re.sub(rf"^test_(?:{'|'.join(CHECKS)})_?", "", test.partition("[")[0])
        topic = (name or check_of(test) or test).replace("_", " ")
        topics[topic] = topics.get(topic, 0) + 1
    return ", ".join(f"{t} ({n})" if n > 1 else t for t, n in topics.items())
