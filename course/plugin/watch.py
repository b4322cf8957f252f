"""--watch: grade a puzzle again whenever its file is saved, and the next one once it is solved.

The process that watches imports torch, Triton and the judge, once. It loads no puzzle and uses no
GPU: each run is a fork of it, in which pytest goes on as if it had just been started.
"""

from __future__ import annotations

import gc
import os
import select
import shutil
import signal
import sys
import tempfile
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
# What a key that grades nothing asks the desk for.
LOOKS = {"h": "hint", "l": "list"}
NEXT, PICTURES, QUIT = "n", "p", "q"
FOLDER = "out"
KEYS = "Keys: h hint, n next puzzle, l list, p pictures, q quit."


@dataclass(frozen=True)
class Run:
    """What one fork grades.

    clears: whether its verdict begins on an empty screen
    draws: whether it draws pictures
    verbosity: what the command line asked for
    notes: the folder for its last words
    """

    puzzle: str
    clears: bool
    draws: bool
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
    # Tests have no input, but the watch takes keys.
    config.pluginmanager.getplugin("capturemanager").suspend_global_capture(in_=True)
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
        puzzle, clears, draws = self._following() or self.puzzles[0], True, False
        while True:
            file = PUZZLES / f"{puzzle}.py"
            content = _saved(file)
            process.warm_up()
            # The verdict before this one stays on the screen until there is another.
            print(f"grading {puzzle}", flush=True)
            for note in self.notes.iterdir():
                note.unlink()
            self._child = os.fork()
            if not self._child:
                self._begin(Run(puzzle, clears, draws, self.config.option.verbose, self.notes))
                return
            clears, draws = True, False
            if not self._has_ended(file, content):
                continue
            following = self._following(puzzle)
            if self._is_done(puzzle) and following:
                solved = counted(self.puzzles, self.progress())
                print(f"\n{solved}. Next: {display_path(PUZZLES / following)}.py\n")
                puzzle, clears = following, False
                continue
            if self._is_done(puzzle):
                print("\nAll that you asked for is solved." + self._after())
            while (key := self._key(file, content)) in LOOKS:
                self._look(file, LOOKS[key])
            if key == QUIT:
                raise KeyboardInterrupt
            if key == NEXT:
                puzzle = following or puzzle
            draws = key == PICTURES

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

    def _following(self, puzzle: str | None = None) -> str | None:
        """Return the first other puzzle that is not solved, and of those the first after this."""
        start = self.puzzles.index(puzzle) + 1 if puzzle else 0
        others = [p for p in (*self.puzzles[start:], *self.puzzles[:start]) if p != puzzle]
        return next((other for other in others if not self._is_done(other)), None)

    def _key(self, file: Path, content: bytes) -> str:
        """Say what the watch waits for, and wait. Returns the key, "" once the file is saved."""
        with _keys() as terminal:
            watching = f"\nWatching {display_path(file)}: save it to grade it again"
            print(watching + (", Ctrl-C to end." if terminal is None else f".\n{KEYS}"), flush=True)
            return _wait(file, content, terminal)

    def _look(self, file: Path, option: str) -> None:
        """Do in a fork what the desk does for this option."""
        child = os.fork()
        if not child:
            setattr(self.config.option, option, True)
            if option == "hint":
                self._name(file)
            try:
                print()
                desk.run(self.config)
            finally:
                sys.stdout.flush()
                os._exit(0)
        os.waitpid(child, 0)

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
        self._name(PUZZLES / f"{run.puzzle}.py")
        config.option.numprocesses = 0
        config.option.verbose = -2
        if run.draws:
            from course.plugin import session

            config.option.pictures = FOLDER
            session.observe(config)

    def _name(self, file: Path) -> None:
        """Make this process, a fork, one whose command line names a file."""
        self.config.args[:] = [str(file)]
        self.config.args_source = self.config.ArgsSource.ARGS

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


@contextmanager
def _keys() -> Iterator[int | None]:
    """In the body, keys can be read from this file as they are pressed: None without a terminal."""
    terminal = _terminal()
    if terminal is None:
        yield None
        return
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSADRAIN)
    try:
        yield terminal
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _terminal() -> int | None:
    """Return the file that keys come from, None if there is none or this runs in the background."""
    if not sys.__stdin__ or not sys.__stdin__.isatty():
        return None
    terminal = sys.__stdin__.fileno()
    with suppress(OSError):  # of a terminal that does not control this process
        if os.tcgetpgrp(terminal) != os.getpgrp():
            return None
    return terminal


def _wait(file: Path, content: bytes, terminal: int | None) -> str:
    """Return when a file has other content, or the key that is pressed before.

    A file that is saved as it was has not changed.
    """
    read = [] if terminal is None else [terminal]
    while _read(file) == content or _saved(file) == content:
        if not select.select(read, [], [], POLL_SECONDS)[0]:
            continue
        key = os.read(terminal, 1).decode(errors="replace").lower()
        if not key:
            # The terminal is gone.
            read = []
        elif key in (*LOOKS, NEXT, PICTURES, QUIT):
            return key
    return ""
