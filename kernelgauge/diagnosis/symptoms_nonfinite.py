"""Symptoms of NaN and infinity: see symptoms.py."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

import torch

from kernelgauge.core.dtypes import rounds
from kernelgauge.diagnosis.dataflow import REDUCTIONS
from kernelgauge.diagnosis.source import EXPONENTIALS
from kernelgauge.diagnosis.wrong_result import Symptom, WrongResult, largest_size
from kernelgauge.memory.nonfinite import MASKED, Origin
from kernelgauge.words.fault import Note, note

FLOAT16_MAX, FLOAT32_MAX = 65504.0, 3.4028e38
LOG2_E = 1.442695

# What an operation that made NaN or infinity means: a pattern of it, and the cause.
MEANINGS = (
    (r"-?0 / -?0$", "0-by-0"),
    (r"-inf - -inf$", "maximum-is-minus-inf"),
    (r"inf [-+] -?inf$", "inf-minus-inf"),
    (r"(0 \* -?inf|-?inf \* 0)$", "0-times-inf"),
    (r"-?inf / -?inf$", "inf-by-inf"),
    (r"\S+ / -?0$", "division-by-0"),
    (r"exp2?\(inf\)", "exp-of-inf"),
    (r"r?sqrt\(-", "root-of-negative"),
    (r"rsqrt\(0\)", "rsqrt-of-0"),
    (r"log2?\(-?0\)", "log-of-0"),
    (r"log2?\(-", "log-of-negative"),
    (r"exp2?\(", "exp-overflows"),
    (r"\S+ as float16$|tl.sum in float16$|[^0]\S* [-+*/] \S+ in float16$", "float16-overflows"),
    (r"\S+ [-+*/] \S+$|tl.(dot|sum)", "dtype-overflows"),
)


def from_its_origin(result: WrongResult, pattern: Note) -> Symptom | None:
    """Return what the operation means that made NaN or infinity, if one was seen to make it."""
    if result.origin is None:
        return None
    if result.origin.is_loaded:
        return Symptom(pattern, _loaded(result, result.origin))
    operation, said = result.origin.operation, result.origin.said
    cause = next((cause for test, cause in MEANINGS if re.match(test, operation)), None)
    if cause is None:
        return None
    made = said.values["operation"] if said else ""
    if operation.startswith("log") and re.match(r"-?0 \* -inf|-inf \* -?0( |$)", made):
        assert said
        times = "0-times-log-of-0" if _is_times_its_log(said) else "0-times-inf"
        return Symptom(pattern, note(times))
    if cause in ("0-by-0", "log-of-0"):
        why = note("no-guard")
        if result.source.uses(EXPONENTIALS, otherwise=False):
            why = note("nothing-left", others=result.stand_in)
        return Symptom(pattern, note(cause, why=why))
    if cause == "exp-overflows":
        cause = _of_exp(result)
    return Symptom(pattern, note(cause))


def _is_times_its_log(product: Note) -> bool:
    """Return whether the factor of an infinite logarithm may be what the logarithm is of."""
    infinity = product.values["infinity"]
    assert isinstance(infinity, Note)
    of = re.findall(r"log2?\((.*)", str(infinity.values["source"]))
    names = (set(re.findall(r"[a-z_]\w*", str(it), re.I)) for it in (of, product.values["source"]))
    return bool(set.intersection(*names) - {"tl"})


def _of_exp(result: WrongResult) -> str:
    """Return what is said of exp that overflows for a finite number."""
    if not result.shifted:
        reduces = result.source.uses(REDUCTIONS, otherwise=True)
        return "exp-overflows" if reduces else "exp-overflows-alone"
    if "lse" in result.inputs and not result.source.uses({"max", "maximum"}, otherwise=True):
        return "exp-overflows-beyond-lse"
    return "exp-overflows-though-shifted"


def _loaded(result: WrongResult, origin: Origin) -> Note:
    """Say of NaN that was loaded whether it was a masked lane's, an input's or nobody's."""
    if origin.operation == MASKED:
        return note("masked-lane-loaded")
    if origin.unset:
        return note("unset-element-loaded", element=origin.unset)
    if any(value.isnan().any() for value in result.inputs.values() if rounds(value.dtype)):
        return note("nan-of-an-input")
    return note("unset-memory-loaded")


def not_a_number(result: WrongResult) -> Symptom | None:
    """Detect NaN that is not expected."""
    hit = result.got.isnan() & ~result.truth.isnan()
    if not hit.any():
        return None
    pattern = note("some-nan", count=int(hit.sum()))
    if (hit == result.wrong).all():
        pattern = note("all-nan")
    if seen := from_its_origin(result, pattern):
        return seen
    if below := _far_below(result, hit):
        others = [note("scaled-too-soon")] if _scaled_is_infinite(result, below) else []
        return Symptom(
            note("where-inputs-are-below", what=pattern, below=below),
            note("0-by-0-of-empty-sum", others=others + result.stand_in),
        )
    if large := _large_inputs(result, hit):
        cause = _overflow(result, large)
        if result.shifted and _scaled_is_infinite(result, large):
            cause = note("overflow", limits=[note("scaled-too-soon")])
        return Symptom(note("where-inputs-reach", what=pattern, large=large), cause)
    if kind := _infinite_inputs(result, hit):
        rows = result.truth.dim() > 1 and kind == "-inf"
        cause = note("maximum-is-minus-inf" if rows else "undefined")
        return Symptom(note("where-inputs-are", what=pattern, value=kind), cause)
    if result.dtype == torch.bfloat16:
        numbers = (x for x in result.inputs.values() if rounds(x.dtype))
        largest = max(map(largest_size, numbers), default=0.0)
        if largest > FLOAT16_MAX:
            reach = note("inputs-reach", what=pattern, large=largest)
            return Symptom(reach, note("cast-to-float16"))
    cause = note("anything-loaded-or-undefined" if result.anything else "unset-or-undefined")
    return Symptom(pattern, cause, strong=False)


