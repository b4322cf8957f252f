"""Symptoms of NaN and infinity: see symptoms.py."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

import torch

from kernelgauge.core.dtypes import rounds
from kernelgauge.diagnosis.source import EXPONENTIALS
from kernelgauge.diagnosis.wrong_result import Symptom, WrongResult, largest_size
from kernelgauge.memory.nonfinite import MASKED

FLOAT16_MAX, FLOAT32_MAX = 65504.0, 3.4028e38
LOG2_E = 1.442695

UNDEFINED = "inf - inf, inf / inf or 0 * inf"
EMPTY_SUM = (
    "every exp is 0 if more than the largest value is subtracted; start the maximum at -inf, and "
    "let masked lanes hold -inf"
)
SCALED_TOO_SOON = (
    "a value this large is multiplied by log2(e), and float32 holds at most 3.4e38: subtract the "
    "row's largest value first, then scale"
)


# What an operation that made NaN or infinity means: a pattern of it, and the cause.
MEANINGS = (
    (r"-?0 / -?0$", "0 / 0, which is NaN"),
    (
        r"-inf - -inf$",
        "inf - inf, which is NaN: where the largest value of a row or a tile is -inf, subtract 0 "
        "instead of it",
    ),
    (r"inf [-+] -?inf$", "inf - inf, which is NaN"),
    (r"(0 \* -?inf|-?inf \* 0)$", "0 * inf, which is NaN"),
    (r"-?inf / -?inf$", "inf / inf, which is NaN"),
    (r"\S+ / -?0$", "a division by 0"),
    (
        r"exp2?\(inf\)",
        "exp of inf: the difference before it is the wrong way round, or -inf is subtracted; a "
        "running sum is rescaled by exp(old maximum - new maximum)",
    ),
    (
        r"r?sqrt\(-",
        "the square root of a negative number: a mean of squares minus the square of the mean can "
        "be negative",
    ),
    (r"rsqrt\(0\)", "the reciprocal square root of 0: eps belongs under the root"),
    (r"log2?\(-?0\)", "the logarithm of 0, which is -inf"),
    (r"log2?\(-", "the logarithm of a negative number"),
    (
        r"exp2?\(",
        "overflow: exp is infinite in float32 above 88, exp2 above 128; before exp, subtract the "
        "row's largest value",
    ),
    (
        r"\S+ as float16$|[^0]\S* [-+*/] \S+ in float16$",
        "overflow: float16 holds at most 65504; compute in float32",
    ),
    (r"\S+ [-+*/] \S+$|tl.dot", "overflow: this is more than the dtype of the operands holds"),
)


def from_its_origin(result: WrongResult, pattern: str) -> Symptom | None:
    """Return what the operation means that made NaN or infinity, if one was seen to make it."""
    operation = result.origin.operation if result.origin else ""
    made = result.origin.said.values["operation"] if result.origin and result.origin.said else ""
    if result.origin and result.origin.is_loaded:
        return _loaded(result, pattern)
    cause = next((cause for test, cause in MEANINGS if re.match(test, operation)), None)
    if cause is None:
        return None
    if operation.startswith("log") and re.match(r"-?0 \* -inf|-inf \* -?0( |$)", made):
        cause = "0 * log(0) is 0 * -inf, which is NaN, although its limit is 0"
        return Symptom(pattern, cause)
    if cause.startswith(("0 / 0", "the logarithm of 0")):
        if result.source.uses(EXPONENTIALS, otherwise=False):
            cause += f": a mask or a loop leaves nothing of a row or tile, or {EMPTY_SUM}"
            cause += result.stand_in
        else:
            cause += ": the divisor needs a guard, or a mask leaves nothing of a row or tile"
    if operation.startswith("exp") and result.shifted and "inf" not in operation:
        cause = (
            "overflow: exp is infinite in float32 above 88, exp2 above 128; what is subtracted "
            "before is not the largest value"
        )
    return Symptom(pattern, cause)


def _loaded(result: WrongResult, pattern: str) -> Symptom:
    """Say of NaN that was loaded whether it was a masked lane's, an input's or nobody's."""
    assert result.origin
    if result.origin.operation == MASKED:
        cause = "a masked lane that was loaded without `other=` reaches the result"
    elif result.origin.unset:
        cause = (
            f"NaN was loaded from memory that nothing was stored to: {result.origin.unset}, where "
            "torch.empty leaves what was there before"
        )
    elif any(value.isnan().any() for value in result.inputs.values() if rounds(value.dtype)):
        cause = (
            "NaN of an input reaches what it should not: 0 * NaN is NaN, so leave it out by "
            "tl.where or by the mask of the load"
        )
    else:
        cause = "NaN was loaded from memory that nothing was stored to"
    return Symptom(pattern, cause)


