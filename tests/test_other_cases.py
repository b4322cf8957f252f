"""What other cases of a puzzle say of a diagnosis."""

from __future__ import annotations

import math
import re

import pytest
import torch
from kernelgauge.diagnosis.other_cases import Evidence, OtherCase

from course import inputs
from course.challenge import Challenge
from course.proof import runner
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.diagnosis import report
from kernelgauge.diagnosis.mistakes import named
from kernelgauge.diagnosis.wrong_result import Mistake, WrongResult
from kernelgauge.numerics.compare import compare
from kernelgauge.words import message

X = torch.arange(1.0, 41.0, dtype=torch.float64).reshape(4, 10)
TWICE = "x is added twice"
DOUBLED = named("the output is doubled")


def failing(got: torch.Tensor, *mistakes: Mistake) -> OtherCase:
    """A case whose result should have been X."""
    mismatch = compare(got.float(), X, X)
    return OtherCase("test_masks", {0: WrongResult(got.float(), X, mismatch)}, lambda _: mistakes)


def twice(number: int = 0) -> Mistake:
    """The mistake whose cause names a number of its case."""
    return Mistake(named(TWICE + ", from row {row}", row=number), lambda: 2 * X)


PASSING = OtherCase("test_shapes", {}, lambda _: [twice()])
CONFIRMS = failing(2 * X, twice())
CONTRADICTS = failing(X + 7, twice())
UNAWARE = failing(X + 7)


@pytest.mark.parametrize(
    ("cases", "confirmed", "contradicted"),
    [
        ([], 0, 0),
        ([PASSING, UNAWARE], 0, 0),
        ([CONFIRMS, CONFIRMS, PASSING], 2, 0),
        ([CONFIRMS, CONTRADICTS], 1, 1),
        ([CONTRADICTS, PASSING], 0, 1),
    ],
    ids=["none", "silent", "confirmed", "a_second_fault", "refuted"],
)
def test_a_mistake_is_weighed_against_other_failures(cases, confirmed, contradicted):
    weight = Evidence(0, lambda: cases).weigh(twice().cause)
    assert weight == (confirmed, contradicted)
    assert weight.refuted is (contradicted > confirmed)


def test_numbers_in_a_cause_may_differ_from_case_to_case():
    case = failing(2 * X, twice(5))
    assert Evidence(0, lambda: [case]).weigh(twice(12).cause).confirmed == 1


def test_a_mistake_that_is_impossible_there_says_nothing():
    impossible = Mistake(twice().cause, lambda: X.reshape(3))
    assert Evidence(0, lambda: [failing(X + 7, impossible)]).weigh(twice().cause) == (0, 0)


