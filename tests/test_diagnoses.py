"""What a learner reads first names the cause.

tests/diagnosis/NN_chapter.toml lists wrong kernels as a learner would write them: natural answers
(tests/alternatives/natural), not our solution, with one fault each. One table for each puzzle and
in it one for each fault, with

    fault           what is wrong, in a sentence
    cause           a regular expression that the first block of the puzzle's output must match
    never           one that no block may match: what is false of this kernel, and was said once
    find, replace   as in course/proof/mutants.py, applied to the natural answer
    every_case      true where all cases are run, since what is told first shows in a later test

A kernel that no small edit makes stands beside it as a whole, NN_chapter/puzzle__fault.py, and
begins with a comment for each of `fault`, `cause` and, if there is any, `never`.

Of our mutants, about one in SAMPLE goes through all tests of its level, too. The shares of first
messages that name the cause are printed at the end of the run, and hold a bar: see conftest.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from course import paths
from course.plugin import failures, ladder
from course.proof import mutants, runner
from kernelgauge import kernel
from kernelgauge.core.settings import settings
from kernelgauge.diagnosis import repair
from tests import sampling

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(not settings.interpreted, reason="what a GPU cannot see is told there too"),
]

FOLDER = paths.ROOT / "tests" / "diagnosis"
NATURAL = paths.ROOT / "tests" / "alternatives" / "natural"
HEADER = re.compile(r"# fault: .+\n# cause: (?P<cause>.+)\n(# never: (?P<never>.+)\n)?")
# A cause that is found by trying edits.
EDIT = re.compile("in its place|with it before line")
# One mutant in so many runs through all tests of its level, as a learner's kernel would, and one in
# so many on each change.
SAMPLE, ON_EACH_CHANGE = 16, 64

MUTANTS = [
    mutant
    for path in sorted(mutants.FOLDER.glob("*.toml"))
    for mutant in mutants.read(path)
    if mutant.level == ladder.SOLVED and mutant.check != "speedup"
    if sampling.is_sampled(sampling.name_of(mutant), SAMPLE)
]


@dataclass(frozen=True)
class WrongKernel:
    """A learner's kernel with one fault, and the patterns of its cause and of what is false."""

    puzzle: str
    name: str
    cause: str
    source: Callable[[], str]
    every_case: bool = False
    never: str | None = None


def edits_of(path: Path) -> list[WrongKernel]:
    """The natural answers with one fault each that a chapter lists."""
    return [
        WrongKernel(
            puzzle,
            fault,
            fields["cause"],
            partial(mutants.edited, NATURAL / f"{puzzle}.py", fields["find"], fields["replace"]),
            fields.get("every_case", False),
            fields.get("never"),
        )
        for puzzle, fault, fields in mutants.tables(path)
    ]


def whole(path: Path) -> WrongKernel:
    """The kernel that stands in a file of its own."""
    puzzle, _, fault = path.stem.partition("__")
    header = HEADER.match(path.read_text())
    assert header, f"{path.name} does not begin with its fault and its cause"
    return WrongKernel(
        f"{path.parent.name}/{puzzle}",
        fault,
        header["cause"],
        path.read_text,
        never=header["never"],
    )


KERNELS = [kernel for path in sorted(FOLDER.glob("*.toml")) for kernel in edits_of(path)]
KERNELS += [whole(path) for path in sorted(FOLDER.glob("*/*.py"))]


@pytest.fixture
def told(monkeypatch, tmp_path) -> Callable[..., list[str]]:
    """Grade a kernel, and return the title and the message of each cause that is printed.

    One case in three runs on other contents too, which takes most of the time. A kernel whose cause
    is named without that is not graded so.
    """

    def graded(puzzle: str, source: str, wanted: str, **options) -> list[str]:
        with runner.graded(puzzle, source, tmp_path):
            cases = runner.cases_of(puzzle)
            with monkeypatch.context() as patch:
                patch.setattr(kernel, "is_thorough", lambda case: False)
                blocks = [*map(block, runner.told(cases, **options))]
            if not (blocks and re.search(wanted, blocks[0], re.IGNORECASE)):
                blocks = [*map(block, runner.told(cases, **options))]
        assert blocks, f"this kernel passes the first level of {puzzle}"
        return blocks

    return graded


def block(failure: failures.Failure) -> str:
    return f"{failure.title}\n{failure.message}"


@pytest.mark.parametrize("wrong", sampling.params(KERNELS, one_in=6))
def test_first_message_names_the_cause(wrong, told, record_property, monkeypatch):
    record_property("names the cause", "wrong kernels")
    if EDIT.search(wrong.cause):
        # How many edits are tried in that time depends on the machine.
        monkeypatch.setattr(repair, "MAX_SECONDS", 4 * repair.MAX_SECONDS)
        monkeypatch.setattr(repair, "MAX_SECONDS_IN_ALL", 4 * repair.MAX_SECONDS_IN_ALL)
    options = {"enough": math.inf} if wrong.every_case else {}
    blocks = told(wrong.puzzle, wrong.source(), wrong.cause, **options)
    first = blocks[0]
    assert re.search(wrong.cause, first, re.IGNORECASE), f"nothing says {wrong.cause!r}:\n{first}"
    false = [it for it in blocks if wrong.never and re.search(wrong.never, it, re.IGNORECASE)]
    assert not false, f"this matches {wrong.never!r}, which is false:\n{false[0]}"


@pytest.mark.parametrize("mutant", sampling.params(MUTANTS, one_in=ON_EACH_CHANGE))
def test_first_message_names_what_was_mutated(mutant, told, record_property):
    record_property("names the cause", "mutants")
    wanted = mutant.cause or re.escape(mutant.message)
    first = told(mutant.puzzle, mutant.source(), wanted)[0]
    if not re.search(wanted, first, re.IGNORECASE):
        pytest.xfail(f"nothing says {wanted!r}:\n{first}")
