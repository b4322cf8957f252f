"""Each synchronisation of chapter 19's solutions is needed, and the interpreter says which one."""

from __future__ import annotations

import re

import pytest

from course import paths
from course.plugin import ladder
from course.proof import runner
from tests import sampling, synchronisation
from tests.launching import interpreted_only
from tests.synchronisation import CHAPTER, MUTANTS, reason

PAGE = paths.ROOT / "docs" / "synchronisation.md"
ROW = re.compile(r"\| (\d+) \| `(.*)` \| (.*?) \| (.*?) \|(.*)\|")
# Fewer orders than in the page, of the same seeds.
ORDERS = 4


def rows() -> dict[tuple, tuple[str, str]]:
    """Return what the page says of each mutant: how it is found, and what the message names."""
    found, puzzle = {}, ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            puzzle = line.removeprefix("## ")
        elif row := ROW.fullmatch(line):
            number, call, edit, told, named = row.groups()
            found[puzzle, int(number), call, edit] = told, named.strip()
    return found


def test_the_page_tells_of_each_mutant():
    told = rows()
    assert [it[:4] for it in MUTANTS] == list(told)
    for mutant, (found, named) in zip(MUTANTS, told.values(), strict=True):
        assert bool(reason(mutant)) == found.startswith("accepted: ")
        assert bool(reason(mutant)) != bool(named)


@interpreted_only
@pytest.mark.proof
@pytest.mark.parametrize("mutant", sampling.params(MUTANTS, one_in=4))
def test_a_synchronisation_is_needed(mutant, tmp_path):
    told, _ = rows()[mutant[:4]]
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
