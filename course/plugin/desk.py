"""The options that grade nothing, such as --list, --hint and --reset."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from datetime import date
from difflib import get_close_matches
from itertools import combinations, groupby
from pathlib import Path

import pytest

from course.desk import faults, hints, stubs, workspace
from course.paths import PRODUCTION, PUZZLES, display_path, located
from course.plugin import listing
from course.plugin.ladder import SOLVED, ladder, path_of_tests
from course.plugin.progress import Progress, is_done
from course.plugin.scoreboard import show_solution
from kernelgauge.words.kinds import KINDS
from kernelgauge.words.tables import aligned

EXAMPLE = "puzzles/07_matmul/tiled.py"
MAX_WIDTH = 100

# At most one of the first can be given, and none of them with one of the others.
OPTIONS = (
    "list",
    "explain",
    "hint",
    "reset",
    "compare",
    "show_solution",
    "compiled",
    "tries",
    "watch",
    "pictures",
    "workspace",
)
OTHERS = ("solutions", "subject", "page", "json", "proof")
TOGETHER = (
    {"compare", "show_solution"},
    {"compare", "subject"},
    {"compare", "page"},
    *({"pictures", other} for other in ("compare", "solutions", "subject", "page")),
    *({look, files} for look in ("compiled", "tries") for files in ("solutions", "subject")),
)
FLAGS = {"show_solution": "--show-solution", "tries": "--try"}


# pytest's own that --watch cannot be given with.
NOT_WATCHED = {
    "numprocesses": "-n",
    "looponfail": "-f",
    "usepdb": "--pdb",
    "trace": "--trace",
    "collectonly": "--collect-only",
    "stepwise": "--sw",
}


def check(option) -> None:
    """Raises pytest.UsageError for options that contradict each other."""
    # --compiled without a folder is "", and so is --explain without a kind.
    given = [name for name in (*OPTIONS, *OTHERS) if getattr(option, name) not in (None, False)]
    for one, other in combinations(given, 2):
        if one in OPTIONS and {one, other} not in TOGETHER:
            flags = (FLAGS.get(name, f"--{name}") for name in (one, other))
            raise pytest.UsageError(f"{' and '.join(flags)} do not go together: give one of them")
    for name, flag in NOT_WATCHED.items():
        if option.watch and getattr(option, name, None) not in (None, False):
            raise pytest.UsageError(f"{flag} and --watch do not go together: give one of them")


def is_asked(option) -> bool:
    """Whether this run grades nothing."""
    alone = option.show_solution and not option.compare
    explains = option.explain is not None
    asks = (option.list, explains, option.hint, option.reset, alone, option.workspace is not None)
    return any(asks)


def run(config) -> int:
    """Do what was asked for, and return the exit status. Raises pytest.UsageError."""
    option = config.option
    names_none = option.explain is not None or option.workspace is not None
    found = {} if names_none else asked_for(config)
    # pytest's cache and its terminal are there from here on, as for --help.
    config._do_configure()
    terminal = config.get_terminal_writer()
    progress = Progress(getattr(config, "cache", None), PUZZLES)
    if option.list:
        listing.write(
            terminal, list(dict.fromkeys(p for ps in found.values() for p in ps)), progress
        )
    elif option.explain is not None:
        _explain(terminal, option.explain)
    elif option.workspace is not None:
        _lay_out(terminal, option.workspace)
    elif option.reset:
        for puzzle in [_the_puzzle(given, ps, "--reset") for given, ps in found.items()]:
            _reset(terminal, puzzle)
    elif option.hint:
        for given, puzzles in found.items():
            _hint(terminal, config, given, puzzles, progress)
    else:
        for puzzle in [_the_puzzle(given, ps, "--show-solution") for given, ps in found.items()]:
            _show_solution(terminal, puzzle, is_done(progress.of(puzzle), puzzle, SOLVED))
    return pytest.ExitCode.OK


def asked_for(config) -> dict[str, list[str]]:
    """Return the puzzles that each argument of the command line names, the ladder if there is none.

    Raises pytest.UsageError where an argument names none.
    """
    if config.args_source == config.ArgsSource.TESTPATHS:
        return {display_path(PUZZLES): ladder()}
    found = {}
    for argument in config.args:
        given = argument.partition("::")[0]
        found[given] = puzzles_at(located(given))
        if not found[given]:
            what = "is not a puzzle" if Path(given).exists() else "does not exist"
            raise pytest.UsageError(f"{given} {what}: name a puzzle's file, such as {EXAMPLE}")
    return found


def puzzles_at(path: Path) -> list[str]:
    """Return the puzzles that a file, which may be gone, or a folder belongs to or holds."""
    return [
        puzzle
        for puzzle in ladder()
        if any(
            path in (file, *file.parents)
            for file in (
                PUZZLES / f"{puzzle}.py",
                path_of_tests(puzzle),
                path_of_tests(puzzle, PRODUCTION),
            )
        )
    ]


def _explain(terminal, kind: str) -> None:
    """Print the page of a kind of fault, or all kinds for "". Raises pytest.UsageError."""
    if not kind:
        lines = iter(aligned([(kind, faults.title_of(kind)) for kind in KINDS]))
        for _, kinds in groupby(KINDS, lambda kind: KINDS[kind].group):
            for _ in kinds:
                terminal.line(next(lines))
            terminal.line("")
        terminal.line("In the order in which they are to be fixed. pytest --explain KIND has more.")
        return
    if kind not in KINDS:
        near = get_close_matches(kind, KINDS, cutoff=0.4)
        meant = f": did you mean {' or '.join(near)}?" if near else ""
        raise pytest.UsageError(
            f"--explain: {kind} is not a kind of fault{meant or '.'} "
            "pytest --explain lists them all"
        )
    heading, _, page = faults.path_of(kind).read_text().partition("\n")
    terminal.sep("-", heading.lstrip("# "))
    terminal.line(faults.shown(page, _width()))


def _width() -> int:
    return min(shutil.get_terminal_size().columns, MAX_WIDTH)


def _show_solution(terminal, puzzle: str, solved: bool) -> None:
    """Print our solution of a solved puzzle. Raises pytest.UsageError of another."""
    file = display_path(PUZZLES / f"{puzzle}.py")
    if not solved:
        raise pytest.UsageError(
            f"--show-solution: {file}, as it stands now, is not known to be solved. "
            f"Grade it first: pytest {file}"
        )
    show_solution(terminal, puzzle)


def _the_puzzle(given: str, puzzles: Sequence[str], flag: str) -> str:
    """Return the one puzzle that an argument names. Raises pytest.UsageError if it is a folder."""
    if Path(given).is_dir():
        raise pytest.UsageError(
            f"{flag} takes the file of one puzzle, such as {EXAMPLE}; {given} is a folder"
        )
    return puzzles[0]


def _lay_out(terminal, given: str) -> None:
    """Lay out a workspace, or bring it up to date. Raises pytest.UsageError."""
    folder = Path(given).resolve()
    is_new = not folder.is_dir() or not any(folder.iterdir())
    shown = display_path(folder)
    try:
        laid = workspace.lay_out(folder)
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"--workspace {given}: {error}") from None
    if is_new:
        terminal.line(f"{shown} has {len(laid.added)} puzzles. Work there as you would here:")
        terminal.line(f"    cd {shown} && pytest puzzles/01_pointwise")
        return
    for puzzle in laid.added:
        terminal.line(f"new: {display_path(folder / 'puzzles' / puzzle)}.py")
    if laid.renewed:
        terminal.line(f"files brought up to date, which you had not changed: {len(laid.renewed)}")
    for name in laid.outdated:
        terminal.line(
            f"{display_path(folder / name)} is left as it is, but what it asks for has changed:"
        )
        old, new = folder / workspace.ORIGINAL / name, workspace.origin_of(name)
        terminal.line(f"    diff {display_path(old)} {display_path(new)}")
    if not (laid.added or laid.renewed or laid.outdated):
        terminal.line(f"{shown} is up to date.")


def _reset(terminal, puzzle: str) -> None:
    file = display_path(PUZZLES / f"{puzzle}.py")
    if stubs.is_untouched(puzzle):
        terminal.line(f"{file} is the stub as it came. Nothing was changed.")
        return
    try:
        kept = stubs.reset(puzzle, date.today())
    except OSError as error:
        raise pytest.UsageError(
            f"--reset {file}: {error.strerror}: {display_path(error.filename or file)}"
        ) from None
    terminal.line(f"{file} is the stub again.")
    if kept:
        terminal.line(f"Your file is kept. To bring it back: cp {display_path(kept)} {file}")


def _hint(terminal, config, given: str, puzzles: Sequence[str], progress: Progress) -> None:
    """Print the next hint of the first of these puzzles that is not solved."""
    cache = getattr(config, "cache", None)
    if cache is None:
        raise pytest.UsageError(
            "--hint remembers in pytest's cache what you have seen, and -p no:cacheprovider "
            "switches that off"
        )
    open_ones = [p for p in puzzles if not is_done(progress.of(p), p, SOLVED)]
    if len(puzzles) > 1 and not open_ones:
        terminal.line(f"All of {given} is solved: name one puzzle for its hints.")
        return
    with_hints = [p for p in open_ones or puzzles if hints.hints_of(p)]
    puzzle = (with_hints or puzzles)[0]
    name, found = puzzle.partition("/")[2], hints.hints_of(puzzle)
    lesson = display_path(hints.lesson_of(puzzle))
    idea = f"{lesson}:{hints.idea_of(puzzle)}, The idea"
    if not found:
        terminal.line(f"The lesson has no hints for {name}. It begins at {idea}")
        return
    seen = cache.get(hints.SEEN, {})
    number = seen.get(puzzle, 0)
    if number == len(found):
        terminal.line(f"You have seen all {number} hints of {name}. They are in the lesson:")
        terminal.line(f"    {idea}")
        terminal.line(f"    {lesson}:{found[0].line}, the hints of {name}")
        return
    hint = found[number]
    terminal.sep("-", f"{puzzle}: hint {number + 1} of {len(found)}, {hint.kind}")
    width = _width()
    for paragraph in hint.text.split("\n\n"):
        lines = textwrap.wrap(paragraph, width, break_long_words=False, break_on_hyphens=False)
        terminal.line("\n".join([*lines, ""]))
    if number + 1 < len(found):
        file = display_path(PUZZLES / f"{puzzle}.py")
        command = "press h" if config.option.watch else f"pytest {file} --hint"
        terminal.line(f"Try that first. The next hint: {command}")
    else:
        terminal.line(f"This was the last hint. The lesson in full: {idea}")
    cache.set(hints.SEEN, seen | {puzzle: number + 1})
