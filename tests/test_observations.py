"""kernelgauge.diagnosis.observations: what the failing cases of a kernel say together."""

from __future__ import annotations

import functools
import itertools
import math
import random
import re
from collections.abc import Sequence

import pytest
import torch

from course.proof import runner
from kernelgauge.core.settings import settings
from kernelgauge.diagnosis import observations, report
from kernelgauge.diagnosis.mistakes import named
from kernelgauge.diagnosis.observations import Observation, Right, diagnose
from kernelgauge.diagnosis.symptoms import GUESSES
from kernelgauge.diagnosis.wrong_result import Mistake, WrongResult
from kernelgauge.numerics.compare import compare
from kernelgauge.words import cause as cause_in_words
from kernelgauge.words import message
from kernelgauge.words.fault import CONSISTENT, PROVEN, SHOWN, Call, Cause, note
from tests.diagnosing import observed

X = torch.arange(1.0, 41.0, dtype=torch.float64).reshape(4, 10)
NOISE = torch.randn((4, 10), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
ELSE = 100 * NOISE
NAN = X * math.nan


def mistake(words: str, result: torch.Tensor, **numbers: float) -> Mistake:
    return Mistake(named(words, **numbers), lambda: result)


TWICE = mistake("x is added twice", 2 * X)
DOUBLED = mistake("the output is doubled", 2 * X)
THRICE = mistake("x is added three times", 3 * X)


def failing(got: torch.Tensor, *mistakes: Mistake, call: str = "x", **more) -> Observation:
    """Return what a case leaves whose result should have been X.

    call: of cases that are alike otherwise, the one with the first of these is looked at first
    """
    got = got.float()
    left = observed(got, X, compare(got, X, X), mistakes=mistakes, **more)
    left.fault = left.fault.but(call=Call("kernel.py", "f", call))
    return left


def causes(*cases: Observation, right: Sequence[Right] = ()) -> list[str]:
    return [cause_in_words(fault) for fault in diagnose(cases, right)]


def test_a_mistake_that_other_cases_confirm_wins_over_one_that_fits_this_case_alone():
    others = [failing(times * X, mistake("x is added twice", times * X)) for times in (2, 3)]
    told = causes(failing(2 * X, DOUBLED, TWICE, call=""), *others)
    assert told == ["x is added twice"] * 3


def test_a_mistake_that_is_confirmed_nowhere_and_contradicted_somewhere_is_refuted():
    refuted = failing(2 * X, TWICE), failing(ELSE, TWICE)
    assert "x is added twice" not in causes(*refuted)
    assert causes(failing(2 * X, TWICE, DOUBLED), failing(ELSE, TWICE))[0] == (
        "the output is doubled"
    )


def test_a_mistake_that_no_case_contradicts_comes_before_one_that_some_do():
    others = (
        failing(2 * X, TWICE, DOUBLED),
        failing(3 * X, TWICE, mistake("the output is doubled", 3 * X)),
    )
    told = causes(failing(2 * X, TWICE, DOUBLED, call=""), *others)
    assert told == ["the output is doubled"] * 3


def test_of_mistakes_that_some_cases_contradict_the_one_that_explains_most_is_named():
    others = (
        failing(2 * X, DOUBLED, TWICE),
        failing(2 * X, TWICE),
        failing(ELSE, DOUBLED, TWICE),
    )
    told = causes(failing(2 * X, DOUBLED, TWICE, call=""), *others)
    assert told == ["x is added twice"] * 3 + [""]


def test_a_mistake_that_other_cases_cannot_make_stands():
    impossible = Mistake(TWICE.cause, lambda: X.reshape(3))
    assert causes(failing(2 * X, TWICE), failing(ELSE, impossible))[0] == "x is added twice"
    assert causes(failing(2 * X, TWICE), failing(ELSE))[0] == "x is added twice"


def test_of_two_faults_each_group_of_cases_gets_its_own():
    both = TWICE, THRICE
    told = causes(*(failing(times * X, *both) for times in (2, 3, 2, 3, 2)))
    assert told == ["x is added twice", "x is added three times"] * 2 + ["x is added twice"]


def test_of_two_mistakes_that_give_a_result_the_one_that_gives_more_is_told():
    both = [failing(2 * X, TWICE, DOUBLED, call=call) for call in "ab"]
    told = causes(*both, *(failing(2 * X, DOUBLED, call=call) for call in "cd"))
    assert told == ["the output is doubled"] * 4


@pytest.mark.parametrize(("others", "told"), [(3, "x is added twice"), (4, "")])
def test_a_mistake_that_fits_one_of_many_cases_is_not_told(others, told):
    assert causes(failing(2 * X, TWICE), *[failing(ELSE)] * others)[0] == told


def test_a_mistake_counts_cases_that_another_one_explains_too():
    told = diagnose(
        [
            failing(2 * X, DOUBLED, call="a"),
            failing(2 * X, DOUBLED, mistake("x is added three times", 2 * X), call="b"),
            failing(3 * X, THRICE, call="c"),
        ]
    )
    assert [it.cause.note.key for it in told] == [DOUBLED.cause.key] * 2 + [THRICE.cause.key]
    assert [it.cause.explains for it in told] == [2, 2, 2]


def test_each_case_is_told_its_own_numbers():
    of_block = "blocks of {block} are counted twice"
    told = causes(*(failing(2 * X, mistake(of_block, 2 * X, block=size)) for size in (16, 32)))
    assert told == ["blocks of 16 are counted twice", "blocks of 32 are counted twice"]


def test_nan_everywhere_needs_a_case_with_numbers_that_confirms_its_mistake():
    nowhere = failing(NAN, mistake("x is added twice", NAN))
    assert "x is added twice" not in causes(nowhere, nowhere)
    told = diagnose([nowhere, failing(2 * X, TWICE)])
    assert [cause_in_words(fault) for fault in told] == ["x is added twice"] * 2
    assert [fault.cause.explains for fault in told] == [2, 2]


def test_nan_confirms_nothing():
    others = [failing(NAN, mistake("x is added twice", NAN)), failing(ELSE, TWICE)]
    assert "x is added twice" not in causes(failing(2 * X, TWICE), *others)


def test_infinity_in_all_wrong_elements_tells_no_mistake_and_nan_those_of_the_puzzle_alone():
    """Where a result overflows, so does a sum in fewer bits or of rounded inputs."""
    for value in (math.inf, math.nan):
        got = X.clone()
        got[:2] = value
        cast = Mistake(note("cast-on-the-way", tensors=["x"], dtype="bfloat16"), lambda it=got: it)
        assert "cast" not in causes(failing(got, cast))[0]
        own = causes(failing(got, mistake("the first rows are left out", got)))[0]
        assert ("first rows" in own) is math.isnan(value)


def test_what_one_case_alone_suggests_stands():
    told = diagnose([failing(2 * X, TWICE)])[0].cause
    assert (told.known, told.explains, told.of) == (PROVEN, 1, 1)
    assert "gives your result here)" in message(diagnose([failing(2 * X, TWICE)])[0])
    suggested = diagnose([failing(-X)])[0].cause
    assert (suggested.note.id, suggested.known) == ("subtraction-swapped", CONSISTENT)
    assert causes(failing(X / 10, inputs={"x": torch.zeros(3, 10)}))[0].startswith("one division")


@pytest.mark.parametrize(
    ("alike", "others", "said"),
    [
        (2, 0, "gives exactly your result, and so it does in 1 other case)"),
        (3, 0, "gives exactly your result, and so it does in 2 other cases)"),
        (3, 1, "and so it does in 2 other cases); it explains 3 of 4 wrong results"),
    ],
)
def test_the_words_say_how_many_cases_a_mistake_explains(alike, others, said):
    cases = [failing(2 * X, TWICE)] * alike + [failing(ELSE + k) for k in range(others)]
    told = diagnose(cases)[0]
    assert (told.cause.explains, told.cause.of) == (alike, alike + others)
    assert message(told).endswith(said)


def test_the_words_say_how_many_cases_show_a_pattern():
    told = diagnose([*(failing(-X) for _ in range(12)), failing(ELSE), failing(ELSE + 1)])[0]
    assert (told.cause.explains, told.cause.of) == (12, 14)
    assert message(told).endswith("it explains 12 of 14 wrong results")


A, B = (torch.randn(64, 64, generator=torch.Generator().manual_seed(k)) for k in range(2))
PRODUCT = A.double() @ B.double()


def accumulated(dtype: torch.dtype) -> torch.Tensor:
    """Return A @ B with its sum rounded after each step."""
    total = torch.zeros(64, 64, dtype=dtype)
    for k in range(0, 64, 4):
        total = total + (A[:, k : k + 4] @ B[k : k + 4]).to(dtype)
    return total


def guessed() -> Observation:
    """Return a case that suggests a guess."""
    case = failing(X / 10, inputs={"x": torch.zeros(3, 10)})
    assert [it.id for it in case.suggestions(0).strong if it.id in GUESSES] == ["division-too-many"]
    return case


@pytest.mark.parametrize(("alike", "told"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_guess_needs_half_of_the_other_failures(alike, told):
    cases = [guessed() for _ in range(1 + alike)] + [failing(ELSE + k) for k in range(3 - alike)]
    assert ("one division by 10 too many" in causes(*cases)[0]) is told


def test_a_pattern_is_told_unless_something_explains_more_cases():
    twice = [failing(2 * X, TWICE) for _ in range(3)]
    negated = [failing(-X) for _ in range(3)]
    swapped = cause_in_words(diagnose(negated)[0])
    assert causes(*twice, *negated) == ["x is added twice"] * 3 + [swapped] * 3
    assert causes(*twice, *negated[:2]) == ["x is added twice"] * 3 + [""] * 2
    rooted = [failing(X.square()) for _ in range(2)]
    assert causes(*negated, *rooted) == [swapped] * 3 + [""] * 2
    assert "" not in causes(*negated[:2], *rooted)


@pytest.mark.parametrize(("guesses", "told"), [(2, True), (3, False)])
def test_a_pattern_may_be_rarer_than_a_guess_and_has_a_third_of_the_cases(guesses, told):
    sign = cause_in_words(diagnose([failing(-X)])[0])
    assert (causes(failing(-X), *(guessed() for _ in range(guesses)))[0] == sign) is told


def test_a_guess_may_speak_of_another_dtype_in_another_case():
    first, *others = (
        observed(half, PRODUCT, compare(half, PRODUCT, PRODUCT.to(half.dtype)))
        for half in (
            accumulated(torch.float16),
            accumulated(torch.bfloat16),
            accumulated(torch.bfloat16),
        )
    )
    assert {it.suggestions(0).causes[0].id for it in (first, *others)} == {"few-bits"}
    assert "float16" in cause_in_words(diagnose([first, *others])[0])


def test_no_guess_is_told_where_a_mistake_is_proven():
    assert "one division by 10 too many" in causes(guessed(), guessed())
    assert "one division by 10 too many" not in causes(guessed(), guessed(), failing(2 * X, TWICE))


LEFT_OUT = "later tiles take what belongs to the first one"


def without_tiles(length: int, first: int) -> Observation:
    """Return a case whose columns from the first of these on are wrong, and have no pattern."""
    truth = torch.randn(4, length, generator=torch.Generator().manual_seed(length)).double()
    got = truth.clone()
    got[:, first:] = got[:, first:].flip(0, 1).exp()
    return observed(got.float(), truth, compare(got.float(), truth, truth))


def right(*shape: int, programs: int = 1) -> Right:
    return Right(programs, (torch.Size(shape),))


def test_tiles_that_are_right_in_another_case_are_not_left_out():
    cases = [without_tiles(length, 16) for length in (40, 64, 50)]
    assert all(LEFT_OUT in cause for cause in causes(*cases))
    others = [right(4, 16), right(4, 4, 17), right(4, 17, programs=2)]
    assert all(LEFT_OUT in cause for cause in causes(*cases, right=others))
    assert not any(LEFT_OUT in cause for cause in causes(*cases, right=[*others, right(4, 17)]))
    # What fails may be right there, too.
    further = [without_tiles(2 * first, first) for first in (16, 24, 32)]
    assert not any(LEFT_OUT in cause for cause in causes(*further))


def test_what_a_run_has_shown_stays():
    shown = Cause(note("order-matters"), SHOWN)
    told = diagnose([failing(2 * X, TWICE, known=shown), failing(2 * X, TWICE)])
    assert told[0].cause is shown
    assert (told[1].cause.note, told[1].cause.explains, told[1].cause.of) == (TWICE.cause, 1, 2)


def test_an_option_at_fault_is_told_where_no_strong_pattern_is():
    seen = []
    option = Cause(note("option-at-fault", name="eps", default=0, value=1), SHOWN)

    def at_fault(others):
        seen.append(list(others))
        return option

    case = failing(ELSE)
    case.at_fault = at_fault
    other = failing(ELSE + 1)
    other.values = {"eps": 2}
    assert diagnose([case, other])[0].cause is option
    assert seen == [[{"eps": 2}]]
    strong = failing(-X)
    strong.at_fault = at_fault
    assert diagnose([strong])[0].cause.note.id == "subtraction-swapped"


def of_two_results(first, second, mistakes, call: str = "") -> Observation:
    """Return a case of two results that should both be X; None stands for a right one."""
    wrong = {
        number: WrongResult(got.float(), X, compare(got.float(), X, X))
        for number, got in enumerate((first, second))
        if got is not None
    }
    number = min(wrong)
    mismatch = compare((first if number == 0 else second).float(), X, X)
    fault = report.facts(mismatch, None, None).but(call=Call("kernel.py", "f", call))
    return Observation(fault, number, wrong, lambda number: mistakes[number])


def test_results_of_different_numbers_are_not_mixed():
    made = {0: [TWICE], 1: [mistake("x is added twice", 3 * X)]}
    # That the second result is not twice X refutes nothing of the first.
    cases = of_two_results(2 * X, None, made), of_two_results(None, ELSE, made)
    assert causes(*cases) == ["x is added twice", ""]
    # What the same mistake makes of the second result is something else.
    cases = of_two_results(2 * X, None, made), of_two_results(None, 3 * X, made)
    assert causes(*cases) == ["x is added twice"] * 2
    # Also where a second result that is something else refuted the mistake at first.
    cases = of_two_results(2 * X, ELSE, made, "b"), of_two_results(None, 3 * X, made, "a")
    assert causes(*cases) == ["x is added twice"] * 2
    # Nor does the first result share a pattern with the second.
    cases = [of_two_results(X / 10, None, {0: [], 1: []})]
    cases += [of_two_results(None, ELSE + k, {0: [], 1: []}) for k in range(3)]
    assert "one division by 10 too many" in causes(*of_tens(cases))[0]
    # The second result is compared with second results.
    cases = [of_two_results(None, X / 10, {0: [], 1: []})]
    cases += [of_two_results(ELSE, X / 10, {0: [], 1: []}) for k in range(2)]
    assert "one division by 10 too many" in causes(*of_tens(cases))[0]


def of_tens(cases: list[Observation]) -> list[Observation]:
    """Return the cases with an input that has 10 columns."""
    for wrong in (wrong for case in cases for wrong in case.wrong.values()):
        wrong.inputs["x"] = torch.zeros(3, 10)
    return cases


def test_the_order_of_cases_does_not_change_what_is_named():
    halves = mistake("a half", X / 2)
    cases = [
        failing(2 * X, DOUBLED, TWICE, call="a"),
        failing(2 * X, DOUBLED, call="b"),
        failing(2 * X, TWICE, call="c"),
        failing(3 * X, THRICE, TWICE, call="d"),
        failing(NAN, mistake("x is added twice", NAN), call="e"),
        failing(X / 2, halves, THRICE, call="f"),
        failing(-X, DOUBLED, call="g"),
        failing(ELSE, THRICE, call="h"),
    ]

    def told(order):
        faults = diagnose([cases[at] for at in order])
        named = {
            at: fault.cause and fault.cause.plain() for at, fault in zip(order, faults, strict=True)
        }
        return [named[at] for at in range(len(cases))]

    first = told(range(len(cases)))
    assert {it["id"] for it in first if it} > {"mistake:a-half"}
    for seed in range(20):
        order = random.Random(seed).sample(range(len(cases)), len(cases))
        assert told(order) == first


def test_what_was_done_wrong_elsewhere_is_likelier():
    tried = []
    slow = Mistake(DOUBLED.cause, lambda: tried.append("slow") or 2 * X)
    cases = [
        failing(3 * X, mistake("x is added {k} times", 3 * X, k=3), call="a"),
        # No other case can tell whether it is the same mistake.
        of_two_results(
            None, 2 * X, {1: [slow, mistake("x is added {k} times", 2 * X, k=2)]}, call="b"
        ),
    ]
    assert causes(*cases) == ["x is added 3 times", "x is added 2 times"]
    assert not tried


@pytest.mark.parametrize("is_computed", [False, True])
def test_each_mistake_is_made_once(is_computed):
    made, computed = [], []

    def result(words):
        computed.append(words)
        return 2 * X if words == "three" else X + 9

    def mistakes(number):
        for words in ("one", "two", "three"):
            made.append(words)
            yield Mistake(named(words), functools.partial(result, words), is_computed=is_computed)

    cases = [failing(2 * X) for _ in range(3)]
    for case in cases:
        case.mistakes = mistakes
    assert causes(*cases) == ["three"] * 3
    assert made.count("three") == computed.count("three") == 3
    # The others need a result only of what the first found; one that exists is compared at once.
    assert computed.count("one") == (3 if is_computed else 1)


def test_a_computed_result_is_not_kept():
    result = 2 * X
    case = failing(2 * X)
    case.mistakes = lambda number: iter([Mistake(named("twice"), result.clone, is_computed=True)])
    (weighed,) = case.candidates(0)
    assert weighed.gives_it
    assert weighed.mistake.compute is not result.clone
    assert causes(case) == ["twice"]


def test_the_search_ends_in_time(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(observations.time, "process_time", lambda: float(next(clock)))
    tried = []

    def endless(number):
        for count in itertools.count():
            yield Mistake(named(f"mistake {count}"), lambda: tried.append(number) or 2 * X)

    cases = [failing(ELSE), failing(ELSE + 1)]
    for case in cases:
        case.mistakes = endless
    assert causes(*cases) == [""] * 2
    assert 10 < len(tried) < 2 * observations.MAX_SECONDS


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
def test_the_cases_of_a_puzzle_are_diagnosed_together(tmp_path):
    puzzle = "04_softmax/softmax"
    with runner.graded(puzzle, SOFTMAX, tmp_path):
        told = runner.first_told(runner.cases_of(puzzle))
    assert "masked lanes of x count as 0" in told.message
    assert "and so it does in" in told.message
    row = re.search(r"worst at \[(\d+), \d+\]", told.message)[1]
    line = SOFTMAX[: SOFTMAX.index("tl.store")].count("\n") + 1
    assert f"stored by: program ({row}, 0, 0) at " in told.message
    assert f"softmax.py:{line}  tl.store(y_ptr" in told.message


ROWS = torch.tensor([[-3.0, -1.0, -2.0, -5.0], [-4.0, -6.0, -2.0, -9.0], [1.0, 5.0, 2.0, 3.0]])


def searched(got: list[int], rows: torch.Tensor) -> Observation:
    """Return a case of an index of the largest value of each row."""
    truth = rows.argmax(1)
    result = torch.tensor(got)
    return observed(result, truth, compare(result, truth, truth), inputs={"x": rows})


def test_a_cause_that_explains_all_failures_or_none_is_not_told_of_some():
    negative = searched([0, 0, 1], ROWS)
    assert "starts from 0" in causes(negative)[0]
    assert "starts from 0" in causes(negative, searched([0, 0], -ROWS.abs()[:2]))[0]
    assert causes(negative, searched([0, 0, 0], ROWS)) == ["", ""]
