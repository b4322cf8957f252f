"""Symptoms in which the right values stand in the wrong places: see symptoms.py."""

from __future__ import annotations

import torch

from judge.core.dtypes import rounds
from judge.diagnosis.wrong_result import MIN_WRONG, Symptom, WrongResult, axis_names

MAX_REPEATED_SLICES = 16


def _moved(
    result: WrongResult, alternative: torch.Tensor, among: torch.Tensor | None = None
) -> bool:
    """As `fits`, for values that differ: equal ones fit wherever they are moved."""
    return result.varied(result.got[result.wrong]) and result.fits(alternative, among)


def transposed(result: WrongResult) -> Symptom | None:
    truth = result.truth
    if truth.dim() < 2 or 1 in truth.shape[-2:]:
        return None
    if _moved(result, truth.mT.reshape(truth.shape)):
        return Symptom(
            "the result is the transpose of the expected one",
            "rows and columns swapped: in the offsets of a load or store, or in the strides",
        )
    return None


def mirrored(result: WrongResult) -> Symptom | None:
    for dim in range(result.truth.dim()):
        if result.wrong_along(dim).sum() > 2 and _moved(result, result.truth.flip(dim)):
            return Symptom(
                f"the wrong elements are in reverse order along dimension {dim}",
                "an offset that runs backwards",
            )
    return None


def shifted(result: WrongResult) -> Symptom | None:
    for dim, length in enumerate(result.truth.shape):
        steps = [step for step in (1, 2, 3, 4, 8, 16, 32, 64, 128) if 2 * step < length]
        position = torch.arange(length).view(
            [-1 if d == dim else 1 for d in range(result.truth.dim())]
        )
        for step in steps:
            for signed in (step, -step):
                inside = (position - signed >= 0) & (position - signed < length)
                alternative = result.truth.roll(signed, dim)
                inside = inside.expand_as(result.truth)
                whole = 2 * (result.wrong & inside).sum() > result.wrong.sum()
                if whole and _moved(result, alternative, inside):
                    side = "before" if signed > 0 else "after"
                    return Symptom(
                        f"each wrong element is what is expected {step} {side} it along "
                        f"dimension {dim}",
                        f"an offset that is off by {step}",
                    )
    return None


def out_of_place(result: WrongResult) -> Symptom | None:
    """The same values elsewhere: sorted, they are equal, and single ones are far off."""
    got, truth = result.got[result.wrong], result.truth[result.wrong]
    if got.is_complex() or len(got) < 2 * MIN_WRONG or not got.isfinite().all():
        return None
    got, truth = got.sort().values, truth.sort().values
    allowed = result.allowed[result.wrong].max()
    moved = (result.got - result.truth)[result.wrong].abs().median()
    if ((got - truth).abs() <= allowed).all() and moved > 100 * allowed:
        return Symptom(
            "the right values stand in the wrong places",
            "offsets of the store, or of a load, that use the wrong stride or index",
        )
    return None


def restarted(result: WrongResult) -> Symptom | None:
    """Right within each block, without what the blocks before it left."""
    truth = result.truth
    if truth.dim() < 1 or truth.is_complex():
        return None
    position = torch.arange(truth.shape[-1])
    for block in (2**k for k in range(3, 14)):
        before = position // block * block - 1
        carry = truth[..., before.clamp(min=0)].where(before >= 0, 0.0)
        if block < truth.shape[-1] and result.fits(truth - carry):
            return Symptom(
                f"the result begins again every {block} elements",
                "a carry from block to block that is missing",
            )
        if not rounds(result.dtype) and result.fits(truth % block):
            return Symptom(
                f"the result is the expected one modulo {block}",
                "an index that is counted within its block: the start of the block is not added",
            )
    return None


def repeated(result: WrongResult) -> Symptom | None:
    """Slices that hold what is expected in others."""
    truth = result.truth
    for dim, length in enumerate(truth.shape):
        places = result.wrong_along(dim).nonzero()[:, 0].tolist()
        if truth.dim() < 2 or len(places) > MAX_REPEATED_SLICES or 2 * len(places) > length:
            continue
        found = [
            other
            for place in places
            for other in range(length)
            if other != place and _is_slice(result, dim, place, other)
        ]
        if len(found) == len(places):
            axis = axis_names(dim, truth.dim())[0]
            return Symptom(
                f"{axis} {places[0]} holds what is expected in {axis} {found[0]}",
                "the data or the place of another step or program: an index that is not moved on",
            )
    return None


def _is_slice(result: WrongResult, dim: int, place: int, other: int) -> bool:
    got, expected = result.got.select(dim, place), result.truth.select(dim, other)
    slack = 0.0 if result.exact else 2 * result.allowed.select(dim, other)
    return result.varied(expected) and bool(((got - expected).abs() <= slack).all())
