"""Detectors of patterns in a wrong result, each of which is a computation on its wrong elements.

A detector takes a WrongResult and returns a Symptom or None. To add one, write the function and put
it into a table at the end: if no mistake gives the result, all in ALWAYS are tried, and those in
ELSE if nothing in ALWAYS fits.
"""

from __future__ import annotations

import math

import torch

from kernelgauge.core.dtypes import dtype_name, rounds
from kernelgauge.diagnosis import (
    symptoms_index,
    symptoms_nonfinite,
    symptoms_order,
    symptoms_precision,
)
from kernelgauge.diagnosis.source import EXPONENTIALS
from kernelgauge.diagnosis.symptoms_precision import NEAR_ONE
from kernelgauge.diagnosis.wrong_result import MIN_WRONG, Symptom, WrongResult
from kernelgauge.words.fault import Note, note

MAX_SHOWN = 2
# Causes that fit many a result: they are told if other cases suggest them too.
GUESSES = frozenset(
    {
        "constant-wrong",
        "division-by-0-or-maximum",
        "division-left-out",
        "division-too-many",
        "divided-by-another",
        "divided-by-the-block",
        "factor-near-1-wrong",
        "few-bits",
        "handed-on-in-few-bits",
        "last-tile-wrong",
        "nothing-added",
        "row-in-few-bits",
        "row-value-wrong",
        "scale-applied-twice",
        "scale-left-out",
        "term-wrong",
        "terms-wrong",
        "tiles-left-out",
    }
)
# Causes that leave open in which line bits are lost.
FEW_BITS = frozenset(
    {
        "cast-too-soon",
        "few-bits",
        "handed-on-in-few-bits",
        "row-in-few-bits",
        "step-in-lower-precision",
    }
)
# Causes that leave open which terms are wrong, or what leaves nothing of them.
VAGUE = (GUESSES - FEW_BITS) | {
    "carry-missing",
    "counted-twice",
    "counts-lost",
    "counts-too-many",
    "diagonal-off-by-one",
    "formula-off",
    "holds-another",
    "no-guard",
    "not-stored",
    "nothing-left",
    "offsets-wrong",
    "rows-and-columns-swapped",
    "triangle-wrong",
    "unit-wrong",
}
# And those that tell when it is wrong, not where in the source.
OPEN = VAGUE | {
    "nan-of-an-input",
    "option-at-fault",
}
# Causes that make every failing case fail in the same way: not told where one fails otherwise.
SOLE = frozenset({"search-from-0"})
# What a run has shown, whatever the results of other cases suggest.
SHOWN = frozenset({"unset-element-loaded"})


def find(result: WrongResult) -> list[Symptom]:
    """Return the one or two symptoms that say most, the best first."""
    if result.drift is not None:
        return [symptoms_precision.drifting(result)]
    for table in (ALWAYS, ELSE):
        found = [symptom for detect in table if (symptom := detect(result))]
        if found:
            strong = [symptom for symptom in found if symptom.strong]
            return strong[:1] or found[:MAX_SHOWN]
    return []


def result_dropped(result: WrongResult) -> Symptom | None:
    """Name a computation whose result is not assigned to anything."""
    if (line := result.source.dropped) is None:
        return None
    return Symptom(None, note("result-dropped", line=line.number, source=line.text))


def added_to_itself(result: WrongResult) -> Symptom | None:
    """Name a tl.dot that adds to an accumulator which it is then added to."""
    if (line := result.source.doubled) is None:
        return None
    return Symptom(None, note("accumulator-doubled", line=line.number, source=line.text))


def zero(result: WrongResult) -> Symptom | None:
    """Detect zeros, and whether squares that overflow explain them."""
    if not (result.got[result.wrong] == 0).all() or not rounds(result.dtype):
        return None
    if result.wrong.sum() < MIN_WRONG:
        return None
    if result.got.any():
        return Symptom(note("wrong-are-0"), note("not-stored"), strong=False)
    squares = not result.source.uses(EXPONENTIALS, otherwise=False)
    if squares and (large := symptoms_nonfinite.squares_overflow(result)):
        pattern = note("result-is-0-of-large-inputs", large=large)
        return Symptom(pattern, note("square-overflows", large=large))
    others = []
    if symptoms_precision.may_be_lost_in_half(result, of=1.0):
        others.append(note("lost-beside-the-sum", dtype=dtype_name(result.dtype)))
    if result.source.uses(EXPONENTIALS, otherwise=False):
        others.append(note("empty-sum"))
    return Symptom(note("result-is-0"), note("nothing-added", others=others + result.stand_in))


def sign_of_zero(result: WrongResult) -> Symptom | None:
    """Detect -0 in place of 0."""
    if not ((result.got == 0) & (result.truth == 0))[result.wrong].all():
        return None
    return Symptom(note("sign-of-0"), note("product-with-0"))


