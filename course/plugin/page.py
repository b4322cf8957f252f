"""--page FILE and --json FILE: what a run found, as one HTML file or as data."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from course.desk import hints, stubs
from course.page import report as pages
from course.page.report import Cause, Check, Picture, Puzzle, Report
from course.paths import PUZZLES, SOLUTIONS, display_path
from course.plugin import failures
from course.plugin.ladder import CHECKS, LEVELS, PRODUCTION, SOLVED, check_of, ladder
from course.plugin.pictures import Gallery
from course.plugin.progress import Findings, is_done
from course.plugin.scoreboard import WRONG, Row, Scoreboard, score_of
from kernelgauge.core.settings import settings

DATA = ".json"
SUFFIXES = {"--page": (".html", ".htm"), "--json": (DATA,)}


def check(option) -> None:
    """Raise pytest.UsageError where a file that was asked for cannot be written."""
    for flag, file in (("--page", option.page), ("--json", option.json)):
        if not file:
            continue
        path = Path(file).absolute()
        if path.suffix.lower() not in SUFFIXES[flag]:
            raise pytest.UsageError(f"{flag} {file}: name a file that ends in {SUFFIXES[flag][0]}")
        existed = path.exists()
        try:
            path.open("a").close()
        except OSError as error:
            raise pytest.UsageError(f"{flag} {file}: {error.strerror}") from None
        if not existed:
            path.unlink()


def write(path: Path, reports: Sequence[Report]) -> None:
    """Write the page of one person or of a class, or their data. Raises OSError."""
    if path.suffix.lower() == DATA:
        pages.save(path, reports)
    else:
        # Its library takes a while to import, and most runs write no page.
        from course.page import html

        path.write_text(html.write(reports), encoding="utf-8")


def files_of(config) -> list[Path]:
    """Return where this run is to write. `check` has seen what was typed."""
    if config.option.one_of_class:
        return [Path(config.option.one_of_class[1])]
    return [Path(file).absolute() for file in (config.option.page, config.option.json) if file]


def typed(config) -> str:
    """Return the command as it was typed."""
    arguments = config.invocation_params.args[3 if config.option.one_of_class else 0 :]
    return shlex.join(["pytest", *map(str, arguments)])


class Page:
    """Collects what a run finds, and writes the page and the data at its end.

    machine: what the run runs on, in words
    board: the scoreboard of the run
    gallery: the pictures of the run
    """

    def __init__(
        self, config, paths: Sequence[Path], machine: str, board: Scoreboard, gallery: Gallery
    ):
        self.config, self.paths, self.machine = config, paths, machine
        self.board, self.gallery = board, gallery
        # With the place of each among the tests of the run.
        self._checks: dict[str, list[tuple[int, Check]]] = {}
        self._said: list[str] = []

    def pytest_runtest_logreport(self, report) -> None:
        """Take in one report, whichever process made it."""
        if not (score := score_of(report)):
            return
        figures = [pages.Figure(**figure) for figure in score["figures"]]
        found = Check(
            level=score["level"],
            test=score["test"],
            kind=check_of(score["test"]) or "",
            verdict=score["verdict"],
            message=score["why"] or _message(report),
            printed=report.capstdout if score["verdict"] == WRONG else "",
            figures=figures,
            race=score["race"],
        )
        self._checks.setdefault(score["puzzle"], []).append((score["order"], found))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session) -> None:
        """Write the page."""
        if not self._checks:
            self._said = ["no puzzle was graded, and so nothing is written"]
            return
        report = self.report()
        for path in self.paths:
            try:
                write(path, [report])
                self._said.append(display_path(path))
            except OSError as error:
                self._said.append(f"{display_path(path)} was not written: {error.strerror}")
                session.exitstatus = pytest.ExitCode.USAGE_ERROR

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter) -> None:
        """Say where the page is."""
        if self.config.option.verbose > -2 and not self.config.option.one_of_class:
            for said in self._said:
                terminalreporter.line(f"Written: {said}")

    def report(self) -> Report:
        """Return what this run found."""
        progress = self.board.keep(self.board.rows)
        own, ours = settings.subjects == PUZZLES, settings.subjects == SOLUTIONS
        drawn = {
            puzzle: [
                Picture(**{name: picture[name] for name in ("kind", "title", "caption", "svg")})
                for picture in shown.pictures
            ]
            for puzzle, (_, shown) in self.gallery.chosen().items()
        }
        return Report(
            person="" if own else "our solutions" if ours else settings.subjects.name,
            folder=display_path(settings.subjects),
            created=f"{datetime.now():%Y-%m-%d %H:%M}",
            machine=self.machine,
            command=typed(self.config),
            puzzles=[
                self._puzzle(puzzle, progress.of(puzzle), drawn.get(puzzle, []))
                for puzzle in ladder()
            ],
        )

    def _puzzle(self, puzzle: str, found: Findings, drawn: list[Picture]) -> Puzzle:
        row = self.board.rows.get(puzzle, Row())
        number, title = stubs.title_of(puzzle)
        state = _state(puzzle, row, found)
        tests = found.get(PRODUCTION) if state in pages.DONE else None
        checks = sorted(
            self._checks.get(puzzle, []), key=lambda it: (LEVELS.index(it[1].level), it[0])
        )
        # What is wrong is known once all cases of a file are through.
        told = {(it.level, it.test): it for it in row.failures}
        for _, check in checks:
            if failure := told.get((check.level, check.test)):
                check.message, check.fault = failure.message, failure.told["fault"]
                check.withheld = failure.told["withheld"]
        return Puzzle(
            name=puzzle,
            number=number,
            title=title,
            chapter=hints.chapter_of(puzzle),
            file=display_path(settings.subjects / f"{puzzle}.py"),
            state=state,
            production=[sum(tests.values()), len(tests)] if tests else None,
            cells={
                level: {kind: row.count(level, kind) for kind in CHECKS}
                for level in LEVELS
                if row.verdicts[level]
            },
            checks=[check for _, check in checks],
            causes=[_cause(group) for group in failures.grouped(row.failures)],
            pictures=drawn,
        )


def _state(puzzle: str, row: Row, found: Findings) -> str:
    if is_done(found, puzzle, SOLVED):
        return pages.PRODUCTION if is_done(found, puzzle, PRODUCTION) else pages.SOLVED
    verdicts = [v for tests in row.verdicts.values() for v in tests.values()]
    if not verdicts:
        return pages.NOT_GRADED
    if row.is_untouched:
        return pages.NOT_STARTED
    return pages.WRONG if WRONG in verdicts else pages.UNFINISHED


def _cause(group: Sequence[failures.Failure]) -> Cause:
    first, whose = group[0], ""
    if settings.subjects == SOLUTIONS:
        whose = " --solutions"
    elif settings.subjects != PUZZLES:
        whose = f" --subject {shlex.quote(display_path(settings.subjects))}"
    return Cause(
        title=first.title,
        kind=first.kind,
        level=first.level,
        checks=[failure.test for failure in group],
        message=first.message,
        printed=first.printed.rstrip(),
        command=first.command + whose,
    )


def _message(report) -> str:
    """Return what a report says."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    if isinstance(report.longrepr, str):
        return report.longrepr
    return report.longreprtext if report.longrepr else ""
