"""Detectors of patterns in a wrong result, each of which is a computation on its wrong elements.

A detector takes a WrongResult and returns a Symptom or None. To add one, write the function and put
it into a table at the end: if no mistake gives the result, all in ALWAYS are tried, and those in
ELSE if nothing in ALWAYS fits.
"""

from __future__ import annotations

import math
import time

import torch

from kernelgauge.core.dtypes import double, dtype_name, rounds
from kernelgauge.diagnosis import (
    symptoms_index,
    symptoms_nonfinite,
    symptoms_order,
    symptoms_precision,
)
from kernelgauge.diagnosis.other_cases import NO_EVIDENCE, Evidence
from kernelgauge.diagnosis.source import EXPONENTIALS
from kernelgauge.diagnosis.symptoms_precision import NEAR_ONE, NEARLY_RIGHT, times
from kernelgauge.diagnosis.what_if import IMPOSSIBLE
from kernelgauge.diagnosis.wrong_result import MIN_WRONG, Symptom, WrongResult

MAX_SHOWN = 2
# Trying mistakes stops after this time, or the test might hit its time limit without a message.
MAX_SECONDS = 20.0
# And after this, once a mistake is found that other cases say nothing of.
MAX_SECONDS_MORE = 2.0
CONSTANT = "a constant is left out or applied twice"
# Causes that fit many a result: they are told if other cases suggest them too.
GUESSES = (
    CONSTANT,
    NEARLY_RIGHT,
    "the mask of the last tile",
    "the grid or a loop ends too early",
    "a division by",
    "one division by",
    "the scale ",
    symptoms_precision.LOST_TERMS,
    symptoms_precision.FEW_BITS,
    symptoms_precision.ROW_IN_FEW_BITS,
)


def find(result: WrongResult, evidence: Evidence = NO_EVIDENCE) -> list[Symptom]:
    """Return the one or two symptoms that say most, the best first."""
    if result.drift is not None:
        return [symptoms_precision.drifting(result)]
    if made := mistake(result, evidence):
        return [made]
    for table in (ALWAYS, ELSE):
        found = [symptom for detect in table if (symptom := detect(result))]
        if found:
            strong = [symptom for symptom in found if symptom.strong]
            return strong[:1] or found[:MAX_SHOWN]
    return []


def mistake(result: WrongResult, evidence: Evidence = NO_EVIDENCE) -> Symptom | None:
    """Find a mistake that would give exactly this result, and that no other case refutes.

    The first that other cases confirm and none contradicts, or else the one that most confirm. Of a
    result without numbers, only one that a case with numbers confirms.
    """
    best, most = None, -1
    until = time.process_time() + MAX_SECONDS
    for candidate in evidence.likeliest_first(result.mistakes):
        if time.process_time() > until:
            break
        if candidate.changes_nothing:
            continue
        try:
            alternative = double(candidate.compute().detach().cpu())
        except IMPOSSIBLE:
            continue
        if not result.is_made_by(alternative):
            continue
        weight = evidence.weigh(candidate.cause)
        if weight.refuted or not (weight.confirmed or result.has_numbers):
            continue
        if weight.confirmed and not weight.contradicted:
            evidence.named.append(candidate.cause)
            return Symptom("", candidate.sentence(weight.confirmed))
        if weight.confirmed > most:
            best, most = Symptom("", candidate.sentence(weight.confirmed)), weight.confirmed
            until = min(until, time.process_time() + MAX_SECONDS_MORE)
    return best


def zero(result: WrongResult) -> Symptom | None:
    """Detect zeros, and whether squares that overflow explain them."""
    if not (result.got[result.wrong] == 0).all() or not rounds(result.dtype):
        return None
    if result.wrong.sum() < MIN_WRONG:
        return None
    if result.got.any():
        return Symptom(
            "all wrong elements are 0",
            "no program stores these elements, or a mask drops what it should keep",
            strong=False,
        )
    squares = not result.source.uses(EXPONENTIALS, otherwise=False)
    if squares and (large := symptoms_nonfinite.squares_overflow(result)):
        return Symptom(
            f"the whole result is 0, and inputs reach {large:.4g}",
            f"overflow: the square of {large:.4g} is infinite in float16; compute in float32",
        )
    cause = (
        "nothing is added to the result before it is stored, or what was stored is overwritten: a "
        "loop takes no turn, or a mask or a factor is 0 everywhere"
    )
    if symptoms_precision.may_be_lost_in_half(result, of=1.0):
        name = dtype_name(result.dtype)
        cause += f"; or a sum is accumulated in {name}, beside whose size single terms are lost"
    if result.source.uses(EXPONENTIALS, otherwise=False):
        cause += f"; or {symptoms_nonfinite.EMPTY_SUM}"
    return Symptom("the whole result is 0", cause + result.stand_in)


