"""Symptoms of too few bits, and of errors that are too regular for that: see symptoms.py."""

from __future__ import annotations

import torch

from kernelgauge.core.dtypes import dtype_name, rounds
from kernelgauge.diagnosis.wrong_result import MIN_WRONG, Symptom, WrongResult
from kernelgauge.words.fault import note

# The fewest elements in which a dependence of the error on the value shows, and how much less the
# errors of neighbouring values must differ than they would by chance.
SMOOTH_AMONG = 20
SMOOTH = 0.25

# Errors up to this fraction of the typical size are small.
SMALL = 2.0**-5
# The largest that sums in 16 bits are blamed for: beyond it another cause is more likely.
MAX_LOSS_IN_HALF = 2.0**-4

NARROWER = {
    torch.float16: (torch.bfloat16,),
    torch.float32: (torch.bfloat16, torch.float16),
    torch.float64: (torch.bfloat16, torch.float16, torch.float32),
    torch.complex64: (torch.bfloat16, torch.float16),
}

# Of what makes a result of float32 less precise: what is said of it, and the formats.
LOWER = {
    "step-in-half": {"fp16", "bf16", "to fp16", "to bf16"},
    "dot-in-tf32": {"TF32", "BF16x3"},
}
# Where the squared mean is so many times the variance, their difference loses bits; and so many
# times as much as is lost is an error at most.
MIN_FAR = 64.0
MOST_LOST = 256.0

# A factor that differs from 1 by less than this is no constant of a formula.
NEAR_ONE = 1e-3