def not_a_number(result: WrongResult) -> Symptom | None:
    """Detect NaN that is not expected."""
    hit = result.got.isnan() & ~result.truth.isnan()
    if not hit.any():
        return None
    pattern = f"{_count(hit)} NaN"
    if (hit == result.wrong).all():
        pattern = "all wrong elements are NaN"
    if seen := from_its_origin(result, pattern):
        return seen
    if below := _far_below(result, hit):
        cause = f"0 / 0: {EMPTY_SUM}"
        if _scaled_is_infinite(result, below):
            cause += f"; or {SCALED_TOO_SOON}"
        cause += result.stand_in
        return Symptom(f"{pattern}, where no input is above {below:.3g}", cause)
    if large := _large_inputs(result, hit):
        scaled = result.shifted and _scaled_is_infinite(result, large)
        cause = f"overflow: {SCALED_TOO_SOON}" if scaled else _overflow(result, large)
        return Symptom(f"{pattern}, where inputs reach {large:.3g}", cause)
    if kind := _infinite_inputs(result, hit):
        cause = f"{UNDEFINED}, each of which is NaN"
        if result.truth.dim() > 1 and kind == "-inf":
            cause = (
                "inf - inf, which is NaN: where the largest value of a row or a tile is -inf, "
                "subtract 0 instead of it"
            )
        return Symptom(f"{pattern}, where inputs are {kind}", cause)
    if result.dtype == torch.bfloat16:
        numbers = (x for x in result.inputs.values() if rounds(x.dtype))
        largest = max(map(largest_size, numbers), default=0.0)
        if largest > FLOAT16_MAX:
            cause = "a cast to float16, which is infinite above 65504"
            return Symptom(f"{pattern}, and inputs reach {largest:.3g}", cause)
    cause = f"memory that nothing was stored to, or {UNDEFINED}"
    if result.anything:
        cause = f"a masked lane that was loaded without `other=` and reached the result, {cause}"
    else:
        cause += ": a value overflows its dtype, or a mask leaves nothing of a row or tile"
    return Symptom(pattern, cause, strong=False)


def infinite(result: WrongResult) -> Symptom | None:
    """Detect infinity where a finite value is expected."""
    hit = result.wrong & result.got.isinf() & result.truth.isfinite()
    if not hit.any():
        return None
    pattern = f"{_count(hit)} infinite"
    if seen := from_its_origin(result, pattern):
        return seen
    if below := _far_below(result, hit):
        cause = f"a logarithm of 0, or a division by it: {EMPTY_SUM}"
        return Symptom(f"{pattern}, where no input is above {below:.3g}", cause)
    large = _large_inputs(result, hit)
    if large or result.dtype == torch.float16:
        cause = _overflow(result, large or 0.0)
    else:
        cause = "a division by zero, or a running maximum that was never updated"
    return Symptom(pattern, cause, strong=bool(large))


def lost_nan(result: WrongResult) -> Symptom | None:
    """Detect expected NaN that is missing."""
    hit = result.truth.isnan() & ~result.got.isnan()
    if not hit.any():
        return None
    pattern = f"{_count(hit)} not NaN where NaN is expected"
    kind = _infinite_inputs(result, hit)
    if kind and not any(rows.any() for _, rows in _rows_with(result, hit, torch.isnan)):
        return Symptom(
            f"{pattern}, and inputs are {kind}, not NaN",
            "inf - inf, inf / inf, 0 * inf or 0 / 0 is avoided, although its NaN is expected here",
        )
    return Symptom(
        pattern,
        "a maximum, minimum or comparison drops NaN: tl.maximum keeps it only if asked to",
    )


