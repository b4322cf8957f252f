"""Comparison of a result with the truth, and the tolerance rule behind it.

`truth` is the reference evaluated in float64. `yardstick` is the reference evaluated in the inputs'
own dtype: it shows what PyTorch itself loses there. An element of the result may be off by

    allowed = ULPS * ulp + FACTOR * spread + NOISE * unit * size

ulp     distance between neighbouring numbers of the result's dtype at the truth. A correct kernel
        rounds once, which costs up to half of it.
spread  what the yardstick loses beyond half an ulp: the maximum in the row, but at least what the
        median row loses in proportion to its largest element, since one row can be exact by luck.
        If the yardstick loses no more than a small fraction of any element's size, that fraction
        bounds the spread, so that the small elements of a row do not hide behind its large ones.
size    what float32 noise grows with: `magnitude` if it is given, else the row's largest element.
        unit is 2**-24, or 2**-50 for a float64 result, whose truth is no better.

A row is the last dimension. A 1-d result, or one whose last dimension is shorter than SHORT_ROW, is
one row, because its rows are too short to show a spread. A row that is zero in truth is judged by
the median row, since terms that cancel leave noise. A row that is small but not zero is judged by
itself.

In addition, the elements must not all lie too far out, or too far in: see `_drift`. This catches a
factor of 1.01 in bfloat16, where each element by itself stays within one or two ulps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from kernelgauge.core.dtypes import dtype_name, rounds
from kernelgauge.words.fault import Fault, Note, note

ULPS = 1.0
FACTOR = 3.0
NOISE = 64.0
DRIFT = 0.55
SHORT_ROW = 16
# A yardstick that loses at most this many eps of any element's size computes each one by itself.
RELATIVE = 64.0
# Below this fraction of the largest row, a float64 truth is itself noise.
ZERO_ROW = 2.0**-45
ZERO_ROW_NOISE = 8.0
# Float32 noise in a row of float16 or bfloat16, whatever the steps: 1 + erf(x) at x = -5.
ROW_NOISE = 4.0 * 2.0**-24
# GPU exponentials and divisions flush subnormal numbers to zero; a factor of up to 88 may follow.
FLUSH = 128.0
# tf32 keeps 11 bits of each factor, and some tensor cores truncate the rest.
TF32_NOISE = 8.0 * 2.0**-11
# Hopper's tensor cores keep about 13 fraction bits of the sums of 8-bit floats. On an H200 sums of
# 4096 products were off by 6.9e-4 of the size of the terms (2026-11-22).
FP8_NOISE = 2.0**-9
NOISE_OF = {None: 0.0, "tf32": TF32_NOISE, "fp8": FP8_NOISE}


@dataclass(frozen=True, eq=False)
class Mismatch:
    """Where a result is wrong.

    mask: True where an element is wrong
    error, allowed: float64, of the result's shape; error is inf where NaN or inf is misplaced
    worst: index of the element that is furthest beyond what is allowed
    got, expected: the values there; `expected` is rounded only if the comparison is exact
    drift: by how many ulps the elements are too large on average, if nothing else is wrong
    """

    name: str
    mask: torch.Tensor
    error: torch.Tensor
    allowed: torch.Tensor
    worst: tuple[int, ...]
    got: complex
    expected: complex
    dtype: torch.dtype
    exact: bool
    drift: float | None = None

    @property
    def count(self) -> int:
        """The number of wrong elements."""
        return int(self.mask.sum())

    def fault(self) -> Fault:
        """Return what is wrong, without the call that gave the result, and without a cause."""
        amount: dict[str, Any] = {"wrong": self.count, "total": self.mask.numel()}
        if self.drift is not None:
            amount["drift"] = self.drift
        numbers = amount | self._at_the_worst()
        return Fault("wrong-result", self.notes(), tensor=self.name, numbers=numbers)

    def notes(self) -> tuple[Note, Note]:
        """Return how much is wrong, and the worst element."""
        dtype = dtype_name(self.dtype)
        if self.drift is not None:
            amount = note("wrong-as-a-whole", result=self.name, drift=self.drift, dtype=dtype)
        else:
            total = self.mask.numel()
            amount = note("wrong-elements", result=self.name, wrong=self.count, total=total)
        return amount, note("worst-element", dtype=dtype, **self._at_the_worst())

    def _at_the_worst(self) -> dict[str, Any]:
        found = {"index": list(self.worst), "got": self.got, "expected": self.expected}
        error = float(self.error[self.worst])
        if self.exact or not math.isfinite(error):
            return found
        found["error"] = error
        if self.dtype.is_floating_point:
            ulp = spacing(torch.tensor(abs(self.expected)), self.dtype)
            found["ulps"] = error / float(ulp)
        if self.drift is None:
            found["allowed"] = float(self.allowed[self.worst])
        return found


def compare(
    got: torch.Tensor,
    truth: torch.Tensor,
    yardstick: torch.Tensor | Sequence[torch.Tensor] | None,
    **rules: Any,
) -> Mismatch | None:
    """Return what is wrong with one result, or None. The arguments are those of a `Rule`."""
    return Rule(truth, yardstick, **rules).mismatch(got)


class Rule:
    """What a result may be. All tensors have one shape and one device.

    truth: float64 or complex128; integers or bool for an exact result
    yardstick: one or several, of any floating dtype (`perturbation.rounded_runs` makes more); not
        used if the comparison is exact
    exact: None means exact for integers and bool only. True demands the truth rounded once to the
        result's dtype, bit for bit, as for copies and gathers: -0.0 is then not 0.0, and NaN is
        NaN whatever its payload. False on integers allows a difference of 1, since rounding may go
        either way.
    magnitude: size of the terms that were summed into each element: `perturbation.term_size`, the
        root of the sum of their squares, or the sum of their absolute values. Without it the noise
        of an element is estimated from its row: elements below 4e-6 of the row's largest one are
        then not judged, and a 1-d result is one row.
    input_precision: "tf32" if the spec lets a kernel round the terms to tf32 before they are
        summed, as `tl.dot` of float32 does: allows 2**-8 of the size. "fp8" if the sums may be
        those of tensor cores that multiply 8-bit floats: allows 2**-9 of the size.
    roundings: how often a right kernel may round a value to the result's dtype on its way there.
        Each but the last costs up to one ulp, as a factor follows it.

    NaN must be where the truth is NaN, and nowhere else. Inf must be where the truth is inf of that
    sign or beyond the dtype's range; at the edge of the range both answers are right if they are
    within what is allowed. -0.0 equals 0.0 unless the comparison is exact. Raises ValueError for
    another input_precision.
    """

    def __init__(
        self,
        truth: torch.Tensor,
        yardstick: torch.Tensor | Sequence[torch.Tensor] | None,
        *,
        exact: bool | None = None,
        name: str = "the result",
        magnitude: torch.Tensor | None = None,
        input_precision: str | None = None,
        roundings: int = 1,
    ):
        if input_precision not in NOISE_OF:
            raise ValueError(f"input_precision is None, 'tf32' or 'fp8', not {input_precision!r}")
        self.truth, self.yardstick, self.magnitude = truth, yardstick, magnitude
        self.exact, self.name, self.roundings = exact, name, roundings
        self.inexact = NOISE_OF[input_precision]
        self._tolerances: dict[torch.dtype, _Tolerance] = {}

    def mismatch(self, got: torch.Tensor) -> Mismatch | None:
        """Return what is wrong with a result, or None."""
        if got.numel() == 0:
            return None
        if not rounds(got.dtype) if self.exact is None else self.exact:
            return _compare_exact(got, self.truth, self.name)
        if torch.equal(got, self.truth.to(got.dtype)):
            # Rounded once, without NaN. Whatever the yardstick, that is allowed.
            return None

        tolerance = self._tolerance(got.dtype)
        ours, right = _parts(got), self._right
        allowed, drift = tolerance.allowed, None
        wrong, error = _judge(got.dtype, ours, right, allowed)
        if not wrong.any():
            drift = _drift(ours, right, self._losses, tolerance)
            if drift is None:
                return None
            wrong = error > tolerance.ulp / 2
        if got.is_complex():
            wrong, error, allowed = wrong.any(-1), error.amax(-1), allowed.amax(-1)
        worst = _largest(error / allowed, wrong)
        values = got[worst].item(), self.truth[worst].item()
        return Mismatch(self.name, wrong, error, allowed, worst, *values, got.dtype, False, drift)

    @cached_property
    def _right(self) -> torch.Tensor:
        return _parts(self.truth)

    @cached_property
    def _losses(self) -> list[torch.Tensor]:
        assert self.yardstick is not None
        return _losses(self.yardstick, self._right)

    def _tolerance(self, dtype: torch.dtype) -> _Tolerance:
        if dtype not in self._tolerances:
            self._tolerances[dtype] = _tolerance(
                dtype, self._right, self._losses, self.magnitude, self.inexact, self.roundings
            )
        return self._tolerances[dtype]


def spacing(size: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the distance between neighbouring numbers of `dtype` at `size` >= 0, in float64.

    It is 1 for integers.
    """
    if not rounds(dtype):
        return torch.ones_like(size, dtype=torch.float64)
    info = torch.finfo(dtype)
    _, exponent = torch.frexp(size.double())
    # ldexp runs on the current GPU, not on that of its operands (pytorch/pytorch#189567).
    with torch.cuda.device_of(size):
        step = torch.ldexp(torch.full_like(size, info.eps, dtype=torch.float64), exponent - 1)
    return step.where(size > 0, 0.0).clamp(min=info.smallest_normal * info.eps)