def an_input(result: WrongResult) -> Symptom | None:
    """Detect an input that was copied to the result."""
    # A result of zeros is near any input that is small.
    if not result.varied(result.got[result.wrong]):
        return None
    for name, value in result.alike():
        if result.fits(value):
            cause = "stored-as-loaded" if name != result.name else "as-before-the-call"
            pattern = note("equal-to-input", name=name)
            return Symptom(pattern, note(cause, name=name), strong=result.everywhere)
    return None


def factor(result: WrongResult) -> Symptom | None:
    """Detect one factor on all wrong elements, and name its likely origin."""
    ratio = result.typical(result.got / result.truth, result.wrong & (result.truth != 0))
    if ratio is None or ratio == 0 or not result.fits(ratio * result.truth):
        return None
    if abs(ratio + 1) < 1e-3:
        swapped = note("subtraction-swapped")
        return Symptom(note("wrong-sign"), swapped, strong=result.everywhere)
    written, cause = _named_ratio(result, ratio)
    if cause is None and not result.varied(result.truth[result.wrong]):
        return None
    pattern = note("times-expected", factor=written)
    if cause is None and abs(ratio - 1) < NEAR_ONE:
        pattern, cause = note("nearly-expected", ratio=ratio), note("factor-near-1-wrong")
    if cause is None:
        if result.wrong.sum() <= MIN_WRONG:
            return None
        # If it is one row, or some rows, `by_row` reports it, and not as a constant.
        one_row = result.wrong.any(-1).sum() == 1
        if result.truth.dim() > 1 and (one_row or not result.everywhere):
            return None
        cause = note("constant-wrong")
    return Symptom(pattern, cause, strong=result.everywhere)


def offset(result: WrongResult) -> Symptom | None:
    """Detect one term added to all wrong elements."""
    difference = result.typical(result.got - result.truth, result.wrong)
    if not isinstance(difference, float) or not result.fits(result.truth + difference):
        return None
    if result.wrong.sum() <= MIN_WRONG or not result.varied(result.truth[result.wrong]):
        return None
    if not rounds(result.dtype) and not result.everywhere:
        # Some integers are off by one where others are right: no term is wrong, they are rounded.
        return None
    pattern = note("off-by-constant", difference=difference)
    return Symptom(pattern, note("term-wrong"), strong=result.everywhere)


def input_off(result: WrongResult) -> Symptom | None:
    """Detect an input that was not added, or added once too often."""
    for name, value in result.alike():
        for sign, pattern, cause in (
            (-1, "too-small-by-input", "left-out"),
            (1, "too-large-by-input", "added-twice"),
        ):
            if result.fits(result.truth + sign * value):
                said = note(pattern, name=name), note(cause, name=name)
                return Symptom(*said, strong=result.everywhere)
    return None


# Of each function the pattern, and the cause.
FUNCTIONS = (
    ("square-of-expected", torch.square, "square-root-missing"),
    ("square-root-of-expected", torch.sqrt, "square-root-too-many"),
    ("inverse-square-of-expected", lambda x: x**-2, "variance-for-rstd"),
    ("reciprocal-of-expected", torch.reciprocal, "division-swapped"),
    ("exponential-of-expected", torch.exp, "logarithm-missing"),
    ("logarithm-of-expected", torch.log, "logarithm-too-many"),
    ("log2-of-expected", torch.log2, "logarithm-too-many"),
    ("absolute-value-of-expected", torch.abs, "sign-lost"),
    ("positive-part-of-expected", torch.relu, "negative-cut-off"),
    ("conjugate-of-expected", torch.conj, "imaginary-sign-wrong"),
)


def function_of_truth(result: WrongResult) -> Symptom | None:
    """Detect one of FUNCTIONS of the expected result."""
    if result.wrong.sum() < MIN_WRONG:
        return None
    # The reciprocals of large numbers are all about 0, which has many causes.
    varied = result.varied(result.got[result.wrong])
    for pattern, function, cause in FUNCTIONS:
        if function is torch.relu and result.truth.is_complex():
            continue
        if function is not torch.relu and not varied:
            continue
        if result.fits(function(result.truth)):
            return Symptom(note(pattern), note(cause))
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
    written, cause = _named_ratio(result, exponent, tolerance=0.01)
    return Symptom(
        note("power-of-expected", exponent=written),
        note("exponent-wrong", cause=cause or note("constant-wrong")),
    )


def by_row(result: WrongResult) -> Symptom | None:
    """Detect rows that are each off by one factor, or by one term."""
    truth = result.truth
    if truth.dim() < 2 or truth.is_complex() or not result.varied(result.got[result.wrong]):
        return None
    many = (result.wrong.sum(-1, keepdim=True) >= MIN_WRONG).expand(truth.shape)

    def middle(values: torch.Tensor) -> torch.Tensor:
        return values.where(result.wrong & values.isfinite(), math.nan).nanmedian(-1, True).values

    for pattern, guess in (
        ("row-off-by-factor", truth * middle(result.got / truth)),
        ("row-off-by-amount", truth + middle(result.got - truth)),
    ):
        if 2 * (result.wrong & many).sum() > result.wrong.sum() and result.fits(guess, many):
            others = []
            if pattern == "row-off-by-factor" and symptoms_precision.may_be_lost_in_half(result):
                others.append(note("row-sum-in-few-bits", dtype=dtype_name(result.dtype)))
            cause = note("row-value-wrong", others=others + result.stand_in)
            return Symptom(note(pattern), cause, strong=result.everywhere)
    return None