def sign_of_zero(result: WrongResult) -> Symptom | None:
    """Detect -0 in place of 0."""
    if not ((result.got == 0) & (result.truth == 0))[result.wrong].all():
        return None
    return Symptom(
        "the wrong elements are -0, where 0 is expected, or the other way round",
        "a product with 0: x * 0 is -0 where x is negative, and NaN where x is NaN; select with "
        "tl.where, or by the mask of the load",
    )


def an_input(result: WrongResult) -> Symptom | None:
    """Detect an input that was copied to the result."""
    for name, value in result.alike():
        if result.fits(value):
            return Symptom(
                f"the wrong elements are those of {name}",
                f"{name} is stored as it was loaded",
                strong=result.everywhere,
            )
    return None


def factor(result: WrongResult) -> Symptom | None:
    """Detect one factor on all wrong elements, and name its likely origin."""
    ratio = result.typical(result.got / result.truth, result.wrong & (result.truth != 0))
    if ratio is None or ratio == 0 or not result.fits(ratio * result.truth):
        return None
    if abs(ratio + 1) < 1e-3:
        cause = "the operands of a subtraction are swapped"
        return Symptom("the wrong elements have the wrong sign", cause, strong=result.everywhere)
    name, cause = _named_ratio(result, ratio)
    if cause is None and not result.varied(result.truth[result.wrong]):
        return None
    pattern = f"the wrong elements are {name} times the expected ones"
    if cause is None and abs(ratio - 1) < NEAR_ONE:
        pattern, cause = f"the wrong elements are {times(ratio)} the expected ones", NEARLY_RIGHT
    if cause is None:
        if result.wrong.sum() <= MIN_WRONG:
            return None
        # If it is one row, or some rows, `by_row` reports it, and not as a constant.
        one_row = result.wrong.any(-1).sum() == 1
        if result.truth.dim() > 1 and (one_row or not result.everywhere):
            return None
        cause = CONSTANT
    return Symptom(pattern, cause, strong=result.everywhere)


def offset(result: WrongResult) -> Symptom | None:
    """Detect one term added to all wrong elements."""
    difference = result.typical(result.got - result.truth, result.wrong)
    if not isinstance(difference, float) or not result.fits(result.truth + difference):
        return None
    if result.wrong.sum() <= MIN_WRONG or not result.varied(result.truth[result.wrong]):
        return None
    side = "large" if difference > 0 else "small"
    return Symptom(
        f"the wrong elements are all too {side} by {abs(difference):.4g}",
        "a constant term is left out or added twice",
        strong=result.everywhere,
    )


def input_off(result: WrongResult) -> Symptom | None:
    """Detect an input that was not added, or added once too often."""
    for name, value in result.alike():
        for sign, side, cause in ((-1, "small", "left out"), (1, "large", "added twice")):
            if result.fits(result.truth + sign * value):
                return Symptom(
                    f"the wrong elements are too {side} by {name}",
                    f"{name} is {cause}",
                    strong=result.everywhere,
                )
    return None


FUNCTIONS = (
    ("the square", torch.square, "a square root is missing"),
    ("the square root", torch.sqrt, "one square root too many"),
    (
        "the reciprocal of the square",
        lambda x: x**-2,
        "a variance is used instead of its inverse square root",
    ),
    ("the reciprocal", torch.reciprocal, "the operands of a division are swapped"),
    ("the exponential", torch.exp, "a logarithm is missing"),
    ("the logarithm", torch.log, "one logarithm too many"),
    ("the base-2 logarithm", torch.log2, "one logarithm too many"),
    ("the absolute value", torch.abs, "a sign is lost"),
    ("the positive part", torch.relu, "negative values are cut off"),
    ("the complex conjugate", torch.conj, "the sign of the imaginary part is wrong"),
)


def function_of_truth(result: WrongResult) -> Symptom | None:
    """Detect one of FUNCTIONS of the expected result."""
    if result.wrong.sum() < MIN_WRONG:
        return None
    # The reciprocals of large numbers are all about 0, which has many causes.
    varied = result.varied(result.got[result.wrong])
    for name, function, cause in FUNCTIONS:
        if function is torch.relu and result.truth.is_complex():
            continue
        if function is not torch.relu and not varied:
            continue
        if result.fits(function(result.truth)):
            return Symptom(f"the result is {name} of the expected one", cause)
    return None


