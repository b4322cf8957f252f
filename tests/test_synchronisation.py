"""Each synchronisation of chapter 19's solutions is needed, and the interpreter says which one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from course import paths
from course.plugin import ladder
from course.proof import runner
from tests import sampling, synchronisation
from tests.launching import interpreted_only
from tests.synchronisation import CHAPTER, all_mutants, reason

PAGE = paths.ROOT / "docs" / "synchronisation.md"
ROW = re.compile(r"\| (\d+) \| `(.*)` \| (.*?) \| (.*?) \|(.*)\|")
# Fewer orders than in the page, of the same seeds.
ORDERS = 4


class Row(NamedTuple):
    """What the page says of a mutant: how it is found, and what the message names."""

    puzzle: str
    line: int
    call: str
    edit: str
    found: str
    named: str

    @property
    def name(self) -> str:
        """What tells it from the others of its puzzle."""
        return f"{self.line} {self.call}: {self.edit}"


def rows() -> Iterator[Row]:
    puzzle = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            puzzle = line.removeprefix("## ")
        elif row := ROW.fullmatch(line):
            number, call, edit, found, named = row.groups()
            yield Row(puzzle, int(number), call, edit, found, named.strip())


def test_the_page_tells_of_each_mutant():
    told = [*rows()]
    assert [*all_mutants()] == [it[:4] for it in told]
    for mutant, row in zip(all_mutants().values(), told, strict=True):
        assert mutant.name == row.name
        assert bool(reason(mutant)) == row.found.startswith("accepted: ")
        assert bool(reason(mutant)) != bool(row.named)


@interpreted_only
@pytest.mark.proof
@pytest.mark.parametrize("row", sampling.params(rows(), one_in=4))
def test_a_synchronisation_is_needed(row, tmp_path):
    # To make them takes seconds, which no run that only collects this test should spend.
    told, mutant = row.found, all_mutants()[row[:4]]
    found = synchronisation.verdict(mutant, tmp_path / "wrong.py", range(ORDERS))
    if told.startswith("accepted: "):
        assert dict(found.kinds) == {"": ORDERS}
        return
    kinds, _, orders = told.rpartition(" of ")
    counts = {kind: int(number) for kind, number in re.findall(r"([a-z-]+) (\d+)", kinds)}
    assert found.kinds.keys() - {""} <= counts.keys(), found
    if sum(counts.values()) == int(orders):
        assert not found.kinds[""]
        assert found.named
        return
    # What some orders hide, the puzzle's own tests find: they run many programs.
    puzzle = f"{CHAPTER}/{mutant.puzzle}"
    cases = [it for it in runner.cases_of(puzzle) if ladder.check_of(it.test) != "compiles"]
    with runner.graded(puzzle, mutant.source, tmp_path):
        assert runner.first_fault(cases)
