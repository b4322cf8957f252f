"""Symptoms of NaN and infinity: see symptoms.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch

from judge.core.dtypes import rounds
from judge.diagnosis.wrong_result import Symptom, WrongResult, largest_size

FLOAT16_MAX, FLOAT32_MAX = 65504.0, 3.4028e38
LOG2_E = 1.442695

EMPTY_SUM = (
    "each exp is 0 where more than the largest value is subtracted: a maximum begins at -inf, and "
    "masked-off lanes hold -inf"
)


SCALED_TOO_SOON = (
    "a value this large is multiplied by log2(e), and float32 ends at 3.4e38: subtract the row's "
    "largest value first, and scale after"
)


def not_a_number(result: WrongResult) -> Symptom | None:
    hit = result.got.isnan() & ~result.truth.isnan()
    if not hit.any():
        return None
    look = f"{_count(hit)} NaN"
    if (hit == result.wrong).all():
        look = "all wrong elements are NaN"
    if below := _far_below(result, hit):
        cause = f"0 / 0: {EMPTY_SUM}"
        if _scaled_is_infinite(result, below):
            cause += f"; or {SCALED_TOO_SOON}"
        cause += result.stand_in
        return Symptom(f"{look}, where no input is above {below:.3g}", cause)
    if large := _large_inputs(result, hit):
        scaled = result.shifted and _scaled_is_infinite(result, large)
        cause = f"an overflow: {SCALED_TOO_SOON}" if scaled else _overflow(result, large)
        return Symptom(f"{look}, where inputs reach {large:.3g}", cause)
    if kind := _infinite_inputs(result, hit):
        cause = "inf - inf, inf / inf or 0 * inf: each is NaN"
        if result.truth.dim() > 1 and kind == "-inf":
            cause = (
                "inf - inf, which is NaN: where the largest value of a row, or of a tile, is -inf, "
                "subtract 0 and not that value"
            )
        return Symptom(f"{look}, where inputs are {kind}", cause)
    if result.dtype == torch.bfloat16:
        numbers = (x for x in result.inputs.values() if rounds(x.dtype))
        largest = max(map(largest_size, numbers), default=0.0)
        if largest > FLOAT16_MAX:
            cause = "a cast to float16, which ends at 65504"
            return Symptom(f"{look}, and inputs reach {largest:.3g}", cause)
    if not result.anything:
        return Symptom(
            look,
            "memory that nothing was stored to, or inf - inf, inf / inf or 0 * inf: a value beyond "
            "the range of its dtype, or a row or tile in which a mask leaves nothing",
            strong=False,
        )
    return Symptom(
        look,
        "a masked-off lane that was loaded without `other=` and reached the result, memory that "
        "nothing was stored to, or inf - inf, inf / inf or 0 * inf",
        strong=False,
    )


def infinite(result: WrongResult) -> Symptom | None:
    hit = result.wrong & result.got.isinf() & result.truth.isfinite()
    if not hit.any():
        return None
    if below := _far_below(result, hit):
        look = f"{_count(hit)} infinite, where no input is above {below:.3g}"
        return Symptom(look, f"a logarithm of 0, or a division by it: {EMPTY_SUM}")
    large = _large_inputs(result, hit)
    if large or result.dtype == torch.float16:
        cause = _overflow(result, large or 0.0)
    else:
        cause = "a division by zero, or a maximum that was never replaced by a real value"
    look = f"{_count(hit)} infinite"
    return Symptom(look, cause, strong=bool(large))


def lost_nan(result: WrongResult) -> Symptom | None:
    hit = result.truth.isnan() & ~result.got.isnan()
    if not hit.any():
        return None
    look = f"{_count(hit)} not NaN where NaN is expected"
    kind = _infinite_inputs(result, hit)
    if kind and not any(rows.any() for _, rows in _rows_with(result, hit, torch.isnan)):
        return Symptom(
            f"{look}, and inputs are {kind}, not NaN",
            "inf - inf, inf / inf, 0 * inf or 0 / 0 that was avoided, where that NaN is asked for",
        )
    return Symptom(
        look,
        "a maximum, minimum or comparison that drops NaN: tl.maximum keeps it only if told",
    )


def _count(hit: torch.Tensor) -> str:
    count = int(hit.sum())
    return f"{count} of the wrong elements {'is' if count == 1 else 'are'}"


def _scaled_is_infinite(result: WrongResult, value: float) -> bool:
    """Whether a kernel that takes exp2 may have scaled this value out of float32's range."""
    scales = result.source.uses({"exp2"}, otherwise=False)
    return scales and abs(value) * LOG2_E > FLOAT32_MAX


def _limit(result: WrongResult) -> float:
    """From which inputs on exp overflows, or a sum of products in float16."""
    return 11.0 if result.dtype == torch.float16 else 88.0


def _overflow(result: WrongResult, large: float) -> str:
    half = result.dtype == torch.float16
    # What is too large for float16 alone.
    early = half and not (result.exponentials and large > 88)
    ends = []
    if half:
        ends.append("float16 ends at 65504")
    elif large > 1.8e19:
        ends.append("float32 ends at 3.4e38, which a square passes above 1.8e19")
    elif large > FLOAT16_MAX:
        ends.append("a cast to float16 ends at 65504")
    elif not result.exponentials:
        ends.append("a product in float16 ends at 65504")
    if result.exponentials and not (result.shifted and ends):
        ends.append("exp passes that at 11" if early else "exp passes float32 above 88")
    cause = "an overflow: " + ", and ".join(ends)
    if early or (half and result.shifted):
        cause += "; compute in float32"
    if result.exponentials and not result.shifted and result.truth.dim() > 1:
        cause += "; before exp, subtract the row's largest value"
    return cause


def _large_inputs(result: WrongResult, hit: torch.Tensor) -> float | None:
    """The largest finite input in the rows of `hit`, if each of them has one past the limit."""
    for value in result.inputs.values():
        rows = result.rows_of(value) if rounds(value.dtype) else None
        if rows is None or not (rows.expand(hit.shape)[hit] > _limit(result)).all():
            continue
        finite = result.rows_of(value.where(value.isfinite(), 0)).expand(hit.shape)[hit]
        if finite.max() > _limit(result):
            return float(finite.max())
    return None


def squares_overflow(result: WrongResult) -> float | None:
    """The largest input where each row of some float16 input has a square beyond float16."""
    if result.dtype != torch.float16:
        return None
    for value in result.inputs.values():
        rows = result.rows_of(value) if rounds(value.dtype) else None
        if rows is not None and rows.isfinite().all() and (rows.square() > FLOAT16_MAX).all():
            return float(rows.max())
    return None


def _far_below(result: WrongResult, hit: torch.Tensor) -> float | None:
    """The largest input in the rows of `hit`, or among those elements, if its exp is 0.

    Of results that a sum of exponentials may give: none is negative, and these are not all 0.
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
    """The infinities, "-inf" or "infinite", that some input has in each row of `hit`."""
    for value, rows in _rows_with(result, hit, torch.isinf):
        if rows.all():
            return "infinite" if value.isposinf().any() else "-inf"
    return None


def _rows_with(
    result: WrongResult, hit: torch.Tensor, test: Callable
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Each input, and whether its row of each element of `hit` has an element that tests true."""
    for value in result.inputs.values():
        rows = result.rows_of(test(value).double()) if rounds(value.dtype) else None
        if rows is not None:
            yield value, rows.expand(hit.shape)[hit]