def squares_overflow(result: WrongResult) -> float | None:
    """Return the largest input if each row of some float16 input has a square beyond float16."""
    if result.dtype != torch.float16:
        return None
    for value in result.inputs.values():
        rows = result.rows_of(value) if rounds(value.dtype) else None
        if rows is not None and rows.isfinite().all() and (rows.square() > FLOAT16_MAX).all():
            return float(rows.max())
    return None


def _count(hit: torch.Tensor) -> str:
    count = int(hit.sum())
    return f"{count} of the wrong elements {'is' if count == 1 else 'are'}"


def _scaled_is_infinite(result: WrongResult, value: float) -> bool:
    """Return whether a kernel that takes exp2 may have scaled this value beyond float32."""
    scales = result.source.uses({"exp2"}, otherwise=False)
    return scales and abs(value) * LOG2_E > FLOAT32_MAX


def _limit(result: WrongResult) -> float:
    """Return the input above which exp, or a sum of products in float16, overflows."""
    return 11.0 if result.dtype == torch.float16 else 88.0


def _overflow(result: WrongResult, large: float) -> str:
    """Return the cause of an overflow where inputs reach this size."""
    half = result.dtype == torch.float16
    # Too large for float16 alone.
    early = half and not (result.exponentials and large > 88)
    limits = []
    if half:
        limits.append("float16 holds at most 65504")
    elif large > 1.8e19:
        limits.append("float32 holds at most 3.4e38, which a square exceeds above 1.8e19")
    elif large > FLOAT16_MAX:
        limits.append("a cast to float16 is infinite above 65504")
    elif not result.exponentials:
        limits.append("a product in float16 is infinite above 65504")
    if result.exponentials and not (result.shifted and limits):
        limits.append(
            "exp exceeds that above 11" if early else "exp is infinite in float32 above 88"
        )
    cause = "overflow: " + ", and ".join(limits)
    if early or (half and result.shifted):
        cause += "; compute in float32"
    if result.exponentials and not result.shifted and result.truth.dim() > 1:
        cause += "; before exp, subtract the row's largest value"
    return cause


def _large_inputs(result: WrongResult, hit: torch.Tensor) -> float | None:
    """Return the largest finite input in the rows of `hit`, if each has one beyond the limit."""
    for value in result.inputs.values():
        rows = result.rows_of(value) if rounds(value.dtype) else None
        if rows is None or not (rows.expand(hit.shape)[hit] > _limit(result)).all():
            continue
        finite = result.rows_of(value.where(value.isfinite(), 0)).expand(hit.shape)[hit]
        if finite.max() > _limit(result):
            return float(finite.max())
    return None


def _far_below(result: WrongResult, hit: torch.Tensor) -> float | None:
    """Return the largest input in the rows of `hit`, or among these elements, if its exp is 0.

    Only for results that a sum of exponentials may give: none is negative, and not all of `hit` are
    0 in truth.
    """
    if not result.exponentials or result.truth.is_complex():
        return None
    if (result.truth < 0).any() or not result.truth[hit].any():
        return None
    for value in result.inputs.values():
        if not rounds(value.dtype) or value.is_complex():
            continue
        if value.shape == hit.shape:
            largest = value[hit].max()
        elif value.dim() > 1 and value.shape[:-1] == hit.shape:
            largest = value.amax(-1)[hit].max()
        else:
            continue
        if -math.inf < largest < -_limit(result):
            return float(largest)
    return None


def _infinite_inputs(result: WrongResult, hit: torch.Tensor) -> str | None:
    """Return "-inf" or "infinite" if some input has such values in each row of `hit`."""
    for value, rows in _rows_with(result, hit, torch.isinf):
        if rows.all():
            return "infinite" if value.isposinf().any() else "-inf"
    return None


def _rows_with(
    result: WrongResult, hit: torch.Tensor, test: Callable
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield each input, and for each element of `hit` whether the input's row passes the test."""
    for value in result.inputs.values():
        rows = result.rows_of(test(value).double()) if rounds(value.dtype) else None
        if rows is not None:
            yield value, rows.expand(hit.shape)[hit]
