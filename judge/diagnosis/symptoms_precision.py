"""Symptoms of too few bits, and of errors that are too regular for that: see symptoms.py."""

from __future__ import annotations

import torch

from judge.core.dtypes import dtype_name, rounds
from judge.diagnosis.wrong_result import MIN_WRONG, Symptom, WrongResult

# Elements, at least, in which a dependence on the value can be seen, and how much less neighbours
# in value differ from one another than they would by chance.
SMOOTH_AMONG = 20
SMOOTH = 0.25

# Errors are small up to this part of the typical size.
SMALL = 2.0**-5

NARROWER = {
    torch.float16: (torch.bfloat16,),
    torch.float32: (torch.bfloat16, torch.float16),
    torch.float64: (torch.bfloat16, torch.float16, torch.float32),
    torch.complex64: (torch.bfloat16, torch.float16),
}

HALF = (torch.float16, torch.bfloat16)

# A factor that differs from 1 by less than this is no constant of a formula.
NEAR_ONE = 1e-3
NEARLY_RIGHT = (
    "a factor near 1 that is wrong (N in place of N - 1, a rounded constant, an eps added to a "
    "divisor), or a cast that cuts bits off"
)


def times(ratio: float) -> str:
    """A factor in words, so that one near 1 does not read as 1."""
    if abs(ratio - 1) < NEAR_ONE:
        return f"1 {'-' if ratio < 1 else '+'} {abs(ratio - 1):.1g} times"
    return f"{ratio:.5g} times"


def slopes(got: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """The factor from truth to got, by least squares, along the last dimension, which stays."""
    products, squares = (got * truth.conj()).real, truth.abs().square()
    return products.sum(-1, keepdim=True) / squares.sum(-1, keepdim=True)


def drifting(result: WrongResult) -> Symptom:
    usable = result.got.isfinite() & result.truth.isfinite()
    got, truth = result.got[usable], result.truth[usable]
    slope = float(slopes(got, truth))
    return Symptom(f"taken together, the result is {times(slope)} the expected one", NEARLY_RIGHT)


def narrower(result: WrongResult) -> Symptom | None:
    """Every value is a number of a narrower dtype."""
    if result.dtype not in NARROWER:
        return None
    values, truth = result.got.real, result.truth.real
    # Numbers too small for their dtype have few bits of their own.
    normal = values.isfinite() & (values.abs() >= torch.finfo(result.dtype).smallest_normal)
    values, truth = values[normal], truth[truth.isfinite()]
    if values.unique().numel() < 16:
        return None
    for dtype in NARROWER[result.dtype]:
        expected = (truth.to(dtype).double() == truth).double().mean()
        if expected < 0.5 and (values.to(dtype).double() == values).all():
            name = dtype_name(dtype)
            return Symptom(
                f"every value is exactly a {name} number",
                f"a cast to {name} before the last step",
            )
    return None


def row_sums(result: WrongResult) -> Symptom | None:
    """Each row is off by a factor near 1 of its own."""
    got, truth = result.got, result.truth
    if result.dtype not in HALF or truth.dim() < 2:
        return None
    usable = got.isfinite() & truth.isfinite()
    got, truth = got.where(usable, 0), truth.where(usable, 0)
    factors = slopes(got, truth)
    factors = factors.where(factors.isfinite(), 1)
    off = (factors - 1).abs().max()
    left = (got - factors * truth).square().sum() / (got - truth).square().sum()
    if off > 64 * result.eps or left > 0.25 or factors.max() - factors.min() < 0.1 * off:
        return None
    return Symptom(
        "each row is off by a factor of its own, from "
        f"{times(float(factors.min()))} to {times(float(factors.max()))} the expected one",
        "too few bits on the way in what a whole row shares: its sum accumulated in "
        f"{dtype_name(result.dtype)} and not in float32, or a term of it that is wrong",
    )


def approximated(result: WrongResult) -> Symptom | None:
    """Small errors that depend on the value alone: neighbours in value are off by like amounts."""
    got, truth = result.got, result.truth
    if not rounds(result.dtype) or truth.is_complex():
        return None
    # More than the last rounding may do, wrong or not.
    usable = got.isfinite() & truth.isfinite() & ((got - truth).abs() > result.eps * truth.abs())
    if usable.sum() < SMOOTH_AMONG:
        return None
    error, size = (got - truth)[usable], truth[truth.isfinite()].square().mean().sqrt()
    if error.square().mean().sqrt() > SMALL * size:
        return None
    for name, value in (*result.alike(), ("the expected value", truth)):
        key = value[usable]
        if key.unique().numel() < SMOOTH_AMONG:
            continue
        along = error[key.argsort()]
        # Of independent errors, neighbours differ by twice the variance on average.
        if along.diff().square().mean() < SMOOTH * 2 * along.var():
            cause = (
                "a formula that is off: a term or a constant of it is wrong, or it only comes near"
            )
            if result.dtype in HALF:
                cause += (
                    "; or a sum that is rounded again and again: accumulated in "
                    f"{dtype_name(result.dtype)} and not in float32"
                )
            return Symptom(
                f"the errors are small and follow {name}: where it is alike, so are they", cause
            )
    return None


def cancelled(result: WrongResult) -> Symptom | None:
    """A variance of rows far from zero, off by what float32 cannot hold of their squares."""
    if result.dtype != torch.float32 or result.truth.dim() != 1:
        return None
    error = (result.got - result.truth).abs()[result.wrong]
    for name, value in result.inputs.items():
        rows = value.dim() == 2 and len(value) == len(result.truth)
        if not rows or value.shape[1] < 2 or not rounds(value.dtype):
            continue
        square = value.mean(1)[result.wrong].square()
        far = value.var(1)[result.wrong] < 1e-3 * square
        lost = error / (2.0**-24 * square)
        if far.all() and lost.max() < 64 and lost.median() > 1 / 16:
            return Symptom(
                f"the errors are as large as what float32 loses of the square of {name}'s mean",
                "the mean of the squares less the square of the mean, two large numbers that are "
                "nearly equal: subtract the mean from each element first",
            )
    return None


def imprecise(result: WrongResult) -> Symptom | None:
    """Small errors of both signs, all over: too few bits somewhere."""
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
    look = f"the errors are small ({loss:.1g} of the size), of both signs, and have no pattern"
    if result.dtype in HALF:
        if loss > 64 * result.eps:
            return None
        name = dtype_name(result.dtype)
        return Symptom(
            look,
            f"too few bits on the way: a sum accumulated in {name} and not in float32, or a "
            "difference of large numbers",
            strong=False,
        )
    if result.dtype == torch.float64 and 2.0**-36 < loss < 2.0**-18:
        return Symptom(look, "a step computed in float32", strong=False)
    if result.dtype == torch.float32 and 2.0**-16 < loss < 2.0**-7:
        return Symptom(
            look,
            "a step in lower precision: a tl.dot in tf32 (input_precision), or a cast to half "
            "precision on the way",
            strong=False,
        )
    return None


def whole_numbers(result: WrongResult) -> Symptom | None:
    got = result.got[result.wrong]
    if not rounds(result.dtype) or got.is_complex() or not got.isfinite().all():
        return None
    finite = result.truth[result.truth.isfinite()]
    if len(got) < MIN_WRONG or (finite != finite.round()).any() or (got != got.round()).any():
        return None
    return Symptom(
        "the inputs make exact whole numbers, and the result is off by whole numbers",
        "terms that are lost or counted twice, not rounding",
        strong=False,
    )
