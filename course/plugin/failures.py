"""Print what is wrong with a puzzle: failures of one cause as one block, the first to fix first."""

from __future__ import annotations

import cmath
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from course.options import asked
from course.paths import PUZZLES, display_path
from course.plugin.ladder import PRODUCTION
from kernelgauge import words
from kernelgauge.core.settings import settings
from kernelgauge.words.fault import PROVEN, Fault
from kernelgauge.words.kinds import KINDS, MEMORY, ORDER

MAX_BLOCKS = 2
MAX_LINES = 12
MAX_NAMED = 4

WRONG_RESULT = "wrong-result"
# What the compiler and the interpreter say of one line, with one remedy, is one cause.
OF_A_LINE = {"not-compiled", "raises"}
# The tools to look for a cause with, where values and a picture do not show it.
VALUES, PICTURE, CODE = "values", "picture", "code"
TOOLS = {
    "not-compiled": (CODE,),
    "does-not-fit": (CODE,),
    "register-spills": (CODE,),
    "too-much-traffic": (PICTURE, CODE),
    "too-slow": (PICTURE, CODE),
}
# What a picture of the call shows.
DRAWN = {
    "barrier-misuse",
    "between-elements-load",
    "between-elements-store",
    "early-overwrite",
    "early-read",
    "left-in-flight",
    "missing-fence",
    "out-of-bounds-load",
    "out-of-bounds-store",
    "race",
    "unwritten",
    "wrong-bytes",
    "wrong-result",
    "too-much-traffic",
}
# Of other kinds it shows faults of which this is said: a deadlock of partitions.
DRAWN_NOTES = {"partitions-wait"}


@dataclass(frozen=True)
class Failure:
    """One failed case of a puzzle.

    puzzle, level: as in course.plugin.ladder
    test: its name, test_masks[ragged]
    path: its test file, as a learner types it
    order: its place in the order of the tests
    told: what `told` made of the fault
    printed: what the learner's code printed
    """

    puzzle: str
    level: str
    test: str
    path: str
    order: int
    told: dict[str, Any] = field(default_factory=dict)
    printed: str = ""

    @property
    def kind(self) -> str:
        """The kind of fault."""
        return self.told["kind"]

    @property
    def title(self) -> str:
        """What the kind is called, with the names of this case."""
        return self.told["title"]

    @property
    def message(self) -> str:
        """What a learner reads."""
        return "\n".join(text for _, text in self.told["parts"])

    @property
    def reason(self) -> str:
        """The cause of a wrong result, or the hint, as far as they are known."""
        return self.told["reason"]

    @property
    def is_production(self) -> bool:
        """Whether only the second level asks for this."""
        return self.level == PRODUCTION

    @property
    def is_of_memory(self) -> bool:
        """Whether an access went astray, which may be why other results are wrong."""
        return KINDS[self.kind].group == MEMORY

    @property
    def is_proven(self) -> bool:
        """Whether a mistake gives the result of this case and of others."""
        return self.told["explains"] > 1

    @property
    def command(self) -> str:
        """A command that runs this case alone."""
        name, _, case = self.test.partition("[")
        case = case.removesuffix("]")
        word = f"'{name} and {case}'" if case.isidentifier() else name
        if case and not case.isidentifier():
            return f"pytest '{self.path}::{self.test}'"
        return f"pytest {self.path} -k {word}"


def told(fault: Fault, withheld: bool = False) -> dict[str, Any]:
    """Return what a run says of a fault, in plain data that xdist can carry.

    Of bad input, what happened instead of the error is what is to be fixed if it is one of memory.

    withheld: only what is seen of it; the data of the fault have its cause
    """
    shown = words.symptom(fault) if withheld else fault
    first, inner = shown, shown.instead
    if inner and KINDS[inner.kind].group == MEMORY:
        first = inner
    cause = (inner or shown).cause
    kind, place, why = first.key
    return {
        "kind": first.kind,
        "title": words.title(first),
        "parts": [list(part) for part in words.parts(shown)],
        "reason": words.reason(first) or (words.reason(inner) if inner else ""),
        "key": repr((place, why) if kind in OF_A_LINE and place and why else first.key),
        "cause": words.cause(inner or shown),
        "explains": cause.explains if cause and cause.known == PROVEN else 0,
        "finite": cmath.isfinite(first.numbers.get("got", 0.0)),
        "fault": fault.plain(),
        "withheld": withheld,
    }