@dataclass(frozen=True)
class _Tolerance:
    """What an element may be off by; float64, in the shape of the result's parts.

    noise: what float32 contributes to `allowed`
    """

    ulp: torch.Tensor
    noise: torch.Tensor
    allowed: torch.Tensor


def _tolerance(
    dtype: torch.dtype,
    truth: torch.Tensor,
    losses: list[torch.Tensor],
    magnitude: torch.Tensor | None,
    inexact: float,
    roundings: int,
) -> _Tolerance:
    value = truth.abs().where(truth.isfinite(), 0.0)
    ulp = spacing(value, dtype)
    size = value
    if magnitude is not None:
        magnitude = magnitude.double()
        size = torch.maximum(size, magnitude[..., None] if dtype.is_complex else magnitude)

    worst_loss = torch.stack([loss.abs() for loss in losses]).amax(0)
    excess = (worst_loss - ulp / 2).clamp(min=0)
    shape, has_rows = _rows(value, dtype)
    row_spread = excess.reshape(shape).amax(1, keepdim=True)
    row_value = value.where(value < _top(dtype), 0.0).reshape(shape).amax(1, keepdim=True)
    live = row_value > ZERO_ROW * row_value.max()
    if live.any():
        share = (row_spread[live] / row_value[live]).median() * row_value
        row_spread = torch.maximum(row_spread, share.where(live, row_spread[live].median()))
        row_value = row_value.where(live, row_value[live].median())
    row_spread, row_value, live = (
        per_row.expand(shape).reshape(value.shape) for per_row in (row_spread, row_value, live)
    )

    spread = row_spread
    relative = (excess / size).where(excess > 0, 0.0).max()
    if relative <= RELATIVE * (torch.finfo(dtype).eps if rounds(dtype) else 1.0):
        spread = torch.minimum(spread, relative * size).where(live, spread)
    if magnitude is None:
        size = row_value
    # The terms of a row that is exactly zero in truth may themselves be noise, as those of the
    # variance of a constant row: squares of the mean's rounding error.
    size = size.where(live, torch.maximum(ZERO_ROW_NOISE * size, row_value))
    noise = NOISE * (2.0**-50 if dtype in (torch.float64, torch.complex128) else 2.0**-24) * size
    if has_rows and dtype in (torch.float16, torch.bfloat16):
        noise = torch.maximum(noise, ROW_NOISE * row_value)
    noise = noise + inexact * size + _flushed(dtype)
    return _Tolerance(ulp, noise, ULPS * roundings * ulp + FACTOR * spread + noise)


