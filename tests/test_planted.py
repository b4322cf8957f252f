"""A stub that has a planted fault is right but for it, and its cause is for a learner to find."""

from __future__ import annotations

import re

import pytest

from course.plugin import failures, ladder
from course.proof import mutants, runner
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured, Wrong
from kernelgauge.words.fault import revived

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(not settings.interpreted, reason="some faults are seen only there"),
]

FILES = [mutants.FOLDER / f"{chapter}.toml" for chapter in ("08_debugging", "19_gluon")]
MUTANTS = [mutant for file in FILES for mutant in mutants.read(file)]
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


# What only a message that names the cause says, of each fault but that of l1_norms, which the
# compiler's own words name.
CAUSES = {
    "08_debugging/entropy": r"log\(0\)",
    "08_debugging/ragged_mean": "nothing was stored",
    "08_debugging/last_tokens": "int32|why:",
    "08_debugging/running_sum": "race",
    "08_debugging/momentum_step": "the autotuner has run",
    "08_debugging/token_mean": "neighbouring lanes|why:",
    "08_debugging/log_softmax": "a thread holds more values than registers",
    "19_gluon/sigmoid_attention": "the assembler lifts that wait",
}


@pytest.mark.parametrize("puzzle", CAUSES)
def test_the_cause_is_known_and_not_told(puzzle, tmp_path):
    (planted,) = (it for it in PLANTED if it.puzzle == puzzle)
    with runner.graded(planted.puzzle, planted.source(), tmp_path):
        first = runner.first_told(runner.cases_of(planted.puzzle))
    assert re.search(CAUSES[puzzle], first.message)
    # The numbers of a fault in plain data may be words, such as "nan".
    seen = failures.told(revived(first.told["fault"]).but(numbers={}), withheld=True)
    text = " ".join([seen["title"], *(said for _, said in seen["parts"])])
    assert text
    assert not re.search(CAUSES[puzzle], text)
    assert (seen["reason"], seen["cause"]) == ("", "")
    assert seen["fault"] == {**first.told["fault"], "numbers": {}}
