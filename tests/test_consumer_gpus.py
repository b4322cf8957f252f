"""Our solutions compile for GPUs of workstations, and fit the shared memory that these have."""

from __future__ import annotations

import pytest

from course import paths
from course.plugin import ladder, session
from course.proof import runner
from kernelgauge.compilation.targets import KIB, find_target
from kernelgauge.core.settings import settings
from tests import sampling

pytestmark = pytest.mark.proof

GPUS = ("sm_86", "sm_89", "sm_120")
SHARED = 99 * KIB
CASES = {
    puzzle: [
        case
        for case in runner.cases_of(puzzle, *ladder.LEVELS)
        if ladder.check_of(case.test) == "compiles"
    ]
    for puzzle in ladder.ladder()
}


@pytest.mark.parametrize(
    "puzzle", sampling.names([puzzle for puzzle, cases in CASES.items() if cases], one_in=3)
)
def test_the_solution_fits(puzzle, monkeypatch):
    assert {find_target(name).shared for name in GPUS} == {SHARED}
    monkeypatch.setattr(settings, "subjects", paths.SOLUTIONS)
    monkeypatch.setattr(settings, "targets", GPUS)
    for case in CASES[puzzle]:
        session.begin(case.id)
        # A launcher asks the GPU that it runs on, and here there is none.
        with runner.module_of(puzzle, case.level).puzzle.given(shared_memory=SHARED):
            case.function(**case.parameters)
