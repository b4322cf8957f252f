"""No verdict and no cause depends on the order of tests, on what else runs, or on the workers."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys

import pytest

from course.paths import ROOT
from course.plugin import ladder, scheduling
from course.proof import mutants, runner
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured, Verdict, Wrong
from kernelgauge.kernel import is_thorough
from tests import cheat_table, sampling
from tests.test_cheats import CHEATS, FOLDER
from tests.test_diagnoses import MUTANTS, ON_EACH_CHANGE

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(not settings.interpreted, reason="the same on a GPU, and slower"),
]

NOT_HERE = {"race", "gpu"}


def graded(cases: list[runner.Case]) -> dict[str, tuple]:
    """Grade these cases in this order. Returns verdict and cause of each."""
    found: dict[str, tuple] = {}
    wrong: list[tuple[runner.Case, Wrong]] = []
    for case in cases:
        try:
            case.run(defers=True)
            found[case.name] = ("passed",)
        except NotMeasured:
            continue
        except Wrong as verdict:
            wrong.append((case, verdict.without_traceback()))
        except Verdict as verdict:
            found[case.name] = (type(verdict).__name__,)
    wrong.sort(key=lambda it: it[0].name)
    for failure in runner.failures_of(wrong):
        found[failure.test] = (failure.kind, failure.told["key"], failure.reason)
    return found


def assert_same_in_three_orders(puzzle: str, source: str, folder) -> dict[str, tuple]:
    with runner.graded(puzzle, source, folder):
        # Whether a kernel compiles takes long to find out, and depends on nothing else.
        cases = [it for it in runner.cases_of(puzzle) if ladder.check_of(it.test) != "compiles"]
        shuffled = random.Random(puzzle).sample(cases, len(cases))
        first, *others = (graded(order) for order in (cases, cases[::-1], shuffled))
        alone = {name for name in first if name in random.Random(1).sample([*first], 1)}
        single = graded([case for case in cases if case.name in alone])
    for other in others:
        assert other == first
    # A case by itself has the same verdict; what it says of a cause may be less.
    assert [found[0] for found in single.values()] == [first[name][0] for name in single]
    return first


# Each is graded some four times: those of the longer files would reach the time limit.
SAMPLE = [mutant for mutant in MUTANTS if mutant.puzzle < "11"][::3]


@pytest.mark.parametrize("mutant", sampling.params(SAMPLE, one_in=ON_EACH_CHANGE))
def test_a_mutant_in_three_orders(mutant, tmp_path):
    found = assert_same_in_three_orders(mutant.puzzle, mutant.source(), tmp_path)
    assert any(verdict[0] != "passed" for verdict in found.values())


@pytest.mark.parametrize("cheat", sampling.names(CHEATS, one_in=3))
@pytest.mark.filterwarnings("ignore:Dynamo does not know")
def test_a_cheat_in_three_orders(cheat, tmp_path, monkeypatch):
    header = cheat_table.read(FOLDER / f"{cheat}.py")
    puzzle, source = header.puzzle, header.path.read_text()
    if header.mode in NOT_HERE:
        pytest.skip("needs a race or a GPU")
    honest = ROOT / "reference" / "solutions" / f"{puzzle}.py"
    (tmp_path / "honest.py").write_text(honest.read_text())
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "honest", raising=False)
    found = assert_same_in_three_orders(puzzle, source, tmp_path)
    assert any(verdict[0] not in ("passed", "Unsolved") for verdict in found.values())


@pytest.mark.parametrize(
    "puzzle", sorted({mutant.puzzle for file in mutants.FOLDER.glob("*.toml")
                      for mutant in mutants.read(file)})
)  # fmt: skip
def test_some_cases_of_each_puzzle_run_on_other_contents_first(puzzle):
    """Their names choose them, and could choose none."""
    checks = ("shapes", "masks", "numerics")
    cases = [case for case in runner.cases_of(puzzle) if ladder.check_of(case.test) in checks]
    assert any(is_thorough(case.id) for case in cases)


def of_workers(folder, workers: str) -> dict[str, tuple]:
    """Run pytest with so many workers. Returns verdict, kind, cause and message of each test."""
    data = folder / f"{workers.replace(' ', '')}.json"
    files = "puzzles/04_softmax/test_softmax.py puzzles/02_indexing/test_transpose.py"
    command = [sys.executable, "-m", "pytest", *shlex.split(f"{files} {workers}"), "-q", "-p"]
    command += ["no:cacheprovider", "--subject", str(folder / "handed_in"), "--json", str(data)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    (report,) = json.loads(data.read_text())["reports"]
    return {
        f"{puzzle['name']}::{check['test']}": (check["verdict"], check["fault"], check["message"])
        for puzzle in report["puzzles"]
        for check in puzzle["checks"]
    }


@pytest.mark.commands
def test_one_two_and_four_workers_find_the_same(tmp_path):
    for puzzle in ("04_softmax/softmax", "02_indexing/transpose"):
        file = mutants.FOLDER / f"{puzzle.partition('/')[0]}.toml"
        mutant = next(it for it in mutants.read(file) if it.puzzle == puzzle)
        path = tmp_path / "handed_in" / f"{puzzle}.py"
        path.parent.mkdir(parents=True)
        path.write_text(mutant.source())
    alone, *others = (of_workers(tmp_path, n) for n in ("-n 0", "-n 1", "-n 2", "-n 4"))
    assert any(fault for _, fault, _ in alone.values())
    for other in others:
        assert other == alone


@pytest.mark.parametrize(
    ("nodeid", "scope"),
    [
        ("puzzles/04_softmax/test_softmax.py::test_masks[a]", "puzzles/04_softmax/test_softmax.py"),
        (
            "tests/test_mutants.py::test_mutant_is_caught[07_matmul/tiled-x]",
            "tests/test_mutants.py[07_matmul/tiled",
        ),
        ("tests/test_speed.py::test_a", "tests/test_speed.py::test_a"),
    ],
)
def test_one_process_runs_all_tests_of_a_puzzles_file(nodeid, scope):
    assert scheduling.scope(nodeid) == scope