def infinite(result: WrongResult) -> Symptom | None:
    """Detect infinity where a finite value is expected."""
    hit = result.wrong & result.got.isinf() & result.truth.isfinite()
    if not hit.any():
        return None
    pattern = note("some-infinite", count=int(hit.sum()))
    if seen := from_its_origin(result, pattern):
        return seen
    if below := _far_below(result, hit):
        pattern = note("where-inputs-are-below", what=pattern, below=below)
        return Symptom(pattern, note("log-of-empty-sum"))
    large = _large_inputs(result, hit)
    if large or result.dtype == torch.float16:
        cause = _overflow(result, large or 0.0)
    else:
        cause = note("division-by-0-or-maximum")
    return Symptom(pattern, cause, strong=bool(large))


def lost_nan(result: WrongResult) -> Symptom | None:
    """Detect expected NaN that is missing."""
    hit = result.truth.isnan() & ~result.got.isnan()
    if not hit.any():
        return None
    pattern = note("nan-missing", count=int(hit.sum()))
    numbers = [it for it in result.inputs.values() if rounds(it.dtype)]
    kind = _infinite_inputs(result, hit)
    if any(it.isnan().any() for it in numbers):
        is_made = kind and not any(rows.any() for _, rows in _rows_with(result, hit, torch.isnan))
    else:
        is_made = any(it.isinf().any() for it in numbers)
    if is_made:
        if kind:
            pattern = note("inputs-are-not-nan", what=pattern, value=kind)
        return Symptom(pattern, note("undefined-avoided", others=result.stand_in))
    if line := result.source.nan_replaced:
        return Symptom(pattern, note("nan-replaced", line=line.number, source=line.text))
    if numbers and all(it.isfinite().all() for it in numbers):
        return Symptom(pattern, note("nan-of-numbers-hidden"))
    return Symptom(pattern, note("nan-dropped"))


def lost_infinity(result: WrongResult) -> Symptom | None:
    """Detect expected infinity that is a number, where nothing else is wrong."""
    hit = result.truth.isinf() & result.got.isfinite()
    if not hit.any() or (result.wrong & ~hit).any():
        return None
    return Symptom(note("inf-missing", count=int(hit.sum())), note("inf-dropped"))


def squares_overflow(result: WrongResult) -> float | None:
    """Return the largest input if each row of some float16 input has a square beyond float16."""
    if result.dtype != torch.float16:
        return None
    for value in result.inputs.values():
        rows = result.rows_of(value) if rounds(value.dtype) else None
        if rows is not None and rows.isfinite().all() and (rows.square() > FLOAT16_MAX).all():
            return float(rows.max())
    return None


def _scaled_is_infinite(result: WrongResult, value: float) -> bool:
    """Return whether a kernel that takes exp2 may have scaled this value beyond float32."""
    scales = result.source.uses({"exp2"}, otherwise=False)
    return scales and abs(value) * LOG2_E > FLOAT32_MAX


def _limit(result: WrongResult) -> float:
    """Return the input above which exp, or a sum of products in float16, overflows."""
    return 11.0 if result.dtype == torch.float16 else 88.0


def _overflow(result: WrongResult, large: float) -> Note:
    """Return the cause of an overflow where inputs reach this size."""
    half = result.dtype == torch.float16
    # Too large for float16 alone.
    early = half and not (result.exponentials and large > 88)
    limits = []
    if half:
        limits.append("limit-of-float16")
    elif large > 1.8e19:
        limits.append("limit-of-squares")
    elif large > FLOAT16_MAX:
        limits.append("limit-of-casts")
    elif not result.exponentials:
        limits.append("limit-of-products")
    if result.exponentials and not (result.shifted and limits):
        limits.append("limit-of-exp-in-float16" if early else "limit-of-exp")
    remedies = []
    if early or (half and result.shifted):
        remedies.append("compute-in-float32")
    if result.exponentials and not result.shifted and result.truth.dim() > 1:
        remedies.append("subtract-the-largest")
    return note("overflow", limits=[*map(note, limits)], remedies=[*map(note, remedies)])


def _large_inputs(result: WrongResult, hit: torch.Tensor) -> float | None:
    """Return the largest finite input in the rows of `hit`, if each has one beyond the limit."""
    for value in result.inputs.values():
        rows = result.rows_of(value) if rounds(value.dtype) else None
        if rows is None or not (rows.expand(hit.shape)[hit] > _limit(result)).all():
            continue
        rows = result.rows_of(value.where(value.isfinite(), 0))
        if rows is not None and (largest := rows.expand(hit.shape)[hit].max()) > _limit(result):
            return float(largest)
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
    """Return "inf" or "-inf" if some input has such values in each row of `hit`."""
    for value, rows in _rows_with(result, hit, torch.isinf):
        if rows.all():
            return "inf" if value.isposinf().any() else "-inf"
    return None


def _rows_with(
    result: WrongResult, hit: torch.Tensor, test: Callable
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield each input, and for each element of `hit` whether the input's row passes the test."""
    for value in result.inputs.values():
        rows = result.rows_of(test(value).double()) if rounds(value.dtype) else None
        if rows is not None:
            yield value, rows.expand(hit.shape)[hit]
