"""What is wrong in any kernel is found in each puzzle, and told for what it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from course.plugin import ladder
from course.proof import runner
from kernelgauge import kernel
from kernelgauge.core.settings import settings
from kernelgauge.words.fault import Fault
from tests.generated_mutants import VALUES, source_of, wrong_versions

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(not settings.interpreted, reason="seen in the interpreter"),
]

# What a first message must say: the kind of the fault, or the id of what is said or of the cause.
NAMED = {
    "promise": {"false-promise"},
    "order": {"race", "thread-race"},
    "state": {
        "not-own-memory", "no-launch", "wrong-after-other-sizes", "wrong-with-a-call-between",
    },
    "nan": {"nan-dropped", "nan-replaced", "nan-not-compared"},
    "inf": {"infinities-count", "undefined-avoided"},
    "largest": {"float16-overflows", "dtype-overflows", "overflow", "inf-minus-inf"},
    "subnormal": {"subnormals-count"},
    "minus_zero": {"product-with-0"},
}  # fmt: skip
# Where a tolerance lies around a result, these do not show.
EXACT = {"subnormal", "minus_zero"}
# Why a wrong version is not rejected, or does not get that message, by the end of its id.
UNREACHED: dict[str, tuple[str, ...]] = {}
LEFT_OUT = {id for ids in UNREACHED.values() for id in ids}


def ids(puzzle: str) -> Iterator[str]:
    """The wrong versions of a puzzle that must be found, as puzzle-kind-name."""
    exact = runner.module_of(puzzle, ladder.PRODUCTION).puzzle.rules.exact
    for kind, name in wrong_versions(puzzle):
        id = f"{puzzle}-{kind}-{name}"
        if id not in LEFT_OUT and (name not in EXACT or exact):
            yield id


def params() -> Iterator:
    """All, and one of each kind and chapter in the proof that runs on each change."""
    seen = set()
    for puzzle in ladder.ladder():
        for id in ids(puzzle):
            one = puzzle[:2], id.split("-")[1]
            marks = [pytest.mark.nightly] if one in seen else []
            seen.add(one)
            yield pytest.param(id, marks=marks, id=id)


def cases(puzzle: str, kind: str, name: str) -> list[runner.Case]:
    """Those that are to show it, the likeliest first."""
    every = runner.cases_of(puzzle, ladder.SOLVED, ladder.PRODUCTION)
    if kind == "value":
        special = [case for case in every if "special" in case.name]
        return [
            it for it in special if "each_special" not in it.name or it.name.endswith(f"-{name}]")
        ]
    checked = [it for it in every if ladder.check_of(it.test) in ("masks", "numerics")]
    checked = [it for it in checked if "limits" not in it.name and "32_bits" not in it.name]
    if kind == "promise":
        return [it for it in checked if ladder.check_of(it.test) == "masks"][::-1]
    return checked


def said(fault: Fault) -> set[str]:
    """The ids of what is said first, and of the cause."""
    cause = {fault.cause.note.id} if fault.cause else set()
    return {fault.kind, *(it.id for it in fault.said[:1])} | cause


@pytest.mark.parametrize("id", params())
def test_it_is_found_and_named(id, tmp_path, monkeypatch):
    puzzle, kind, name = id.split("-")
    function = runner.module_of(puzzle, ladder.PRODUCTION).puzzle.name
    with runner.graded(puzzle, source_of(puzzle, function, kind, name), tmp_path):
        for thorough in (False, True):
            monkeypatch.setattr(kernel, "is_thorough", lambda case, it=thorough: it)
            if fault := runner.first_fault(cases(puzzle, kind, name)):
                break
    assert fault, f"{id} is not rejected"
    assert said(fault[1].fault) & NAMED[name if name in VALUES else kind], str(fault[1])
