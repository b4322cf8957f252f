"""A class at once, `--results DIR`: each person's puzzle is graded in a process of its own.

Several run in parallel, a crash costs its puzzle only, and what DIR holds already is not graded
again, unless the person's files, the judge or what was asked for have changed since. Each process
is the command that was typed, about one folder and one puzzle's tests.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

import pytest

import kernelgauge
from course import paths
from course.page import report as pages
from course.page.report import Check, Report
from course.plugin.ladder import SOLVED, ladder, path_of_tests
from kernelgauge import setup

# A process that neither its time limits nor a signal ends is killed after so many seconds.
HARD_LIMIT = 1800
# Bytes that a file may have which such a process writes, and that are kept of what it printed.
LARGEST_FILE, LONGEST_LOG = 2**28, 2**20
TOLD = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
ONCE = ("--junitxml", "--junit-xml", "--page", "--json", "--results", "--jobs", "--cluster")
# What of a command a verdict depends on, beside the files.
DECIDING = (
    "sealed", "production", "targets", "speed_scale", "time_limit", "allow_unrepaired", "keyword",
    "markexpr",
)  # fmt: skip
# What XML does not know.
ILLEGAL = dict.fromkeys({*range(32), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF} - {9, 10, 13}, "?")
VERDICTS = {
    "wrong": "failure",
    "unsolved": "failure",
    "not run": "error",
    "not measured": "skipped",
}


@dataclass(frozen=True)
class Unit:
    """One person's puzzle.

    folder: the person's
    data: where the process leaves what it found; what it prints goes to a file beside it
    options: of the command
    tests: the puzzle's
    where: the command's working directory
    sources: the person's file and those that it may import, by their paths in the folder
    digest: of the sources, the judge and the command
    """

    person: str
    folder: Path
    puzzle: str
    data: Path
    options: tuple[str, ...]
    tests: Path
    where: Path
    sources: Mapping[str, bytes] = field(repr=False, hash=False)
    digest: str

    def is_done(self) -> bool:
        """Return whether an earlier run has graded this as it stands now."""
        try:
            return [it.digest for it in pages.load(self.data)] == [self.digest]
        except (OSError, ValueError, TypeError, KeyError):
            return False


def units(config, people: dict[str, Path]) -> list[Unit]:
    """Return what is to be graded: each file that a person has of the puzzles that were named."""
    option, typed = config.option, config.invocation_params
    named = [Path(typed.dir, it.partition("::")[0]).resolve() for it in option.file_or_dir or ()]
    options = tuple(_shared(map(str, typed.args), option.file_or_dir or ()))
    folder = Path(option.results).absolute()
    found, judge = [], _digest_of_judge(option)
    for person, files in people.items():
        every = sorted(it for it in files.rglob("*.py") if it.is_file())
        sources = {str(it.relative_to(files)): it.read_bytes() for it in every}
        for puzzle in ladder():
            tests = path_of_tests(puzzle, SOLVED)
            wanted = not named or any(tests.is_relative_to(it) for it in named)
            if wanted and f"{puzzle}.py" in sources:
                data = folder / person / f"{puzzle.replace('/', '-')}.json"
                needed = _needed(f"{puzzle}.py", sources)
                told = options, tests, Path(typed.dir), needed, _digest(judge, needed)
                found.append(Unit(person, files, puzzle, data, *told))
    return found


def _digest_of_judge(option) -> str:
    """Return a digest of what decides beside a person's files: our own, versions and options."""
    ours = [paths.ROOT / "conftest.py", *paths.PUZZLES.rglob("test_*.py")]
    for folder in (Path(kernelgauge.__file__).parent, paths.ROOT / "course", paths.REFERENCE):
        ours += folder.rglob("*.py")
    files = {os.path.relpath(it, paths.HOME): it.read_bytes() for it in sorted(ours)}
    decided = [versions(), os.environ.get(setup.INTERPRET)]
    return _digest(repr([*decided, *(getattr(option, it) for it in DECIDING)]), files)


def versions() -> tuple[str, ...]:
    """Return the versions of what runs kernels."""
    return platform.python_version(), *map(metadata.version, ("torch", "triton", "numpy"))


def _digest(begin: str, files: Mapping[str, bytes]) -> str:
    hashed = hashlib.sha256(begin.encode())
    for name, content in files.items():
        hashed.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\0".encode())
    return hashed.hexdigest()


