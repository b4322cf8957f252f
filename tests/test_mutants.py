"""Each wrong version of a solution fails the puzzle's own tests, for the right reason."""

from __future__ import annotations

import pytest

from course.proof import mutants, runner
from kernelgauge import kernel
from kernelgauge.core.settings import settings
from tests import sampling

pytestmark = pytest.mark.proof

FILES = sorted(mutants.FOLDER.glob("*.toml"))
MUTANTS = [mutant for path in FILES for mutant in mutants.read(path)]


@pytest.mark.parametrize("mutant", sampling.params(MUTANTS, one_in=6))
def test_mutant_is_caught(mutant, tmp_path, monkeypatch):
    source = mutant.source()
    if not mutant.seen_here:
        pytest.skip("seen elsewhere only, on a GPU or in the interpreter")
    cases = [case for case in runner.cases_of(mutant.puzzle, mutant.level) if mutant.concerns(case)]
    assert cases, f"{mutant.puzzle} has no test {mutant.test} of its {mutant.check}"
    with runner.graded(mutant.puzzle, source, tmp_path):
        # In the interpreter one case in three is called on other contents too. What others do not
        # show, those must; their names choose them, and so each of these is tried as such a case.
        for thorough in (False, True) if settings.interpreted else (True,):
            with monkeypatch.context() as patch:
                patch.setattr(kernel, "is_thorough", lambda case, it=thorough: it)
                fault = runner.first_fault(cases)
            if fault and mutant.message in str(fault[1]):
                break
    tried = ", ".join(case.name for case in cases)
    assert fault, f"{mutant.name} survived {tried}: the tests of {mutant.puzzle} have a hole"
    message = str(fault[1])
    assert mutant.message in message, f'{mutant.name} fails, but not with "{mutant.message}"'
