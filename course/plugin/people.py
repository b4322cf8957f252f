"""Grade the folders of several people, each in a process of its own, and sum them up.

`--subject DIR` is given several times, or DIR is a folder of folders. Each process is the command
that was typed, with one more option in front, `--one-of-class DIR FILE`: whose folder it is to
grade, and where its data is to be left.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from course.page import report as pages
from course.page.report import Report
from course.plugin import batch, page
from course.plugin.ladder import ladder
from kernelgauge.core.paths import display_path

ONE = "--one-of-class"
EXAMPLE = "01_pointwise/swish.py"
# What these options name or remember is for one person's run.
NOT_FOR_A_CLASS = {
    "compiled": "--compiled",
    "tries": "--try",
    "pictures": "--pictures",
    "xmlpath": "--junitxml",
    "stepwise": "--sw",
    "lf": "--lf",
    "failedfirst": "--ff",
    "usepdb": "--pdb",
    "trace": "--trace",
    "collectonly": "--collect-only",
}
# What would be so for everybody, or is not to go on.
ENDS = (
    pytest.ExitCode.INTERRUPTED,
    pytest.ExitCode.USAGE_ERROR,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)


def find(option) -> dict[str, Path]:
    """Return the folders to grade, by person: none, one or several. Raises pytest.UsageError."""
    if option.one_of_class:
        folder = Path(option.one_of_class[0])
        return {folder.name: folder}
    people: dict[str, Path] = {}
    for given in option.subject or ():
        for folder in _folders(given):
            if other := people.get(folder.name):
                raise pytest.UsageError(
                    f"--subject: two people are called {folder.name}, {display_path(other)} and "
                    f"{display_path(folder)}: rename one folder"
                )
            people[folder.name] = folder
    for name, flag in NOT_FOR_A_CLASS.items():
        together = option.results and name == "xmlpath"
        if len(people) > 1 and not together and getattr(option, name, None) not in (None, False):
            raise pytest.UsageError(
                f"{flag} is for one person's folder, and --subject names those of {len(people)}"
            )
    return people


def run(config, people: dict[str, Path]) -> int:
    """Grade everybody. Returns the exit status, 0 only if all that was asked for passes."""
    # pytest's terminal is there from here on, as for --help.
    config._do_configure()
    terminal = config.get_terminal_writer()
    if config.option.results:
        reports, status = batch.run(config, people)
        _finish(config, terminal, reports, len(people))
        return status
    reports, statuses = [], []
    with tempfile.TemporaryDirectory(prefix="triton-kata-") as notes:
        for number, (name, folder) in enumerate(people.items(), 1):
            terminal.sep("=", f"{name}, {number} of {len(people)}", bold=True)
            terminal.flush()
            data = Path(notes) / f"{number}{page.DATA}"
            statuses.append(_grade(config, folder, data))
            reports.append(_report(config, name, folder, data, statuses[-1]))
            if statuses[-1] in ENDS:
                break
    if statuses[-1] in ENDS and statuses[-1] != pytest.ExitCode.INTERRUPTED:
        return statuses[-1]
    status = pytest.ExitCode.TESTS_FAILED if any(statuses) else pytest.ExitCode.OK
    if pytest.ExitCode.INTERRUPTED in statuses:
        status = pytest.ExitCode.INTERRUPTED
    _finish(config, terminal, reports, len(people))
    return status


def _finish(config, terminal, reports: Sequence[Report], count: int) -> None:
    """Sum up what was found, and write the page and the data."""
    _write_summary(terminal, reports, count)
    for path in page.files_of(config):
        try:
            page.write(path, reports)
        except OSError as error:
            raise pytest.UsageError(f"{display_path(path)}: {error.strerror}") from None
        terminal.line(f"Written: {display_path(path)}")


def _folders(given: str) -> list[Path]:
    """Return the folder of a person, or those in a folder of folders."""
    folder = Path(given).resolve()

    def refuse(why: str) -> None:
        raise pytest.UsageError(f"--subject {given}: {why}")

    if not folder.is_dir():
        refuse("there is no such folder")
    if not any(folder.iterdir()):
        refuse("the folder is empty")
    if _holds_puzzles(folder):
        return [folder]
    inside = sorted(it for it in folder.iterdir() if it.is_dir() and it.name[0] not in "._")
    without = [it.name for it in inside if not _holds_puzzles(it)]
    if without == [it.name for it in inside]:
        refuse(f"it holds no puzzle's file, such as {EXAMPLE}, and no folder that does")
    if without:
        refuse(
            f"no puzzle's file, such as {EXAMPLE}, in {', '.join(without)}: add it, or take the "
            "folder away"
        )
    return inside


def _holds_puzzles(folder: Path) -> bool:
    return any((folder / f"{puzzle}.py").is_file() for puzzle in ladder())


def _grade(config, folder: Path, data: Path) -> int:
    """Run the command for one person. Returns its exit status."""
    typed = config.invocation_params
    command = [sys.executable, "-m", "pytest", ONE, str(folder), str(data), *map(str, typed.args)]
    process = subprocess.Popen(command, cwd=typed.dir)
    try:
        return process.wait()
    except KeyboardInterrupt:
        # It was interrupted, too, and writes what it has found.
        process.wait()
        return pytest.ExitCode.INTERRUPTED


def _report(config, name: str, folder: Path, data: Path, status: int) -> Report:
    """Return what was found of one person, or why nothing was."""
    if data.exists() and status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return pages.load(data)[0]
    problem = f"not graded: pytest ended with status {int(status)}"
    if status == pytest.ExitCode.INTERRUPTED:
        problem = "not graded to the end: interrupted"
    return Report(name, display_path(folder), "", "", page.typed(config), problem=problem)


def _write_summary(terminal, reports: Sequence[Report], count: int) -> None:
    """Print a line for each person."""
    terminal.sep("=", "everybody", bold=True)
    width = max(len(report.person) for report in reports)
    for report in reports:
        if report.problem:
            terminal.line(f"{report.person:<{width}}  {report.problem}", red=True)
            continue
        solved, production = report.count(*pages.DONE), report.count(pages.PRODUCTION)
        said = f"{solved} of {len(report.graded)} solved"
        said += f", {production} in production" if production else ""
        wrong = [it.name.partition("/")[2] for it in report.graded if it.state == pages.WRONG]
        names = ", ".join(wrong) if len(wrong) <= 4 else f"{len(wrong)} puzzles"
        said += f"; to fix: {names}" if wrong else ""
        colour = {"green": True} if solved == len(report.graded) else {}
        terminal.line(f"{report.person:<{width}}  {said}", **colour)
    if len(reports) < count:
        terminal.line(f"not graded: {count - len(reports)} of {count}", red=True)