def _needed(file: str, sources: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return of a person's files a puzzle's own, and all whose names occur in one of these."""
    found: set[str] = set()
    waiting = {file}
    while waiting:
        found |= waiting
        words = {word for it in waiting for word in re.findall(rb"\w+", sources[it])}
        waiting = {it for it in sources if _module(Path(it)).encode() in words} - found
    return {name: content for name, content in sources.items() if name in found}


def _module(file: Path) -> str:
    return file.parent.name if file.stem == "__init__" else file.stem


def _shared(arguments: Iterable[str], files: Iterable[str]) -> Iterator[str]:
    """Yield the options that each process is to have, too."""
    left_out, takes_value = set(files), False
    for argument in arguments:
        if takes_value or argument in left_out:
            takes_value = False
        elif argument.partition("=")[0] in ONCE:
            takes_value = "=" not in argument
        else:
            yield argument


def grade(unit: Unit, python: str = sys.executable) -> int:
    """Grade one unit. Returns the exit status of its process, negative for a signal."""
    unit.data.parent.mkdir(parents=True, exist_ok=True)
    part = unit.data.with_suffix(".part.json")
    one = ("--one-of-class", str(unit.folder), str(part))
    command = (python, "-m", "pytest", *one, *unit.options, str(unit.tests))
    # It does not outlive us, either.
    bound = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
    with log_of(unit).open("wb") as log:
        process = subprocess.Popen(
            [*bound, *command],
            cwd=unit.where,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _limit_files(process.pid)
            status = process.wait(HARD_LIMIT)
        except subprocess.TimeoutExpired:
            status = -signal.SIGKILL
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    _shorten(log_of(unit))
    if status in TOLD and part.exists():
        keep(unit, part)
    return status


def _limit_files(process: int) -> None:
    """Let a process, and what it starts, write files of a limited size only."""
    if sys.platform == "linux":
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(process, resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))


def _shorten(log: Path) -> None:
    """Keep the end of what was printed, where it is too long."""
    left_out = log.stat().st_size - LONGEST_LOG
    if left_out > 0:
        with log.open("rb") as file:
            file.seek(left_out)
            end = file.read()
        log.write_bytes(b"... %d bytes before this are left out\n%b" % (left_out, end))


def log_of(unit: Unit) -> Path:
    """Return the file with what a unit's process printed."""
    return unit.data.with_suffix(".log")


def keep(unit: Unit, part: Path) -> None:
    """Take over what was found of a unit, with the digest of what it was found of."""
    found = pages.load(part)
    for report in found:
        report.digest = unit.digest
    pages.save(part, found)
    part.replace(unit.data)


def run(config, people: dict[str, Path]) -> tuple[list[Report], int]:
    """Grade everybody. Returns a report of each person, and the exit status."""
    option, found = config.option, units(config, people)
    terminal = config.get_terminal_writer()
    waiting = [it for it in found if not it.is_done()]
    if len(waiting) < len(found):
        terminal.line(f"graded before: {len(found) - len(waiting)} of {len(found)}")
    statuses: dict[Unit, int] = {}
    interrupted = False
    try:
        if option.cluster and waiting:
            from course.plugin import cluster

            graded = cluster.graded(waiting, option.cluster)
        else:
            graded = _graded(waiting, option.jobs or os.cpu_count() or 1)
        # What is being graded when it is interrupted comes to its end before it is reported.
        with contextlib.closing(graded):
            for number, (unit, status) in enumerate(graded, 1):
                statuses[unit] = status
                said = {0: "passed", 1: "wrong"}.get(status, f"not graded: status {status}")
                terminal.line(f"{number} of {len(waiting)}  {unit.person}  {unit.puzzle}  {said}")
                terminal.flush()
    except KeyboardInterrupt:
        interrupted = True
    reports = _reports(found, statuses)
    if option.xmlpath:
        write_junit(Path(option.xmlpath), reports)
    if interrupted:
        return reports, pytest.ExitCode.INTERRUPTED
    checks = [check for it in reports for puzzle in it.graded for check in puzzle.checks]
    passes = all(it.verdict in ("passed", "not measured") for it in checks) and bool(checks)
    return reports, pytest.ExitCode.OK if passes else pytest.ExitCode.TESTS_FAILED


def _graded(waiting: list[Unit], jobs: int) -> Generator[tuple[Unit, int]]:
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(grade, unit): unit for unit in waiting}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _reports(found: list[Unit], statuses: dict[Unit, int]) -> list[Report]:
    """Return one report of each person: what each of their puzzles' processes found of it."""
    by_person: dict[str, Report] = {}
    for unit in found:
        (own,) = pages.load(unit.data) if unit.is_done() else (None,)
        whole = by_person.get(unit.person)
        if whole is None or (own and not whole.puzzles):
            empty = Report(unit.person, str(unit.folder), "", "", "")
            whole = by_person[unit.person] = own or whole or empty
        elif own:
            graded = {it.name: it for it in own.graded}
            whole.puzzles = [graded.get(it.name, it) for it in whole.puzzles]
    for unit in found:
        if not unit.is_done():
            _note_crash(by_person[unit.person], unit, statuses.get(unit))
    return list(by_person.values())


def _note_crash(report: Report, unit: Unit, status: int | None) -> None:
    """Note that a puzzle's process ended without a verdict, which costs that puzzle only."""
    said = "not graded" if status is None else f"not graded: its process ended with status {status}"
    check = Check("solved", "", "", "not run", said)
    if not report.puzzles:
        report.problem = f"{unit.puzzle} {said}"
    report.puzzles = [
        replace(it, state=pages.WRONG, checks=[check]) if it.name == unit.puzzle else it
        for it in report.puzzles
    ]


def write_junit(path: Path, reports: list[Report]) -> None:
    """Write what was found as JUnit XML: a suite for each person, a case for each check."""
    root = ElementTree.Element("testsuites")
    for report in reports:
        checks = [(puzzle.name, it) for puzzle in report.graded for it in puzzle.checks]
        suite = ElementTree.SubElement(root, "testsuite", name=report.person)
        counts = dict.fromkeys(("failure", "error", "skipped"), 0)
        for puzzle, check in checks:
            name = f"{check.level}::{check.test}"
            case = ElementTree.SubElement(suite, "testcase", classname=puzzle, name=name)
            if tag := VERDICTS.get(check.verdict):
                counts[tag] += 1
                kind = (check.fault or {}).get("kind", check.verdict)
                told = ElementTree.SubElement(case, tag, message=_legal(kind))
                told.text = _legal(check.message)
        if report.problem:
            case = ElementTree.SubElement(suite, "testcase", classname=report.person, name="")
            ElementTree.SubElement(case, "error", message=_legal(report.problem))
            counts["error"] += 1
        sizes = {"tests": len(suite), "failures": counts["failure"], "errors": counts["error"]}
        sizes["skipped"] = counts["skipped"]
        suite.attrib |= {name: str(count) for name, count in sizes.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _legal(text: str) -> str:
    """Return a text without the characters that XML does not know."""
    return text.translate(ILLEGAL)