def _judge(
    dtype: torch.dtype, got: torch.Tensor, truth: torch.Tensor, allowed: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which elements are wrong, and the error of each."""
    overflow = got.isinf() & (truth.abs() + allowed >= _top(dtype)) & (got.sign() == truth.sign())
    right = overflow | (got.isnan() & truth.isnan())
    error = (got - truth).abs().nan_to_num(nan=math.inf, posinf=math.inf).where(~right, 0.0)
    return error > allowed, error


def _drift(
    got: torch.Tensor, truth: torch.Tensor, losses: list[torch.Tensor], tolerance: _Tolerance
) -> float | None:
    """Return by how many ulps the elements are too far from zero on average, None if that is fine.

    A correct kernel rounds once, so it is off by at most half an ulp on average too, whatever the
    values. The bound adds to this what chance leaves of single errors (three standard deviations,
    for as many elements as dominate the sum), float32 noise, and the drift of the yardstick.
    """
    usable = got.isfinite() & truth.isfinite()
    ulp = tolerance.ulp.where(usable, 0.0)
    total, squares = ulp.sum(), (ulp**2).sum()
    if total == 0:
        return None

    def outward(loss: torch.Tensor) -> torch.Tensor:
        return (loss * truth.sign()).where(usable, 0.0).sum() / total

    drift = outward(got - truth)
    single = max(1.0, *(float((loss.where(usable, 0.0) ** 2).sum() / squares) for loss in losses))
    bound = DRIFT + 3 * math.sqrt(single) * squares.sqrt() / total
    bound = bound + max(float(outward(loss).abs()) for loss in losses)
    bound = bound + tolerance.noise.where(usable, 0.0).sum() / total
    return float(drift) if drift.abs() > bound else None


def _compare_exact(got: torch.Tensor, truth: torch.Tensor, name: str) -> Mismatch | None:
    expected = truth.to(got.dtype)
    ours, theirs = _real_view(got), _real_view(expected)
    same = _bits(ours) == _bits(theirs)
    if rounds(got.dtype):
        same |= ours.double().isnan() & theirs.double().isnan()
    if same.all():
        return None
    error = (ours.double() - theirs.double()).abs().nan_to_num(nan=math.inf, posinf=math.inf)
    if got.is_complex():
        same, error = same.all(-1), error.amax(-1)
    worst = _largest(error, ~same)
    values = got[worst].item(), expected[worst].item()
    allowed = torch.zeros_like(error)
    return Mismatch(name, ~same, error, allowed, worst, *values, got.dtype, True)


def _largest(values: torch.Tensor, mask: torch.Tensor) -> tuple[int, ...]:
    """Return the index of the largest of the values under the mask."""
    flat = int(values.where(mask, -1.0).argmax())
    # torch.unravel_index first imports sympy, for half a second.
    return tuple(map(int, np.unravel_index(flat, mask.shape)))


def _losses(
    yardsticks: torch.Tensor | Sequence[torch.Tensor], truth: torch.Tensor
) -> list[torch.Tensor]:
    """Return the signed error of each yardstick, 0 where it overflowed and shows nothing."""
    if isinstance(yardsticks, torch.Tensor):
        yardsticks = [yardsticks]
    return [(_parts(yardstick) - truth).nan_to_num(0, 0, 0) for yardstick in yardsticks]


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in float64; a complex one gets a last dimension of 2 for its two parts."""
    return _real_view(tensor).double()


def _real_view(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _rows(parts: torch.Tensor, dtype: torch.dtype) -> tuple[tuple[int, int], bool]:
    """Return (rows, parts in a row), and whether the result has rows that are long enough."""
    shape = parts.shape[:-1] if dtype.is_complex else parts.shape
    if len(shape) < 2 or shape[-1] < SHORT_ROW:
        return (1, parts.numel()), False
    rows = math.prod(shape[:-1])
    return (rows, parts.numel() // rows), True


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    if not rounds(tensor.dtype):
        return tensor
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(whole[tensor.element_size()])


def _top(dtype: torch.dtype) -> float:
    """Return the smallest size that rounds to inf."""
    if not rounds(dtype):
        return math.inf
    largest = torch.finfo(dtype).max
    return largest + float(spacing(torch.tensor(largest), dtype)) / 2


def _flushed(dtype: torch.dtype) -> float:
    wide_range = (torch.float32, torch.bfloat16, torch.complex64)
    return FLUSH * torch.finfo(dtype).smallest_normal if dtype in wide_range else 0.0
