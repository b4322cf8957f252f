"""--watch: grade a puzzle again whenever its file is saved, and the next one once it is solved.

The process that watches imports torch, Triton and the judge, once. It loads no puzzle and uses no
GPU: each run is a fork of it, in which pytest goes on as if it had just been started.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.cacheprovider import Cache

from course.paths import PUZZLES, display_path
from course.plugin import desk, environment, failures
from course.plugin.ladder import LEVELS, SOLVED, ladder
from course.plugin.progress import Progress, counted, first_open, is_done
from course.plugin.scoreboard import NOT_RUN, PASSED, WRONG, Scoreboard
from kernelgauge import words
from kernelgauge.compilation import process, worker
from kernelgauge.core import crash_notes

# Between two looks at the file.
POLL_SECONDS = 0.05
# Editors save in several steps: so long a file must stay as it is,
SETTLED_SECONDS = 0.1
# and so long if it is empty or gone.
PATIENCE_SECONDS = 1.0
NOTES = "watch"


@dataclass(frozen=True)
class Run:
    """What one fork grades.

    clears: whether its verdict begins on an empty screen
    verbosity: what the command line asked for
    notes: the folder for its last words
    """

    puzzle: str
    clears: bool
    verbosity: int
    notes: Path


asked = pytest.StashKey[Run]()
# Whether the session was started before the fork.
started = pytest.StashKey[bool]()


def run(config) -> int | None:
    """Watch until Ctrl-C. Returns the exit status, or None in a fork, where pytest goes on.

    Raises pytest.UsageError.
    """
    for argument in config.args:
        if "::" in argument:
            raise pytest.UsageError(
                f"--watch grades whole puzzles, and {argument} names one test: choose with -k"
            )
    found = desk.asked_for(config)
    if not config.pluginmanager.hasplugin("cacheprovider"):
        raise pytest.UsageError(
            "--watch keeps in pytest's cache what is solved, and -p no:cacheprovider switches "
            "that off"
        )
    notes = Path(tempfile.mkdtemp(prefix="triton-kata-"))
    watcher = Watcher(config, list(dict.fromkeys(p for ps in found.values() for p in ps)), notes)
    try:
        print("starting ...", flush=True)
        _import_all(config)
        return watcher.grade()
    except KeyboardInterrupt:
        print(f"\nThe watch has ended: {counted(watcher.puzzles, watcher.progress())}.")
        return pytest.ExitCode.OK
    finally:
        if os.getpid() == watcher.owner:
            watcher.end_run()
            shutil.rmtree(notes, ignore_errors=True)


def _import_all(config) -> None:
    """Import what a run needs, and on a GPU leave it to each fork to begin with CUDA.

    Raises pytest.UsageError.
    """
    # Two saves in one second may have the same size; bytecode would be taken for that of both.
    sys.dont_write_bytecode = True
    # Counting GPUs through CUDA would bar the forks from it.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    try:
        if interpreted := environment.is_interpreted():
            environment.prepare()
    except environment.CannotRun as reason:
        raise pytest.UsageError(str(reason)) from None
    from course.plugin import session

    if interpreted:
        config.option.numprocesses = 0
        session.start(config)
        config.stash[started] = True
    process.warm_up()
    # Each fork would look through all that is imported, and so copy it.
    gc.collect()
    gc.freeze()


class Watcher:
    """The process that watches."""

    def __init__(self, config, puzzles: Sequence[str], notes: Path):
        self.config, self.puzzles, self.notes = config, puzzles, notes
        self.owner = os.getpid()
        self._levels = LEVELS if config.option.production else (SOLVED,)
        self._child = 0

    def grade(self) -> None:
        """Grade for ever. Returns in each fork."""
        puzzle, clears = self._following() or self.puzzles[0], True
        while True:
            file = PUZZLES / f"{puzzle}.py"
            content = _saved(file)
            process.warm_up()
            if clears:
                clear_screen()
            print(f"grading {puzzle}", flush=True)
            for note in self.notes.iterdir():
                note.unlink()
            self._child = os.fork()
            if not self._child:
                self._begin(Run(puzzle, clears, self.config.option.verbose, self.notes))
                return
            clears = True
            if not self._has_ended(file, content):
                continue
            following = self._following()
            if self._is_done(puzzle) and following:
                solved = counted(self.puzzles, self.progress())
                print(f"\n{solved}. Next: {display_path(PUZZLES / following)}.py\n")
                puzzle, clears = following, False
                continue
            if not following:
                print("\nAll that you asked for is solved." + self._after())
            print(f"\nWatching {display_path(file)}: save it to grade it again, Ctrl-C to end.")
            sys.stdout.flush()
            _wait_for_change(file, content)

    def progress(self) -> Progress:
        """Return what is known now."""
        cache = Cache.for_config(self.config, _ispytest=True)
        self.config.option.cacheclear = False
        return Progress(cache, PUZZLES)

    def end_run(self) -> None:
        """End the fork that grades, if there is one."""
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
            self._child = 0

    def _is_done(self, puzzle: str) -> bool:
        found = self.progress().of(puzzle)
        return all(is_done(found, puzzle, level) for level in self._levels)

    def _following(self) -> str | None:
        """Return the first puzzle that is not solved."""
        return next((puzzle for puzzle in self.puzzles if not self._is_done(puzzle)), None)

    def _after(self) -> str:
        """Say what comes next on the ladder, if anything does."""
        following = first_open(ladder(), self.progress())
        return f" Next on the ladder: {display_path(PUZZLES / following)}.py" if following else ""

    def _begin(self, run: Run) -> None:
        """Make this process, a fork, one that grades one puzzle."""
        worker.end_with_parent()
        # pytest would tell at length where it was interrupted.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        process.borrow()
        config = self.config
        # What a run that was ended early printed.
        config.pluginmanager.getplugin("capturemanager").read_global_capture()
        config.stash[asked] = run
        config.args[:] = [str(PUZZLES / f"{run.puzzle}.py")]
        config.args_source = config.ArgsSource.ARGS
        config.option.numprocesses = 0
        config.option.verbose = -2

    def _has_ended(self, file: Path, content: bytes) -> bool:
        """Wait for the fork. Returns False if the file was saved meanwhile: its run is ended."""
        while True:
            ended, status = os.waitpid(self._child, os.WNOHANG)
            if ended:
                break
            if _read(file) not in (content, b"", None):
                self.end_run()
                return False
            time.sleep(POLL_SECONDS)
        self._child = 0
        notes = self.notes / NOTES
        crashed = notes.exists() and notes.stat().st_size > 0
        if crashed or os.waitstatus_to_exitcode(status) < 0:
            if not clear_screen():
                print()
            print(words.message(crash_notes.describe_crash(self.notes / NOTES, file)))
        return True


class Verdict(Scoreboard):
    """Prints the verdict on one puzzle, shortest first."""

    def __init__(self, config, run: Run):
        super().__init__(config)
        self.run = run

    def pytest_sessionstart(self) -> None:
        """Leave last words where the process that watches reads them, not on the screen."""
        crash_notes.keep_log(self.run.notes / NOTES)

    def pytest_terminal_summary(self, terminalreporter) -> None:
        """Print how many checks pass, what to fix first, and what is solved."""
        terminal, puzzle = terminalreporter, self.run.puzzle
        terminal.ensure_newline()
        if self.run.clears:
            clear_screen()
        else:
            terminal.line("")
        if puzzle not in self.rows:
            terminal.line(f"{puzzle}: no check was run: does -k name one?", yellow=True)
            return
        row, found = self.rows[puzzle], self.keep([puzzle]).of(puzzle)
        name, now = puzzle.partition("/")[2], time.strftime("%H:%M:%S")
        if row.is_untouched:
            lesson = display_path((PUZZLES / puzzle).with_name("README.md"))
            terminal.line(f"{name}: {row.to_do} ({now})", yellow=True)
            terminal.line(f"The lesson is {lesson}")
            return
        if is_done(found, puzzle, SOLVED):
            self.congratulate(terminal, puzzle, found)
        else:
            verdicts = [v for level in LEVELS for v in row.verdicts[level].values()]
            passed = verdicts.count(PASSED)
            made = passed + verdicts.count(WRONG)
            rest = "" if row.failures and NOT_RUN not in verdicts else "; the others were not run"
            terminal.line(f"{name}: {passed} of {made} checks pass{rest} ({now})", red=True)
        failures.write(terminal, row.failures, self.run.verbosity)


def board(config) -> Verdict | None:
    """Return what reports of the run in this fork, None in any other run."""
    run = config.stash.get(asked, None)
    if run is None:
        return None
    return Verdict(config, run)


def clear_screen() -> bool:
    """Clear the terminal. Returns whether there is one."""
    clears = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if clears:
        print("\x1b[2J\x1b[H", end="", flush=True)
    return clears


def _read(file: Path) -> bytes | None:
    """Return the content of a file, None while it cannot be read."""
    try:
        return file.read_bytes()
    except OSError:
        return None


def _saved(file: Path) -> bytes:
    """Return the content of a file as soon as it is there and no save is under way."""
    content, since, told = _read(file), time.monotonic(), False
    while True:
        time.sleep(POLL_SECONDS)
        now = _read(file)
        if now != content:
            content, since = now, time.monotonic()
        calm = time.monotonic() - since
        if content is not None and calm >= (SETTLED_SECONDS if content else PATIENCE_SECONDS):
            return content
        if content is None and calm >= PATIENCE_SECONDS and not told:
            path = display_path(file)
            print(f"{path} is gone: waiting for it (pytest {path} --reset brings the stub back)")
            sys.stdout.flush()
            told = True


def _wait_for_change(file: Path, content: bytes) -> None:
    """Return when a file has other content. One that is saved as it was has not changed."""
    while _read(file) == content or _saved(file) == content:
        time.sleep(POLL_SECONDS)