def grouped(failures: Iterable[Failure]) -> list[list[Failure]]:
    """Return the failures of one puzzle by cause, each cause a block, in the order of printing.

    What the first level asks for comes before production. Of wrong results, the cause that other
    cases confirm comes first, then one that is shared.
    """
    causes: dict[str, list[Failure]] = {}
    for failure in sorted(failures, key=lambda it: (it.is_production, ORDER[it.kind], it.order)):
        causes.setdefault(failure.told["key"], []).append(failure)

    def rank(group: list[Failure]) -> tuple:
        first = group[0]
        level, kind = first.is_production, ORDER[first.kind]
        if first.kind != WRONG_RESULT:
            return level, kind, first.order
        proven = any(failure.is_proven for failure in group)
        return level, kind, not proven, not first.reason, -len(group), first.order

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
        guessed = other[0].kind == WRONG_RESULT and not any(it.is_proven for it in other)
        if guessed and one.kind == WRONG_RESULT and one.reason:
            full = 1
    # What production asks for can wait until the first level passes.
    if verbosity <= 0 and groups and not groups[0][0].is_production:
        full = min(full, sum(not group[0].is_production for group in groups))
    for number, group in enumerate(groups[:full]):
        _write_block(terminal, group, verbosity, brief=number > 0 and verbosity <= 0)
    if rest := groups[full:]:
        terminal.line("and after that:")
        for title, group in _listed(rest, explained=not groups[0][0].is_of_memory).items():
            terminal.line(f"  {title}: {_named(group)}")
        terminal.line(f"  (-v shows them in full: pytest {rest[0][0].path} -v)")


def lines_of(failure: Failure, brief: bool = False, whole: bool = False) -> list[str]:
    """Return the lines of a message.

    brief: only the place, what happened, and why
    whole: with the map of a wrong result also where that makes it long
    """
    parts = failure.told["parts"]
    if brief:
        why = (words.CAUSE, words.REMEDY, "depends")
        kept, rest = parts[:3], parts[3:]
        parts = [*kept, *(part for part in rest if part[0] in why)]
    lines = [line for _, text in parts for line in text.splitlines()]
    if not whole and len(lines) > MAX_LINES:
        drawn = "(-v draws a map of where it is wrong)"
        shown = [drawn if what == "map" else text for what, text in parts]
        lines = [line for text in shown for line in text.splitlines()]
    return lines


def _write_block(terminal, group: list[Failure], verbosity: int, brief: bool) -> None:
    """Print one cause. brief: only the place, what happened, and why"""
    first = group[0]
    name = first.puzzle.partition("/")[2]
    terminal.section(f"{name}: {first.title}", sep="_", red=True)
    for line in lines_of(first, brief, verbosity > 0):
        terminal.line(line)
    if first.printed:
        printed = first.printed.rstrip().splitlines()
        terminal.line("printed by this case:")
        for line in printed[:MAX_LINES] if verbosity <= 0 else printed:
            terminal.line(f"    {line}")
    if len(group) > 1:
        terminal.line(f"{len(group)} checks fail for this reason: {_named(group)}")
    terminal.line(f"run this one: {first.command}")
    if first.told["withheld"]:
        for line in _tools(first):
            terminal.line(line)
        return
    # On a GPU only the roofline is drawn.
    if not brief and _is_drawn(first) and settings.interpreted and not asked.draws:
        terminal.line(f"draw it: pytest {first.path} --pictures out")
    terminal.line(f"what it means: pytest --explain {first.kind}")


def _is_drawn(failure: Failure) -> bool:
    said = {it["id"] for it in failure.told["fault"]["said"]}
    return failure.kind in DRAWN or bool(said & DRAWN_NOTES)


def _tools(failure: Failure) -> list[str]:
    """Return how to look for a cause that is withheld, and how to be told a little of it."""
    file = display_path(PUZZLES / f"{failure.puzzle}.py")
    tools = {
        VALUES: "look inside, with print() or breakpoint() in the kernel: TRITON_INTERPRET=1 "
        f"{failure.command} -x -s",
        PICTURE: f"draw it: pytest {file} --pictures out",
        CODE: f"see what the compiler made of it: pytest {file} --compiled",
    }
    lines = [tools[it] for it in TOOLS.get(failure.kind, (VALUES, PICTURE))]
    return [*lines, f"get nearer to the cause, a step at a time: pytest {file} --hint"]


def _listed(groups: list[list[Failure]], explained: bool) -> dict[str, list[Failure]]:
    """Return failures by what one line says of them.

    A line has no room for figures that a reader could check a cause by, so it names that of a wrong
    result only where other cases confirm it, and no more of that level are without a cause: one may
    fit a few cases of a mistake that nobody has named.

    explained: whether it names causes of wrong results at all
    """
    listed: dict[str, list[Failure]] = {}
    open_cases = Counter(
        failure.is_production
        for group in groups
        for failure in group
        if failure.kind == WRONG_RESULT and not failure.is_proven
    )
    for group in groups:
        title = group[0].title
        if group[0].kind == WRONG_RESULT:
            proven = [failure.told for failure in group if failure.is_proven]
            others = open_cases[group[0].is_production]
            if proven and explained and proven[0]["explains"] >= others:
                title += f": {proven[0]['cause']}"
            elif not any(failure.told["finite"] for failure in group):
                title += ", NaN or infinity"
        listed.setdefault(title, []).extend(group)
    return listed


def _named(group: list[Failure]) -> str:
    names = [failure.test for failure in group]
    more = f", and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
