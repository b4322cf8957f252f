"""Patterns of a wrong result, each tested by a computation on its wrong elements.

A detector takes a WrongResult and returns a Symptom or None. To add one, write the function and put
it into a table at the end: ALWAYS is tried as a whole, ELSE only if nothing in ALWAYS holds.
"""

from __future__ import annotations

import math
import time

import torch

from judge.core.dtypes import double, rounds
from judge.diagnosis.source import EXPONENTIALS
from judge.diagnosis.symptoms_index import never_larger, past_the_end, tie
from judge.diagnosis.symptoms_nonfinite import infinite, lost_nan, not_a_number, squares_overflow
from judge.diagnosis.symptoms_order import (
    mirrored,
    out_of_place,
    repeated,
    restarted,
    shifted,
    transposed,
)
from judge.diagnosis.symptoms_precision import (
    NEAR_ONE,
    NEARLY_RIGHT,
    approximated,
    cancelled,
    drifting,
    imprecise,
    narrower,
    row_sums,
    times,
    whole_numbers,
)
from judge.diagnosis.what_if import IMPOSSIBLE
from judge.diagnosis.wrong_result import MIN_WRONG, Symptom, WrongResult

MAX_SHOWN = 2
# For trying mistakes: a test that is too slow would be ended without a message.
MAX_SECONDS = 20.0
CONSTANT = "a constant that is left out or applied twice"


def find(result: WrongResult) -> list[Symptom]:
    """The few symptoms that say most, the best first."""
    if result.drift is not None:
        return [drifting(result)]
    for table in (ALWAYS, ELSE):
        found = [symptom for detect in table if (symptom := detect(result))]
        if found:
            strong = [symptom for symptom in found if symptom.strong]
            return strong[:1] or found[:MAX_SHOWN]
    return []


def mistake(result: WrongResult) -> Symptom | None:
    """The first mistake that would give this very result."""
    until = time.monotonic() + MAX_SECONDS
    for tried in result.mistakes:
        if time.monotonic() > until:
            return None
        try:
            alternative = double(tried.compute().detach().cpu())
        except IMPOSSIBLE:
            continue
        if result.is_made_by(alternative):
            return Symptom("", tried.sentence)
    return None


def zero(result: WrongResult) -> Symptom | None:
    if not (result.got[result.wrong] == 0).all() or not rounds(result.dtype):
        return None
    if result.wrong.sum() < MIN_WRONG:
        return None
    squares = not result.source.uses(EXPONENTIALS, otherwise=False)
    if squares and not result.got.any() and (large := squares_overflow(result)):
        return Symptom(
            f"the whole result is 0, where inputs reach {large:.4g}",
            f"an overflow: the square of {large:.4g} is infinite in float16; compute in float32",
        )
    if not result.got.any():
        return Symptom(
            "the whole result is 0",
            "a result that is stored before anything was added to it, or a mask or a factor that "
            f"is 0 throughout{result.stand_in}",
        )
    return Symptom(
        "all wrong elements are 0",
        "elements that no program stored, or a mask that drops what it should keep",
        strong=False,
    )


def constant(result: WrongResult) -> Symptom | None:
    values = result.got[result.wrong]
    if len(values) < MIN_WRONG or values[0] == 0 or not (values == values[0]).all():
        return None
    if not result.varied(result.truth[result.wrong]):
        return None
    return Symptom(
        f"all wrong elements are {values[0].item():.4g}",
        "a value that does not depend on the position: an index that leaves out an axis, or a "
        "value cut off at the end of a range",
        strong=False,
    )


def an_input(result: WrongResult) -> Symptom | None:
    for name, value in result.alike():
        if result.fits(value):
            return Symptom(
                f"the wrong elements are those of {name}",
                f"{name} stored as it was loaded",
                strong=result.everywhere,
            )
    return None