def slopes(got: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Return the least-squares factor from truth to got along the last dimension, which is kept."""
    products, squares = (got * truth.conj()).real, truth.abs().square()
    return products.sum(-1, keepdim=True) / squares.sum(-1, keepdim=True)


def drifting(result: WrongResult) -> Symptom:
    """Describe a result that is too large, or too small, as a whole."""
    usable = result.got.isfinite() & result.truth.isfinite()
    slope = float(slopes(result.got[usable], result.truth[usable]))
    return Symptom(note("whole-times-expected", ratio=slope), note("factor-near-1-wrong"))


def narrower(result: WrongResult) -> Symptom | None:
    """Detect values that are all numbers of a narrower dtype."""
    if result.dtype not in NARROWER:
        return None
    values, truth = result.got.real, result.truth.real
    # Subnormal numbers have few bits anyway.
    normal = values.isfinite() & (values.abs() >= torch.finfo(result.dtype).smallest_normal)
    values, truth = values[normal], truth[truth.isfinite()]
    if values.unique().numel() < 16:
        return None
    for dtype in NARROWER[result.dtype]:
        expected = (truth.to(dtype).double() == truth).double().mean()
        if expected < 0.5 and (values.to(dtype).double() == values).all():
            name = dtype_name(dtype)
            return Symptom(note("narrow-numbers", dtype=name), note("cast-too-soon", dtype=name))
    return None


def may_be_lost_in_half(result: WrongResult, of: float = MAX_LOSS_IN_HALF) -> bool:
    """Return whether sums in 16 bits may lose as much as this result is off.

    of: the share of an element that may be lost, 1.0 where large terms cancel
    """
    if not result.computes_in_half:
        return False
    got, truth = result.got[result.wrong], result.truth[result.wrong]
    size = truth.abs().where(truth.abs() > 0, 1.0)
    return bool(((got - truth).abs() / size).median() <= of)


def narrow_sum(result: WrongResult) -> Symptom | None:
    """Detect errors that a sum in 16 bits leaves, where the source has one."""
    line, got, truth = result.source.narrow_sum, result.got, result.truth
    usable = result.wrong & got.isfinite() & truth.isfinite()
    explicit = line is not None and line.is_explicit
    if line is None or not usable.any() or not (result.narrow_inputs or explicit):
        return None
    # Where large terms cancel, little is left of a sum beside what it lost.
    size = truth[truth.isfinite()].abs().square().mean().sqrt()
    if (got - truth)[usable].abs().median() > MAX_LOSS_IN_HALF * size:
        return None
    cause = note("sum-in-16-bits", line=line.number, source=line.text)
    return Symptom(None, cause)


def row_sums(result: WrongResult) -> Symptom | None:
    """Detect rows in half precision that are each off by a factor near 1."""
    got, truth = result.got, result.truth
    computes = result.computes_in_half
    if not (computes or result.hands_on_in_half) or truth.dim() < 2 or truth.shape[-1] < MIN_WRONG:
        return None
    usable = got.isfinite() & truth.isfinite()
    got, truth = got.where(usable, 0), truth.where(usable, 0)
    factors = slopes(got, truth)
    factors = factors.where(factors.isfinite(), 1)
    off = (factors - 1).abs().max()
    left = (got - factors * truth).square().sum() / (got - truth).square().sum()
    dtype = dtype_name(result.dtype)
    if off > 64 * result.eps or left > 0.25 or factors.max() - factors.min() < 0.1 * off:
        return None
    return Symptom(
        note("row-factors", low=float(factors.min()), high=float(factors.max())),
        note("row-in-few-bits" if computes else "handed-on-in-few-bits", dtype=dtype),
    )


def approximated(result: WrongResult) -> Symptom | None:
    """Detect small errors that depend on the value alone: similar values have similar errors."""
    got, truth = result.got, result.truth
    if not rounds(result.dtype) or truth.is_complex():
        return None
    # Only errors larger than the last rounding can make, in elements right or wrong.
    usable = got.isfinite() & truth.isfinite() & ((got - truth).abs() > result.eps * truth.abs())
    if usable.sum() < SMOOTH_AMONG:
        return None
    error, size = (got - truth)[usable], truth[truth.isfinite()].square().mean().sqrt()
    if error.square().mean().sqrt() > SMALL * size:
        return None
    for name, value in (*result.alike(), ("", truth)):
        key = value[usable]
        if key.unique().numel() < SMOOTH_AMONG:
            continue
        along = error[key.argsort()]
        # Neighbours among independent errors differ by twice the variance on average.
        if along.diff().square().mean() < SMOOTH * 2 * along.var():
            others = []
            if result.computes_in_half:
                others = [note("rounded-again-and-again", dtype=dtype_name(result.dtype))]
            follow = note("errors-follow-expected")
            if name:
                follow = note("errors-follow-input", name=name)
            return Symptom(follow, note("formula-off", others=others))
    return None


def cancelled(result: WrongResult) -> Symptom | None:
    """Detect a variance of numbers far from zero, off by what float32 loses of their squares."""
    line = result.source.difference_of_squares
    if line and _is_lost_far_from_zero(result):
        cause = note("difference-of-squares", line=line.number, source=line.text)
        return Symptom(None, cause)
    if result.dtype != torch.float32:
        return None
    for name, value in result.inputs.items():
        if value.dim() != 2 or value.shape[1] < 2 or not rounds(value.dtype):
            continue
        if (error := _error_of_variance(result, value)) is None:
            continue
        rows = error > 0
        square, variance = value.mean(1)[rows].square(), value.var(1)[rows]
        lost = error[rows] / (2.0**-24 * square)
        far = variance < 1e-3 * square
        if rows.any() and far.all() and lost.max() < 64 and lost.median() > 1 / 16:
            return Symptom(note("errors-of-cancellation", name=name), note("cancellation"))
    return None


def _is_lost_far_from_zero(result: WrongResult) -> bool:
    """Return whether errors are small, and some input is as far from zero as they would need."""
    got, truth = result.got, result.truth
    usable = result.wrong & got.isfinite() & truth.isfinite()
    if not rounds(result.dtype) or truth.is_complex() or not usable.any():
        return False
    size = truth[truth.isfinite()].square().mean().sqrt()
    error = float((got - truth)[usable].abs().max() / size)
    far = 0.0
    for value in result.inputs.values():
        if not rounds(value.dtype) or value.is_complex() or not value.isfinite().all():
            continue
        for dim in (dim for dim, length in enumerate(value.shape) if length > 1):
            variance, mean = torch.var_mean(value, dim, correction=0)
            ratio = (mean.square() / variance.clamp(min=1e-30)).nanmedian()
            far = max(far, float(ratio))
    lost = 2.0**-24 * far
    return far > MIN_FAR and error < MOST_LOST * lost


def _error_of_variance(result: WrongResult, value: torch.Tensor) -> torch.Tensor | None:
    """Return how far off the variance of each row of an input is, 0 where nothing is wrong.

    None if the result is neither the variances nor the rows, normalized, with a weight and a bias
    for each column.
    """
    got, truth = result.got, result.truth
    if truth.dim() == 1 and len(value) == len(truth):
        return (got - truth).abs().where(result.wrong, 0.0)
    if truth.shape != value.shape or len(value) < MIN_WRONG:
        return None
    if not (got.isfinite() & truth.isfinite() & value.isfinite()).all():
        return None
    variance, mean = torch.var_mean(value, 1, correction=0, keepdim=True)
    normal = (value - mean) * variance.rsqrt()
    about = normal - normal.mean(0)
    weighted = normal * (about * truth).sum(0) / about.square().sum(0)
    bias = (truth - weighted).mean(0)
    if not torch.allclose(weighted + bias, truth, rtol=1e-3, atol=1e-3 * float(truth.abs().max())):
        return None
    factor = slopes(got - bias, weighted)
    left = (got - bias - factor * weighted).square().sum()
    if left > 0.05 * (got - truth).square().sum() or (factor <= 0).any():
        return None
    return ((factor**-2 - 1).abs() * variance)[:, 0].where(result.wrong.any(1), 0.0)


def imprecise(result: WrongResult) -> Symptom | None:
    """Detect small errors of both signs everywhere, which come from too few bits in some step."""
    got, truth = result.got, result.truth
    if not rounds(result.dtype) or truth.is_complex() or result.wrong.sum() < MIN_WRONG:
        return None
    usable = got.isfinite() & truth.isfinite()
    error, size = (got - truth)[usable], truth[usable].square().mean().sqrt()
    loss = float(error.square().mean().sqrt() / size)
    if size == 0 or float(error.abs().max() / size) > 20 * loss:
        return None
    if abs((error * truth[usable].sign()).sign().mean()) > 0.3:
        slope = slopes(got[usable], truth[usable])
        left = (got[usable] - slope * truth[usable]).square().mean() / error.square().mean()
        return drifting(result) if loss < 0.05 and left < 0.25 else None
    if result.computes_in_half and loss <= MAX_LOSS_IN_HALF:
        cause = note("few-bits", dtype=dtype_name(result.dtype))
    elif result.hands_on_in_half and loss <= MAX_LOSS_IN_HALF:
        cause = note("handed-on-in-few-bits", dtype=dtype_name(result.dtype))
    elif result.dtype == torch.float64 and 2.0**-36 < loss < 2.0**-18:
        cause = note("step-in-float32")
    elif (
        result.dtype == torch.float32
        and 2.0**-16 < loss < 2.0**-7
        and (steps := [id for id, formats in LOWER.items() if result.rounds_to(formats)])
    ):
        cause = note("step-in-lower-precision", steps=[*map(note, steps)])
    else:
        return None
    return Symptom(note("small-errors", loss=loss), cause, strong=False)


def whole_numbers(result: WrongResult) -> Symptom | None:
    """Detect errors that are integers in a result that should be integers."""
    got = result.got[result.wrong]
    if not rounds(result.dtype) or got.is_complex() or not got.isfinite().all():
        return None
    # Terms are those of a sum, and what is computed element by element sums nothing.
    shapes = {tuple(value.shape) for value in result.inputs.values()}
    if shapes == {tuple(result.truth.shape)}:
        return None
    finite = result.truth[result.truth.isfinite()]
    if len(got) < MIN_WRONG or (finite != finite.round()).any() or (got != got.round()).any():
        return None
    return Symptom(note("off-by-whole-numbers"), note("terms-wrong"), strong=False)
