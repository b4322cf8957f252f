"""Right answers that are built otherwise than ours pass the puzzles' own tests.

tests/alternatives mirrors puzzles/. A case that rejects one of its files is too narrow, or the
judge is. Speed is not asked of them.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from judge.core import paths
from judge.core.settings import settings
from judge.core.verdict import NotMeasured
from judge.plugin import ladder
from judge.proof import runner

pytestmark = pytest.mark.proof

FOLDER = paths.ROOT / "tests" / "alternatives"
PUZZLES = sorted(f"{path.parent.name}/{path.stem}" for path in FOLDER.glob("*/*.py"))
# Compilation takes seconds each, and rejects by what these differ in from ours: grid, tiles, dots.
COMPILED = {"01_pointwise/vector_add", "07_matmul/tiled", "13_attention/flash_attention"}
CHECKS = [
    (puzzle, check)
    for puzzle in PUZZLES
    for check in ladder.CHECKS
    if check != "speedup" and (check != "compiles" or puzzle in COMPILED)
]


def test_they_are_many_and_of_many_chapters():
    assert len(PUZZLES) >= 12
    assert len({puzzle.split("/")[0] for puzzle in PUZZLES}) >= 8


def kernels(path: Path) -> set[str]:
    """What the kernels of this file do, without comments and layout."""
    functions = (it for it in ast.parse(path.read_text()).body if isinstance(it, ast.FunctionDef))
    return {ast.unparse(it.body) for it in functions if it.decorator_list}


@pytest.mark.parametrize("puzzle", PUZZLES)
def test_it_is_built_otherwise(puzzle):
    theirs, ours = kernels(FOLDER / f"{puzzle}.py"), kernels(paths.SOLUTIONS / f"{puzzle}.py")
    assert theirs - ours


@pytest.mark.parametrize(("puzzle", "check"), CHECKS)
def test_other_answer_passes(puzzle, check, monkeypatch):
    if check == "traffic" and not settings.interpreted:
        pytest.skip("seen in the interpreter only")
    monkeypatch.setattr(settings, "subjects", FOLDER)
    cases = [case for case in runner.cases_of(puzzle) if ladder.check_of(case.test) == check]
    assert cases
    for case in cases:
        try:
            case.run()
        except NotMeasured as reason:
            pytest.skip(str(reason))
