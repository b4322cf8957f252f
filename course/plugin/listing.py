"""The ladder with the learner's progress, without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from course.desk import hints, stubs
from course.paths import PUZZLES, SOLUTIONS, display_path
from course.plugin.ladder import SOLVED, effort_of, ladder
from course.plugin.progress import Progress, counted, first_open, is_done, production_of

NEXT = "<- next"


def write(terminal, puzzles: Sequence[str], progress: Progress) -> None:
    """Print a line for each of these puzzles, by chapter, and what comes next on the ladder.

    A line says how long the puzzle takes, how hard it is, and how far it is.
    """
    following = first_open(ladder(), progress)
    width = max(len(puzzle.partition("/")[2]) for puzzle in puzzles)
    for _, steps in groupby(puzzles, lambda puzzle: puzzle.partition("/")[0]):
        chapter = list(steps)
        terminal.line(hints.chapter_of(chapter[0]), bold=True)
        for puzzle in chapter:
            said, colours = state(puzzle, progress)
            time, difficulty = effort_of(puzzle)
            name = puzzle.partition("/")[2]
            terminal.write(f"    {name:<{width}}  {time:>6}  {difficulty:<9}  ")
            terminal.line(f"{said:<44}  {NEXT}" if puzzle == following else said, **colours)
    terminal.line("")
    terminal.line("The times are estimates, for someone who has solved the puzzles before.")
    terminal.line(f"{counted(list(puzzles), progress)}.")
    write_ladder(terminal, puzzles, progress)


def write_ladder(
    terminal, puzzles: Sequence[str], progress: Progress, first: Sequence[str] = ()
) -> None:
    """Print what is solved on the whole ladder, if these are not all of it, and what comes next.

    first: what comes before the ladder, as long as it is not solved
    """
    everywhere = ladder()
    if set(puzzles) != set(everywhere):
        terminal.line(f"On the whole ladder: {counted(everywhere, progress)}.")
    if following := first_open([*first, *everywhere], progress):
        terminal.line(f"Next: {display_path(PUZZLES / following)}.py")


def state(puzzle: str, progress: Progress) -> tuple[str, dict[str, bool]]:
    """Say how far a puzzle is, and the colour for it."""
    found = progress.of(puzzle)
    file = PUZZLES / f"{puzzle}.py"
    if is_done(found, puzzle, SOLVED):
        return f"solved       {production_of(found, puzzle)}", {"green": True}
    if not file.exists():
        return "the file is gone: --reset brings the stub back", {"red": True}
    if stubs.is_untouched(puzzle):
        is_solved = file.read_bytes() == (SOLUTIONS / f"{puzzle}.py").read_bytes()
        return "the worked example: read it, then run it" if is_solved else "not started", {}
    if tests := found.get(SOLVED):
        return f"not solved   {sum(tests.values())} of {len(tests)} checks pass", {"yellow": True}
    return "changed, and not graded since", {"yellow": True}