def miscounted(result: WrongResult) -> Symptom | None:
    """Detect counts whose total is wrong."""
    got, truth = result.got, result.truth
    if not _may_be_counts(result) or got.min() < 0 or got.sum() == truth.sum():
        return None
    pattern = note("wrong-total", got=float(got.sum()), expected=float(truth.sum()))
    cause = "counts-lost" if got.sum() < truth.sum() else "counts-too-many"
    return Symptom(pattern, note(cause), strong=False)


def _may_be_counts(result: WrongResult) -> bool:
    """Return whether the result may count elements of an input, and is no number for each row."""
    truth, inputs = result.truth, result.inputs.values()
    if rounds(result.dtype) or result.dtype == torch.bool or truth.dim() != 1 or truth.min() < 0:
        return False
    if any(value.dim() == 2 and len(value) == len(truth) for value in inputs):
        # One number for each row, such as an index.
        return False
    return bool(truth.sum() <= max((value.numel() for value in inputs), default=0))


def swapped_parts(result: WrongResult) -> Symptom | None:
    """Detect real and imaginary parts that were swapped."""
    if not result.truth.is_complex():
        return None
    if result.fits(torch.complex(result.truth.imag, result.truth.real)):
        return Symptom(note("parts-swapped"), note("part-offsets-swapped"))
    return None


ALWAYS = (
    result_dropped,
    added_to_itself,
    symptoms_order.of_the_other_axis,
    symptoms_nonfinite.not_a_number,
    symptoms_nonfinite.infinite,
    symptoms_nonfinite.lost_nan,
    symptoms_nonfinite.lost_infinity,
    sign_of_zero,
    zero,
    symptoms_precision.cancelled,
    symptoms_precision.narrow_sum,
    input_off,
    an_input,
    swapped_parts,
    factor,
    function_of_truth,
    power,
    symptoms_order.transposed,
    symptoms_order.restarted,
    symptoms_order.carried_wrongly,
    symptoms_index.wrong_index,
    offset,
    by_row,
    symptoms_precision.narrower,
    symptoms_order.out_of_place,
    symptoms_order.of_another,
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
) -> tuple[Note, Note | None]:
    """Return a factor, by its name if it is a known one, and then its origin."""
    if isinstance(ratio, complex):
        return note("factor", value=ratio), None
    if not rounds(result.dtype) and not _may_be_counts(result):
        # An index is not made with a scale.
        return note("factor", value=ratio), _stride_of_an_input(result, ratio)
    sizes = {n for x in (result.truth, *result.inputs.values()) for n in x.shape if n > 3}
    mixed = note("bases-mixed")
    known = [
        (2.0, "2", note("counted-twice")),
        (math.log2(math.e), "log2(e)", mixed),
        (math.log(2), "ln(2)", mixed),
    ]
    for n in sorted(sizes):
        known += [
            (n**0.5, f"{n} ** 0.5", note("scale-left-out", n=n)),
            (n**-0.5, f"{n} ** -0.5", note("scale-applied-twice", n=n)),
            (float(n), str(n), note("division-left-out", n=n)),
            (1 / n, f"1 / {n}", note("division-too-many", n=n)),
        ]
        block = 2 ** (n - 1).bit_length()
        by_block = "divided-by-the-block", "root-of-the-block"
        by_another = "divided-by-another", "root-of-another"
        pairs = [(n, block, by_block)] if block > n else []
        if n > 15:
            pairs += [(n - 1, n, by_another), (n, n - 1, by_another)]
        for right, wrong, ids in pairs:
            cause, root = (note(id, right=right, wrong=wrong) for id in ids)
            known += [
                (right / wrong, f"{right} / {wrong}", cause),
                ((right / wrong) ** 0.5, f"({right} / {wrong}) ** 0.5", root),
                ((wrong / right) ** 0.5, f"({wrong} / {right}) ** 0.5", root),
            ]
    value, name, cause = min(known, key=lambda known: abs(ratio / known[0] - 1))
    tolerance = max(result.eps / 4, tolerance)
    if abs(ratio / value - 1) < tolerance and abs(value - 1) > 4 * tolerance:
        return note("factor", value=value, name=name), cause
    return note("factor", value=ratio), None


def _stride_of_an_input(result: WrongResult, ratio: float) -> Note | None:
    """Return that an index is that of a place in memory, where the columns lie so far apart."""
    for name, value in result.inputs.items():
        if value.dim() > 1 and value.stride(-1) == ratio > 1:
            return note("index-made-with-strides", name=name, stride=ratio, dim=value.dim() - 1)
    return None
