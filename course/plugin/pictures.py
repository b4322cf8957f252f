"""--pictures: draw what kernels did, one call of each puzzle.

Where tests run, each report carries the pictures of its call if they may be those to show; xdist
takes them along. Where the run is controlled, `Gallery` chooses and writes them.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from course.options import asked
from course.plugin import failures
from course.plugin.ladder import SOLVED, ladder, level_of, puzzle_of
from course.plugin.scoreboard import failure_of, score_of
from kernelgauge.core import timeouts
from kernelgauge.core.paths import display_path
from kernelgauge.core.verdict import Wrong

if TYPE_CHECKING:
    # The option is checked without Triton, which these import.
    from course.pictures.calls import Candidate
    from course.pictures.roofline import Timed

# Of a report.
PROPERTY = "kata_pictures"
# How long drawing one call may take, in seconds of the processor.
MAX_SECONDS = 20.0
INDEX = "pictures.json"
KINDS = ("programs", "order", "reuse", "sectors", "errors", "timeline", "roofline")


@dataclass
class Shown:
    """The pictures of one call.

    call: tiled_matmul(a: float16 (67, 35), b: float16 (35, 131))
    failed: whether the test of the call failed
    rank: how well they show what the kernel does, the less the better
    pictures: each with kind, about, title, caption and svg
    roofline: whether they are of a race, and stand beside those of another call
    trouble: why there are none
    """

    call: str
    failed: bool = False
    rank: list = field(default_factory=list)
    pictures: list[dict[str, str]] = field(default_factory=list)
    roofline: bool = False
    trouble: str = ""


def of(report: pytest.TestReport) -> list[Shown]:
    """Return the pictures that a test's report carries, in whichever process."""
    return [Shown(**shown) for shown in getattr(report, PROPERTY, ())]


class Artist:
    """Draws calls where tests run, each only if it is more legible than those drawn before.

    They are compared among the passing tests of a puzzle, and among those that fail for one cause.
    """

    def __init__(self) -> None:
        self._best: dict[tuple, list] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        made = yield
        puzzle = puzzle_of(item.path)
        if puzzle and call.when == "call" and asked.draws:
            shown = [asdict(one) for one in self._shown(item, made, puzzle)]
            if shown:
                setattr(made, PROPERTY, shown)
        return made

    def _shown(self, item, made, puzzle: str) -> Iterator[Shown]:
        from course import running
        from course.observers import Drawing, Racing

        looking = {type(observer): observer for observer in running.current().observers}
        if timed := looking[Racing].timed:
            yield _roofline(puzzle, timed[0])
        failure = failure_of(made)
        calls = looking[Drawing].calls
        if not calls or not (failure or made.passed):
            return
        candidate = calls[-1 if failure else 0]
        rank = [level_of(item.path) != SOLVED, *_rank(candidate)]
        key = puzzle, failure and failure.told["key"]
        if len(rank) > 1 and (key not in self._best or rank < self._best[key]):
            self._best[key] = rank
            yield _drawn(candidate, bool(failure), rank)


