"""Print what is wrong with a puzzle: failures with one cause as one block, what to fix first first.

A message of the judge has its place and call in the first line, what happened below, and a hint at
the end. The kind of a failure is read off the words of its message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from course.plugin.ladder import PRODUCTION

MAX_BLOCKS = 2
MAX_LINES = 12
MAX_NAMED = 4

# How the lines of a message begin that say why, the surest first.
REASONS = ("likely cause: ", "cause: ", "hint: ")

WRONG_RESULT = "a wrong result"
# The worst element, as numerics.compare writes it.
NONFINITE = re.compile(r": got (?:nan|-?inf)\b")
NOT_COMPILED = "it does not compile for a GPU"

# What a message says, and the title for it, in the order in which the causes are to be fixed.
# {name} stands for the first group.
RUNS = (
    (r"the debugger was left", "the debugger was left"),
    (r"could not be interrupted|did not return within", "it does not come to an end"),
    (r"crashed the process|accessed memory that is not its own", "it ends the whole process"),
    (r"  (?:SyntaxError|IndentationError|TabError): ", "the file is not valid Python"),
    (r"defines no function|is no function but|is not a function", "the function is not there"),
    (r"does not compile|cannot be compiled|crashed the compiler", NOT_COMPILED),
    (r"does not fit\b.*for (?:sm|gfx)", "it does not fit on a GPU"),
    (r"spills registers to memory", "it spills registers to memory"),
)
MEMORY = (
    (r" reads memory between the elements of (\w+)", "a load between the elements of {name}"),
    (r" \w+ memory between the elements of (\w+)", "a store between the elements of {name}"),
    (r" reads (\w+)\[?.*\n?.*out of bounds", "a load outside {name}"),
    (r" (?:writes|updates) (\w+)\[?.*\n?.*out of bounds", "a store outside {name}"),
    (r"^race:", "programs race for the same element"),
    (r"^wrong when rank \d+ is late", "a rank that is late is not waited for"),
    (r"launched outside `with on|^launched no kernel on GPU", "a launch on the wrong GPU"),
    (r"lets others load what it may still be", "others may load what is not stored yet"),
    (r"was stored by no program", "elements that no program stores"),
    (r"changes elements that nothing has set", "an atomic on memory that nothing has set"),
    (r"IntegerOverflow|2\*\*32 too small", "an offset that does not fit 32 bits"),
)
RESULTS = (
    (r"launched no Triton kernel", "no kernel was launched"),
    (r"uses item\(\), bool\(\) or int\(\)", "the launcher waits for the GPU"),
    (r"outside a kernel|work outside the kernel", "work outside the kernel"),
    (r"is wrong in|is wrong as a whole", WRONG_RESULT),
    (r" has (?:shape|dtype|device) |is not contiguous", "a result of another form"),
    (r"differs between two runs", "results that differ from run to run"),
    (r"whose last bits differ", "results that differ from rank to rank"),
    (r"the spec asks for at least \d+ programs", "too few programs share the work"),
    (r"^the busiest program does", "the work is not shared evenly"),
    (r"may be without work", "programs without work"),
    (r"the budget is", "more traffic than the spec allows"),
    (r"must raise", "bad input is neither rejected nor answered"),
    (r"too slow|too close to call|impossible time|timed stream", "too slow"),
)
RAISED = ((r"(?:  |: )(\w+Error): ", "it raises {name}"),)
KINDS = (*RUNS, *MEMORY, *RAISED, *RESULTS)


@dataclass(frozen=True)
class Failure:
    """One failed case of a puzzle.

    puzzle, level: as in course.plugin.ladder
    test: its name, test_masks[ragged]
    message: what the judge said
    path: its test file, as a learner types it
    order: its place in the order of the tests
    printed: what the learner's code printed
    """

    puzzle: str
    level: str
    test: str
    message: str
    path: str
    order: int
    printed: str = ""

    @property
    def kind(self) -> tuple[int, str]:
        """The rank of the kind of failure, and its title."""
        # Of bad input, what happened instead of the error is the cause if it is one of memory.
        expected, _, instead = self.message.partition("; instead:\n")
        return _first(MEMORY, instead) or _first(KINDS, expected) or (len(KINDS), "a check fails")

    @property
    def cause(self) -> tuple:
        """What failures with one cause have in common: kind, line of the kernel, and reason.

        What the compiler and the interpreter say of one line, with one remedy, is one cause.
        """
        place = re.search(r"^\S+\.py:\d+", self.message, re.MULTILINE)
        title = self.kind[1]
        if place and self.reason and (title == NOT_COMPILED or title.startswith("it raises ")):
            return place[0], self.reason
        return self.kind, place[0] if place else re.sub(
            r"[\d.,]+", "#", self.reason.partition(" (with ")[0]
        )

    @property
    def reason(self) -> str:
        """What a wrong result looks like, or the hint, as far as the message says."""
        lines = self.message.splitlines()
        found = [line for start in REASONS for line in lines if line.startswith(start)]
        return found[0].partition(": ")[2] if found else ""

    @property
    def is_production(self) -> bool:
        """Whether only the second level asks for this."""
        return self.level == PRODUCTION

    @property
    def is_of_memory(self) -> bool:
        """Whether an access went astray, which may be why other results are wrong."""
        return self.kind[0] in range(len(RUNS), len(RUNS) + len(MEMORY))

    @property
    def is_proven(self) -> bool:
        """Whether a mistake gives the result of this case and of others."""
        return "gives exactly your result, and so it does in" in self.message

    @property
    def command(self) -> str:
        """A command that runs this case alone."""
        name, _, case = self.test.partition("[")
        case = case.removesuffix("]")
        word = f"'{name} and {case}'" if case.isidentifier() else name
        if case and not case.isidentifier():
            return f"pytest '{self.path}::{self.test}'"
        return f"pytest {self.path} -k {word}"


def _first(kinds: tuple, message: str) -> tuple[int, str] | None:
    """The rank and the title of the first of these kinds that a message is of."""
    for kind in kinds:
        if found := re.search(kind[0], message, re.MULTILINE):
            names = [group for group in found.groups() if group]
            return KINDS.index(kind), kind[1].format(name=names[0] if names else "")
    return None


def grouped(failures: Iterable[Failure]) -> list[list[Failure]]:
    """Return the failures of one puzzle by cause, each cause a block, in the order of printing.

    What the first level asks for comes before production. Of wrong results, the cause that other
    cases confirm comes first, then one that is shared.
    """
    causes: dict[tuple, list[Failure]] = {}
    for failure in sorted(failures, key=lambda it: (it.is_production, it.kind[0], it.order)):
        causes.setdefault(failure.cause, []).append(failure)

    def rank(group: list[Failure]) -> tuple:
        first = group[0]
        level, kind = first.is_production, first.kind
        if kind[1] != WRONG_RESULT:
            return level, kind[0], first.order
        proven = any(failure.is_proven for failure in group)
        return level, kind[0], not proven, not first.reason, -len(group), first.order

    return sorted(causes.values(), key=rank)


def write(terminal, failures: Iterable[Failure], verbosity: int = 0) -> None:
    """Print the failures of one puzzle on pytest's terminal.

    verbosity: pytest's; from 1 on every cause is printed in full
    """
    groups = grouped(failures)
    full = len(groups) if verbosity > 0 else MAX_BLOCKS
    # Beside a wrong result with a cause, what another one may come from is a guess.
    if verbosity <= 0 and len(groups) > 1:
        one, other = groups[0][0], groups[1]
        guessed = other[0].kind[1] == WRONG_RESULT and not any(it.is_proven for it in other)
        if guessed and one.kind[1] == WRONG_RESULT and one.reason:
            full = 1
    for number, group in enumerate(groups[:full]):
        _write_block(terminal, group, verbosity, brief=number > 0 and verbosity <= 0)
    if rest := groups[full:]:
        terminal.line("and after that:")
        for title, group in _listed(rest, explained=not groups[0][0].is_of_memory).items():
            terminal.line(f"  {title}: {_named(group)}")
        terminal.line(f"  (-v shows them in full: pytest {rest[0][0].path} -v)")


def _write_block(terminal, group: list[Failure], verbosity: int, brief: bool) -> None:
    """Print one cause. brief: only the place, what happened, and why"""
    first = group[0]
    name = first.puzzle.partition("/")[2]
    terminal.section(f"{name}: {first.kind[1]}", sep="_", red=True)
    lines = first.message.splitlines()
    if brief:
        lines = lines[:3] + [line for line in lines[3:] if line.startswith(REASONS)]
    if verbosity <= 0 and len(lines) > MAX_LINES:
        drawn = [i for i, line in enumerate(lines) if line.startswith("map of")]
        if drawn:
            end = drawn[0] + 1
            while end < len(lines) and lines[end].startswith("    "):
                end += 1
            lines[drawn[0] : end] = ["(-v draws a map of where it is wrong)"]
    for line in lines:
        terminal.line(line)
    if first.printed:
        printed = first.printed.rstrip().splitlines()
        terminal.line("printed by this case:")
        for line in printed[:MAX_LINES] if verbosity <= 0 else printed:
            terminal.line(f"    {line}")
    if len(group) > 1:
        terminal.line(f"{len(group)} checks fail alike: {_named(group)}")
    terminal.line(f"run this one: {first.command}")


def _listed(groups: list[list[Failure]], explained: bool) -> dict[str, list[Failure]]:
    """Return failures by what one line says of them.

    A line has no room for figures that a reader could check a cause by, so it names that of a wrong
    result only where other cases confirm it.

    explained: whether it names causes of wrong results at all
    """
    listed: dict[str, list[Failure]] = {}
    for group in groups:
        title = group[0].kind[1]
        if title == WRONG_RESULT:
            proven = [failure.reason for failure in group if failure.is_proven]
            if proven and explained:
                title += f": {proven[0].partition(' (')[0]}"
            elif all(NONFINITE.search(failure.message) for failure in group):
                title += ", NaN or infinity"
        listed.setdefault(title, []).extend(group)
    return listed


def _named(group: list[Failure]) -> str:
    names = [failure.test for failure in group]
    more = f", and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