def factor(result: WrongResult) -> Symptom | None:
    ratio = result.typical(result.got / result.truth, result.wrong & (result.truth != 0))
    if ratio is None or ratio == 0 or not result.fits(ratio * result.truth):
        return None
    if abs(ratio + 1) < 1e-3:
        cause = "a difference taken the wrong way round"
        return Symptom("the sign is the other one", cause, strong=result.everywhere)
    name, cause = _named_ratio(result, ratio)
    look = f"the wrong elements are {name} times the expected ones"
    if cause is None and abs(ratio - 1) < NEAR_ONE:
        look, cause = f"the wrong elements are {times(ratio)} the expected ones", NEARLY_RIGHT
    if cause is None:
        if result.wrong.sum() <= MIN_WRONG:
            return None
        # Of one row, or of some, `by_row` says it, and does not take it for a constant.
        one_row = result.wrong.any(-1).sum() == 1
        if result.truth.dim() > 1 and (one_row or not result.everywhere):
            return None
        cause = CONSTANT
    return Symptom(look, cause, strong=result.everywhere)


def offset(result: WrongResult) -> Symptom | None:
    difference = result.typical(result.got - result.truth, result.wrong)
    if not isinstance(difference, float) or not result.fits(result.truth + difference):
        return None
    if result.wrong.sum() <= MIN_WRONG:
        return None
    if not result.varied(result.truth[result.wrong]):
        return None
    side = "large" if difference > 0 else "small"
    return Symptom(
        f"the wrong elements are all too {side} by {abs(difference):.4g}",
        "a constant term that is left out or counted twice",
        strong=result.everywhere,
    )


def input_off(result: WrongResult) -> Symptom | None:
    for name, value in result.alike():
        for sign, word in ((-1, "left out"), (1, "counted twice")):
            if result.fits(result.truth + sign * value):
                direction = "small" if sign < 0 else "large"
                return Symptom(
                    f"the wrong elements are too {direction} by {name}",
                    f"{name} {word}",
                    strong=result.everywhere,
                )
    return None


FUNCTIONS = (
    ("the square", torch.square, "a square root that is missing"),
    ("the square root", torch.sqrt, "a square root too many"),
    ("the reciprocal of the square", lambda x: x**-2, "a variance in place of its inverse root"),
    ("the reciprocal", torch.reciprocal, "a division taken the wrong way round"),
    ("the exponential", torch.exp, "a logarithm that is missing"),
    ("the logarithm", torch.log, "a logarithm too many"),
    ("the base-2 logarithm", torch.log2, "a logarithm too many"),
    ("the absolute value", torch.abs, "a sign that is lost"),
    ("the positive part", torch.relu, "negative values cut off"),
    ("the complex conjugate", torch.conj, "the sign of the imaginary part"),
)


def function_of_truth(result: WrongResult) -> Symptom | None:
    if result.wrong.sum() < MIN_WRONG:
        return None
    for name, function, cause in FUNCTIONS:
        if result.truth.is_complex() and function is torch.relu:
            continue
        if result.fits(function(result.truth)):
            return Symptom(f"the result is {name} of the expected one", cause)
    return None


def power(result: WrongResult) -> Symptom | None:
    """Rows of a softmax whose exponents are all scaled by one factor."""
    truth, got = result.truth, result.got
    if truth.dim() < 2 or truth.is_complex() or truth.shape[-1] < MIN_WRONG:
        return None
    usable = (truth > 1e-3 * truth.amax(-1, keepdim=True)) & (got > 0) & got.isfinite()
    if usable.double().mean() < 0.1 or not result.everywhere:
        return None
    many = usable.sum(-1, keepdim=True).clamp(min=1)

    def centred(values: torch.Tensor) -> torch.Tensor:
        logs = values.where(usable, 1.0).log()
        return (logs - logs.sum(-1, keepdim=True) / many).where(usable, 0.0)

    ours, theirs = centred(got), centred(truth)
    exponent = float((ours * theirs).sum() / theirs.square().sum())
    left = (ours - exponent * theirs).square().sum() / ours.square().sum()
    if not (exponent > 0 and abs(exponent - 1) > 0.02 and left < 1e-3):
        return None
    name, cause = _named_ratio(result, exponent, tolerance=0.01)
    return Symptom(
        f"each row is the expected one to the power of {name}, up to a factor",
        f"a wrong factor in the exponent: {cause or CONSTANT}",
    )


