"""A version that is right but slow is solved by every check but the race, which it loses.

tests/slow.toml has one for most puzzles: tiny tiles, lanes that are not neighbours in memory, one
program for all, or one warp for a long row. Where traffic shows such a thing too, tests/mutants has
it. The race takes a GPU; that the version is right is shown in the interpreter.
"""

from __future__ import annotations

import sys

import pytest

from course import paths
from course.plugin import ladder
from course.proof import runner
from course.proof.mutants import edited
from kernelgauge.core.settings import settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.proof

SLOW = tomllib.loads((paths.ROOT / "tests" / "slow.toml").read_text())


@pytest.mark.parametrize("puzzle", SLOW)
def test_slow_is_right_and_loses_the_race(puzzle, tmp_path):
    source = edited(paths.SOLUTIONS / f"{puzzle}.py", **SLOW[puzzle])
    cases = runner.cases_of(puzzle)
    results = [c for c in cases if ladder.check_of(c.test) in ("shapes", "masks", "numerics")]
    races = [c for c in cases if ladder.check_of(c.test) == "speedup"]
    with runner.graded(puzzle, source, tmp_path):
        if settings.interpreted:
            assert runner.first_fault(results) is None
            return
        lost = runner.first_fault(races)
    assert lost, f"{puzzle}: the slow version reaches the bar of the first level"
    assert lost[1].fault.kind == "too-slow"
