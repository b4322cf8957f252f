"""Which tests are collected for what was typed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from course.paths import PUZZLES, ROOT
from course.plugin import selection

CHAPTER = "puzzles/01_pointwise"


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(
    ("given", "both", "collected"),
    [
        (CHAPTER, False, [CHAPTER]),
        (CHAPTER, True, [CHAPTER]),
        (f"{CHAPTER}/swish.py", False, [f"{CHAPTER}/test_swish.py"]),
        (
            f"{CHAPTER}/swish.py",
            True,
            [f"{CHAPTER}/test_swish.py", f"{CHAPTER}/production/test_swish.py"],
        ),
        (
            f"{CHAPTER}/test_swish.py::test_speedup",
            True,
            [
                f"{CHAPTER}/test_swish.py::test_speedup",
                f"{CHAPTER}/production/test_swish.py::test_speedup",
            ],
        ),
        (
            f"{CHAPTER}/test_swish.py::test_nowhere",
            True,
            [f"{CHAPTER}/test_swish.py::test_nowhere"],
        ),
        ("course/inputs.py", True, ["course/inputs.py"]),
        ("tests/test_inputs.py", True, ["tests/test_inputs.py"]),
    ],
)
def test_arguments(given, both, collected):
    assert list(selection.arguments([given], both)) == collected


def test_the_second_level_is_hidden_until_it_is_asked_for():
    folder = PUZZLES / "01_pointwise" / "production"
    assert selection.is_hidden(folder, [CHAPTER], both_levels=False)
    assert not selection.is_hidden(folder, [CHAPTER], both_levels=True)
    assert not selection.is_hidden(folder, [f"{CHAPTER}/production"], both_levels=False)
    assert not selection.is_hidden(folder, [f"{CHAPTER}/production/test_swish.py"], False)
    assert not selection.is_hidden(PUZZLES / "01_pointwise", [CHAPTER], both_levels=False)


def item(path: str, proof: bool = False) -> SimpleNamespace:
    mark = "proof" if proof else None
    return SimpleNamespace(path=Path(path).resolve(), get_closest_marker=lambda name: mark)


def test_items_climb_the_ladder():
    files = [f"{CHAPTER}/production/test_vector_add.py", "puzzles/02_indexing/test_triu.py"]
    files += [f"{CHAPTER}/test_vector_add.py", f"{CHAPTER}/test_vector_copy.py"]
    ordered = [it.path.relative_to(PUZZLES) for it in selection.in_order(map(item, files))]
    assert [str(path) for path in ordered] == [
        "01_pointwise/test_vector_copy.py",
        "01_pointwise/test_vector_add.py",
        "01_pointwise/production/test_vector_add.py",
        "02_indexing/test_triu.py",
    ]


def test_the_proof_runs_where_it_is_asked_for():
    plain, proof = item("tests/test_inputs.py"), item("tests/test_mutants.py", proof=True)
    both = [plain, proof]
    assert selection.split_proof(both, proof=False, given=["tests"]) == ([plain], [proof])
    assert selection.split_proof(both, proof=True, given=["tests"]) == ([proof], [plain])
    assert selection.split_proof(both, False, ["tests/test_mutants.py::test_x"]) == (both, [])