def by_row(result: WrongResult) -> Symptom | None:
    """Each row is off by a factor, or by a term, of its own."""
    truth = result.truth
    if truth.dim() < 2 or truth.is_complex() or not result.varied(result.got[result.wrong]):
        return None
    many = (result.wrong.sum(-1, keepdim=True) >= MIN_WRONG).expand(truth.shape)

    def middle(values: torch.Tensor) -> torch.Tensor:
        return values.where(result.wrong & values.isfinite(), math.nan).nanmedian(-1, True).values

    for word, guess in (
        ("factor", truth * middle(result.got / truth)),
        ("difference", truth + middle(result.got - truth)),
    ):
        if 2 * (result.wrong & many).sum() > result.wrong.sum() and result.fits(guess, many):
            return Symptom(
                f"each row is off by one {word} of its own",
                "a wrong value for the whole row: its sum, maximum, mean or variance"
                + result.stand_in,
                strong=result.everywhere,
            )
    return None


def miscounted(result: WrongResult) -> Symptom | None:
    got, truth = result.got, result.truth
    if rounds(result.dtype) or result.dtype == torch.bool or truth.dim() != 1:
        return None
    if truth.min() < 0 or got.min() < 0 or got.sum() == truth.sum() or result.index_of_row():
        return None
    look = f"the result sums to {got.sum():.0f}, expected {truth.sum():.0f}"
    if got.sum() < truth.sum():
        cause = "counts that are lost: adds that are not atomic, or a mask that drops elements"
    else:
        cause = "elements that are counted twice, or masked-off lanes that are counted too"
    return Symptom(look, cause, strong=False)


def swapped_parts(result: WrongResult) -> Symptom | None:
    if not result.truth.is_complex():
        return None
    if result.fits(torch.complex(result.truth.imag, result.truth.real)):
        return Symptom(
            "real and imaginary parts are swapped", "offsets of the two parts that are swapped"
        )
    return None


ALWAYS = (
    mistake,
    not_a_number,
    infinite,
    lost_nan,
    zero,
    input_off,
    an_input,
    swapped_parts,
    factor,
    function_of_truth,
    power,
    transposed,
    mirrored,
    shifted,
    repeated,
    restarted,
    tie,
    past_the_end,
    never_larger,
    cancelled,
    offset,
    by_row,
    narrower,
    out_of_place,
    constant,
    miscounted,
    whole_numbers,
)
ELSE = (row_sums, approximated, imprecise)


def _named_ratio(
    result: WrongResult, ratio: complex, tolerance: float = 4e-6
) -> tuple[str, str | None]:
    """What a factor is called, and what it comes from where it is one of those that are known."""
    if isinstance(ratio, complex):
        return f"{ratio:.4g}", None
    sizes = {n for x in (result.truth, *result.inputs.values()) for n in x.shape if n > 3}
    mixed = "exp and exp2, or log and log2, that do not go together"
    known = [
        (2.0, "2", "something that is counted twice"),
        (math.log2(math.e), "log2(e)", mixed),
        (math.log(2), "ln(2)", mixed),
    ]
    for n in sorted(sizes):
        known += [
            (n**0.5, f"{n} ** 0.5", f"a scale of {n} ** -0.5 that is left out"),
            (n**-0.5, f"{n} ** -0.5", f"a scale of {n} ** -0.5 that is applied twice"),
            (float(n), str(n), f"a division by {n} that is left out"),
            (1 / n, f"1 / {n}", f"a division by {n} too many"),
        ]
        block = 2 ** (n - 1).bit_length()
        pairs = [(n, block, f"{block} (the size of the block)")] if block > n else []
        if n > 15:
            pairs += [(n - 1, n, f"{n}"), (n, n - 1, f"{n - 1}")]
        for right, wrong, text in pairs:
            cause = f"a division by {text} in place of {right}"
            root = f"{right} and {text} taken for one another, in a division under a root"
            known += [
                (right / wrong, f"{right} / {wrong}", cause),
                ((right / wrong) ** 0.5, f"({right} / {wrong}) ** 0.5", root),
                ((wrong / right) ** 0.5, f"({wrong} / {right}) ** 0.5", root),
            ]
    value, name, cause = min(known, key=lambda known: abs(ratio / known[0] - 1))
    tolerance = max(result.eps / 4, tolerance)
    if abs(ratio / value - 1) < tolerance and abs(value - 1) > 4 * tolerance:
        return f"{name} = {value:.4g}" if name != f"{value:g}" else name, cause
    return f"{ratio:.4g}", None