class Gallery:
    """Collects the pictures of a run, chooses those to show, and writes them where that was asked.

    folder: to write to, None for nowhere
    """

    def __init__(self, folder: Path | None = None):
        self.folder = folder
        self._graded = False
        self._failures: dict[str, list[failures.Failure]] = {}
        self._shown: dict[str, list[tuple[tuple[str, str], str, Shown]]] = {}

    def pytest_runtest_logreport(self, report) -> None:
        """Take in one report, whichever process made it."""
        score = score_of(report)
        if not score:
            return
        self._graded = True
        if failure := failure_of(report):
            self._failures.setdefault(score["puzzle"], []).append(failure)
        for shown in of(report):
            found = self._shown.setdefault(score["puzzle"], [])
            found.append(((score["level"], score["test"]), report.nodeid, shown))

    def chosen(self) -> dict[str, tuple[str, Shown]]:
        """Return for each puzzle the test whose call is shown, and its pictures.

        Of a puzzle that fails it is one that fails as what is printed first does, of another the
        call that shows best what the kernel does. The roofline of a race stands at the end.
        """
        found = {}
        for puzzle in sorted(self._shown, key=ladder().index):
            calls = [one for one in self._shown[puzzle] if not one[2].roofline]
            races = [one for one in self._shown[puzzle] if one[2].roofline]
            groups = failures.grouped(self._failures.get(puzzle, ()))
            causes = [[(it.level, it.test) for it in group] for group in groups]

            def place(one: tuple[tuple[str, str], str, Shown], causes: list = causes) -> tuple:
                test, _, shown = one
                cause = next((at for at, tests in enumerate(causes) if test in tests), len(causes))
                return not shown.pictures, cause, shown.rank

            best = sorted(calls, key=place)[:1] + races[:1]
            _, node, first = best[0]
            pictures = [picture for _, _, shown in best for picture in shown.pictures]
            found[puzzle] = node, Shown(first.call, pictures=pictures, trouble=first.trouble)
        return found

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter) -> None:
        """Write the pictures, and say how many and where."""
        if self.folder is None or not self._graded:
            return
        chosen = self.chosen()
        for puzzle, (_, shown) in chosen.items():
            if shown.trouble:
                terminalreporter.line(f"{puzzle} could not be drawn: {shown.trouble}", yellow=True)
        try:
            count = write(self.folder, chosen)
        except OSError as error:
            terminalreporter.line(
                f"--pictures {display_path(self.folder)}: {error.strerror}", red=True
            )
            return
        if not count:
            terminalreporter.line("no pictures: no test ran a call that can be drawn")
            return
        option = terminalreporter.config.option
        if option.verbose <= -2 and not option.watch:
            return
        drawn = [puzzle for puzzle, (_, shown) in chosen.items() if shown.pictures]
        whose = f"{len(drawn)} puzzles" if len(drawn) > 1 else drawn[0]
        terminalreporter.line(
            f"{count} picture{'s' * (count > 1)} of {whose} in {display_path(self.folder)}, "
            f"listed in {display_path(self.folder / INDEX)}"
        )


def write(folder: Path, chosen: dict[str, tuple[str, Shown]]) -> int:
    """Write the pictures and their index. Returns how many. Raises OSError.

    What the folder has of other puzzles stays, and in the index too.
    """
    index = _read(folder / INDEX)
    count = 0
    for puzzle, (test, shown) in chosen.items():
        if not shown.pictures:
            continue
        for old in _files_of(folder, puzzle):
            old.unlink()
        entries = []
        for picture in shown.pictures:
            parts = [picture["kind"], re.sub(r"[^\w.]+", "_", picture["about"]).strip("_")]
            file = f"{puzzle}-{'-'.join(filter(None, parts))}.svg"
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(picture["svg"], encoding="utf-8")
            said = {name: picture[name] for name in ("title", "caption")}
            entries.append({"kind": picture["kind"], "file": file, **said})
        index[puzzle] = {"test": test, "call": shown.call, "pictures": entries}
        count += len(entries)
    if count:
        text = json.dumps(index, indent=1, ensure_ascii=False) + "\n"
        (folder / INDEX).write_text(text, encoding="utf-8")
    return count


def _read(file: Path) -> dict[str, Any]:
    """Return the index of an earlier run, {} where there is none that can be read."""
    try:
        index = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return index if isinstance(index, dict) else {}


def _files_of(folder: Path, puzzle: str) -> Iterator[Path]:
    """Yield the pictures of a puzzle that an earlier run left."""
    chapter, name = puzzle.split("/")
    for kind in KINDS:
        yield from (folder / chapter).glob(f"{name}-{kind}.svg")
        yield from (folder / chapter).glob(f"{name}-{kind}-*.svg")


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Run a call for its picture alone: in limited time, without its prints and breakpoints."""
    hook, sys.breakpointhook = sys.breakpointhook, lambda *_, **__: None
    try:
        with timeouts.time_limit(MAX_SECONDS), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        sys.breakpointhook = hook


def _rank(candidate: Candidate) -> list:
    """Return how well a call can be drawn, the less the better, [] if not at all."""
    from course.pictures import calls

    with contextlib.suppress(Wrong), _apart():
        return calls.legibility(candidate)
    return []


def _drawn(candidate: Candidate, failed: bool, rank: list) -> Shown:
    from course.pictures import calls

    shown = Shown(str(candidate), failed, rank)
    try:
        with _apart():
            shown.pictures = [asdict(picture) for picture in calls.draw(candidate)]
    # Whatever is wrong with a picture, the verdict stands.
    except Exception as error:
        reason = str(error).partition("\n")[0]
        shown.trouble = f"{type(error).__name__}: {reason}"
    return shown


def _roofline(puzzle: str, timed: Timed) -> Shown:
    from course.pictures.roofline import roofline

    return Shown(timed.call, pictures=[asdict(roofline(puzzle, timed))], roofline=True)