def power(result: WrongResult) -> Symptom | None:
    """Detect rows of a softmax whose exponents are all scaled by one factor."""
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
    """Detect rows that are each off by one factor, or by one term."""
    truth = result.truth
    if truth.dim() < 2 or truth.is_complex() or not result.varied(result.got[result.wrong]):
        return None
    many = (result.wrong.sum(-1, keepdim=True) >= MIN_WRONG).expand(truth.shape)

    def middle(values: torch.Tensor) -> torch.Tensor:
        return values.where(result.wrong & values.isfinite(), math.nan).nanmedian(-1, True).values

    for word, guess in (
        ("factor", truth * middle(result.got / truth)),
        ("amount", truth + middle(result.got - truth)),
    ):
        if 2 * (result.wrong & many).sum() > result.wrong.sum() and result.fits(guess, many):
            cause = "a value that the whole row shares is wrong: its sum, maximum, mean or variance"
            if word == "factor" and symptoms_precision.may_be_lost_in_half(result):
                name = dtype_name(result.dtype)
                cause += f"; or a sum of it is accumulated in {name} instead of float32"
            return Symptom(
                f"all wrong elements of a row are off by the same {word}",
                cause + result.stand_in,
                strong=result.everywhere,
            )
    return None


def miscounted(result: WrongResult) -> Symptom | None:
    """Detect counts, of at most all elements of an input, whose total is wrong."""
    got, truth = result.got, result.truth
    if rounds(result.dtype) or result.dtype == torch.bool or truth.dim() != 1:
        return None
    if truth.min() < 0 or got.min() < 0 or got.sum() == truth.sum():
        return None
    if any(value.dim() == 2 and len(value) == len(truth) for value in result.inputs.values()):
        # One number for each row, such as an index.
        return None
    if truth.sum() > max((value.numel() for value in result.inputs.values()), default=0):
        return None
    pattern = f"the result adds up to {got.sum():.0f}, expected {truth.sum():.0f}"
    if got.sum() < truth.sum():
        cause = "counts are lost: the adds are not atomic, or a mask drops elements"
    else:
        cause = "elements are counted twice, or masked lanes are counted too"
    return Symptom(pattern, cause, strong=False)


def swapped_parts(result: WrongResult) -> Symptom | None:
    """Detect real and imaginary parts that were swapped."""
    if not result.truth.is_complex():
        return None
    if result.fits(torch.complex(result.truth.imag, result.truth.real)):
        cause = "the offsets of the two parts are swapped"
        return Symptom("real and imaginary parts are swapped", cause)
    return None


ALWAYS = (
    symptoms_nonfinite.not_a_number,
    symptoms_nonfinite.infinite,
    symptoms_nonfinite.lost_nan,
    sign_of_zero,
    zero,
    input_off,
    an_input,
    swapped_parts,
    factor,
    function_of_truth,
    power,
    symptoms_order.transposed,
    symptoms_order.restarted,
    symptoms_index.wrong_index,
    symptoms_precision.cancelled,
    offset,
    by_row,
    symptoms_precision.narrower,
    symptoms_order.out_of_place,
    miscounted,
    symptoms_precision.whole_numbers,
)
ELSE = (
    symptoms_precision.row_sums,
    symptoms_precision.approximated,
    symptoms_precision.imprecise,
)


def _named_ratio(
    result: WrongResult, ratio: complex, tolerance: float = 4e-6
) -> tuple[str, str | None]:
    """Return the name of a factor, and its origin if it is a known one."""
    if isinstance(ratio, complex):
        return f"{ratio:.4g}", None
    sizes = {n for x in (result.truth, *result.inputs.values()) for n in x.shape if n > 3}
    mixed = "exp is mixed with exp2, or log with log2"
    known = [
        (2.0, "2", "something is counted twice"),
        (math.log2(math.e), "log2(e)", mixed),
        (math.log(2), "ln(2)", mixed),
    ]
    for n in sorted(sizes):
        known += [
            (n**0.5, f"{n} ** 0.5", f"the scale {n} ** -0.5 is left out"),
            (n**-0.5, f"{n} ** -0.5", f"the scale {n} ** -0.5 is applied twice"),
            (float(n), str(n), f"a division by {n} is left out"),
            (1 / n, f"1 / {n}", f"one division by {n} too many"),
        ]
        block = 2 ** (n - 1).bit_length()
        pairs = [(n, block, f"{block} (the block size)")] if block > n else []
        if n > 15:
            pairs += [(n - 1, n, f"{n}"), (n, n - 1, f"{n - 1}")]
        for right, wrong, text in pairs:
            cause = f"a division by {text} instead of {right}"
            root = f"{right} and {text} are confused in a division under a square root"
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
