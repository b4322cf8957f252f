"""What a learner reads first names the cause.

tests/diagnosis mirrors puzzles/. Each file NN_chapter/puzzle__fault.py is a wrong kernel, written
as a learner would write it and not derived from our solution. Its first lines are

    # fault: what is wrong, in a sentence
    # cause: a regular expression that the first block of the puzzle's output must match
    # missed: only where it does not match yet: what is said instead

Of our mutants, about one in SAMPLE goes through all tests of its level, too. The shares of first
messages that name the cause are printed at the end of the run, and hold a bar: see conftest.py.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pytest

from judge.core import paths
from judge.core.settings import settings
from judge.plugin import ladder
from judge.proof import mutants, runner

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(not settings.interpreted, reason="what a GPU cannot see is told there too"),
]

FOLDER = paths.ROOT / "tests" / "diagnosis"
KERNELS = sorted(FOLDER.glob("*/*.py"))
HEADER = re.compile(r"# fault: .+\n# cause: (.+)\n(# missed: .+\n)?")
# One mutant in so many runs through all tests of its level, as a learner's kernel would. Which
# ones is chosen by their names, so that a new mutant does not choose others.
SAMPLE = 16


def chosen(mutant: mutants.Mutant) -> bool:
    return zlib.crc32(f"{mutant.puzzle}.{mutant.name}".encode()) % SAMPLE == 0


MUTANTS = [
    mutant
    for path in sorted(mutants.FOLDER.glob("*.toml"))
    for mutant in mutants.read(path)
    if mutant.level == ladder.SOLVED and mutant.check != "speedup" and chosen(mutant)
]


def read(path: Path) -> tuple[str, bool]:
    """The pattern of the cause, and whether the first message is known not to name it."""
    header = HEADER.match(path.read_text())
    assert header, f"{path.name} does not begin with its fault and its cause"
    return header[1], bool(header[2])


def first_block(puzzle: str, source: str, folder: Path) -> str:
    """The title and the message of what is printed first."""
    with runner.graded(puzzle, source, folder):
        told = runner.first_told(runner.cases_of(puzzle))
    assert told, f"this kernel passes the first level of {puzzle}"
    return f"{told.kind[1]}\n{told.message}"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=f"{path.parent.name}/{path.stem}", marks=[pytest.mark.xfail] * missed)
        for path in KERNELS
        for _, missed in [read(path)]
    ],
)
def test_first_message_names_the_cause(path, tmp_path, record_property):
    record_property("names the cause", "wrong kernels")
    puzzle = f"{path.parent.name}/{path.stem.partition('__')[0]}"
    told = first_block(puzzle, path.read_text(), tmp_path)
    cause, _ = read(path)
    assert re.search(cause, told, re.IGNORECASE), f"nothing says {cause!r}:\n{told}"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.puzzle}-{mutant.name}")
def test_first_message_names_what_was_mutated(mutant, tmp_path, record_property):
    record_property("names the cause", "mutants")
    told = first_block(mutant.puzzle, mutant.source(), tmp_path)
    wanted = mutant.cause or re.escape(mutant.message)
    if not re.search(wanted, told, re.IGNORECASE):
        pytest.xfail(f"nothing says {wanted!r}:\n{told}")