@pytest.mark.parametrize(("alike", "shown"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_guess_needs_half_of_the_other_failures(alike, shown):
    others = [failing(2 * X)] * alike + [failing(X + 7)] * (3 - alike)
    evidence = Evidence(0, lambda: others)
    guess = twice().cause
    assert evidence.shows(guess, lambda w: [guess] * bool((w.got == 2 * X).all())) is shown


def test_a_guess_stands_where_nothing_else_fails():
    assert Evidence(0, lambda: [PASSING]).shows(twice().cause, lambda wrong: [])


def described(*cases: OtherCase, mistakes: tuple[Mistake, ...] = ()) -> str:
    got = (2 * X).float()
    mismatch = compare(got, X, X)
    evidence = Evidence(0, lambda: list(cases))
    return message(report.describe(got, X, mismatch, mistakes=mistakes, evidence=evidence))


def test_the_message_says_how_many_other_cases_confirm():
    told = described(CONFIRMS, CONFIRMS, mistakes=(twice(),))
    assert "the reference gives exactly your result, and so it does in 2 other cases" in told
    assert "gives your result here" in described(mistakes=(twice(),))


def test_a_refuted_mistake_is_not_named_and_the_next_one_is():
    other = Mistake(DOUBLED, lambda: 2 * X)
    told = described(failing(X + 7, twice()), mistakes=(twice(), other))
    assert TWICE not in told
    assert "the output is doubled" in told


def test_a_mistake_that_no_case_contradicts_comes_before_one_that_some_do():
    other = Mistake(DOUBLED, lambda: 2 * X)
    others = (
        failing(2 * X, twice(), other),
        failing(3 * X, twice(), Mistake(other.cause, X.mul(3).clone)),
    )
    told = described(*others, mistakes=(twice(), other))
    assert TWICE not in told
    assert "the output is doubled" in told


def test_a_mistake_that_was_named_before_is_tried_first():
    tried = []
    first = Mistake(DOUBLED, lambda: tried.append("first") or 2 * X)
    evidence = Evidence(0, lambda: [failing(2 * X, twice(3))], [twice(5).cause])
    got = (2 * X).float()
    told = report.describe(
        got, X, compare(got, X, X), mistakes=iter((first, twice(8))), evidence=evidence
    )
    assert told.cause.note.key == twice().cause.key
    assert not tried


@pytest.mark.parametrize("confirms", [True, False])
def test_nan_everywhere_needs_a_case_that_confirms_its_mistake(confirms):
    nan = (X * math.nan).float()
    others = [failing(2 * X, twice())] * confirms
    told = report.describe(
        nan,
        X,
        compare(nan, X, X),
        mistakes=[Mistake(twice().cause, lambda: X * math.nan)],
        evidence=Evidence(0, lambda: others),
    )
    assert (TWICE in message(told)) is confirms


def test_a_strong_guess_needs_half_of_the_other_failures():
    got = (X / 10).float()
    inputs = {"x": torch.zeros(3, 10)}
    for others, before, said in (
        ([], [], True),
        ([failing(X + 7)], [], False),
        ([], [DOUBLED], False),
    ):
        evidence = Evidence(0, lambda o=others: o, before)
        told = report.describe(got, X, compare(got, X, X), inputs=inputs, evidence=evidence)
        assert ("one division by 10 too many" in message(told)) is said


def test_a_case_that_runs_apart_leaves_the_numbers_of_the_test_as_they_were():
    inputs.seed("tests/test_x.py::test_one")
    first = inputs.randn(3)
    expected = inputs.randn(3)
    inputs.seed("tests/test_x.py::test_one")
    assert torch.equal(inputs.randn(3), first)
    with inputs.apart("test_two"):
        assert inputs.current() == "test_two"
        assert not torch.equal(inputs.randn(3), first)
    assert inputs.current() == "test_one"
    assert torch.equal(inputs.randn(3), expected)


SOFTMAX = """
import torch, triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * N + cols, e / tl.sum(e, axis=0), mask=cols < N)


def softmax(x):
    y = torch.empty_like(x)
    softmax_kernel[(len(x),)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
"""


@pytest.mark.skipif(not settings.interpreted, reason="the same on a GPU, and slower")
def test_the_judge_runs_other_cases_before_it_names_a_cause(tmp_path):
    puzzle = "04_softmax/softmax"
    case = next(c for c in runner.cases_of(puzzle) if c.name == "test_masks[one_past_a_block]")
    with runner.graded(puzzle, SOFTMAX, tmp_path), pytest.raises(Wrong) as wrong:
        case.run()
    told = str(wrong.value)
    assert "masked lanes of x count as 0" in told
    assert "and so it does in" in told
    row = re.search(r"worst at \[(\d), \d+\]", told)[1]
    line = SOFTMAX[: SOFTMAX.index("tl.store")].count("\n") + 1
    assert f"stored by: program ({row}, 0, 0) at " in told
    assert f"softmax.py:{line}  tl.store(y_ptr" in told


@pytest.mark.skipif(not settings.interpreted, reason="the same on a GPU, and slower")
@pytest.mark.parametrize("before", [True, False], ids=["that passed before", "not run yet"])
def test_only_cases_that_may_tell_more_are_run_again(tmp_path, monkeypatch, before):
    puzzle = "04_softmax/softmax"
    found = {case.name: case for case in runner.cases_of(puzzle)}
    gather, again = Challenge._gather, []

    def noting(challenge, *given):
        again.append(inputs.current())
        gather(challenge, *given)

    monkeypatch.setattr(Challenge, "_gather", noting)
    passing = next(name for name in found if name.startswith("test_shapes"))
    with runner.graded(puzzle, SOFTMAX, tmp_path):
        if before:
            found[passing].run()
        with pytest.raises(Wrong):
            found["test_masks[one_past_a_block]"].run()
    assert again
    assert (passing in again) is not before
    assert "test_masks[one_past_a_block]" not in again
