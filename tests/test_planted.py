"""A stub of chapter 08 is right but for its planted fault: nothing else asked of it fails."""

from __future__ import annotations

import pytest

from course.plugin import ladder
from course.proof import mutants, runner
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured, Wrong

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(not settings.interpreted, reason="some faults are seen only there"),
]

MUTANTS = mutants.read(mutants.FOLDER / "08_debugging.toml")
PLANTED = [mutant for mutant in MUTANTS if mutant.name == "planted"]


@pytest.mark.parametrize("level", ladder.LEVELS)
@pytest.mark.parametrize("planted", PLANTED, ids=lambda it: it.puzzle)
def test_only_the_planted_fault_fails(planted, level, tmp_path):
    """Each case that fails is of the check that the fault is about, or names the same fault."""
    told = {}
    with runner.graded(planted.puzzle, planted.source(), tmp_path):
        for case in runner.cases_of(planted.puzzle, level):
            try:
                case.run()
            except NotMeasured:
                continue
            except Wrong as wrong:
                told[case.name] = str(wrong)
    assert told or level != ladder.SOLVED
    others = {
        name: message
        for name, message in told.items()
        if ladder.check_of(name) != planted.check and planted.message not in message
    }
    assert not others
