"""Symptoms of right values in the wrong places: see symptoms.py."""

from __future__ import annotations

import itertools

import torch

from kernelgauge.core.dtypes import rounds
from kernelgauge.diagnosis.wrong_result import MIN_WRONG, Symptom, WrongResult
from kernelgauge.words.fault import note

SCANS = {"cumsum", "cumprod", "associative_scan"}
# So many times what is allowed are elements off that are in other places.
FAR = 20
# Slices along more places are not compared, and of each so many elements before all are.
MAX_SLICES, MAX_SAMPLED = 1024, 32
# So many are compared with all others at once, which takes 16 MB.
CHUNK = 64


def transposed(result: WrongResult) -> Symptom | None:
    """Detect the transpose of the expected result."""
    truth = result.truth
    if truth.dim() < 2 or 1 in truth.shape[-2:]:
        return None
    if result.varied(result.got[result.wrong]) and result.fits(truth.mT.reshape(truth.shape)):
        return Symptom(note("transposed"), note("rows-and-columns-swapped"))
    return None


def of_the_other_axis(result: WrongResult) -> Symptom | None:
    """Name a reduction whose values are used for the axis that it removed."""
    if (line := result.source.other_axis) is None:
        return None
    return Symptom(None, note("reduced-along-the-other-axis", line=line.number, source=line.text))


def out_of_place(result: WrongResult) -> Symptom | None:
    """Detect values in other places: equal once sorted, though single elements are far off."""
    got, truth = result.got[result.wrong], result.truth[result.wrong]
    if got.is_complex() or len(got) < 2 * MIN_WRONG or not got.isfinite().all():
        return None
    got, truth = got.sort().values, truth.sort().values
    allowed = result.allowed[result.wrong].max()
    moved = (result.got - result.truth)[result.wrong].abs().median()
    if not ((got - truth).abs() <= allowed).all() or moved <= FAR * allowed:
        return None
    strides = result.got.stride()
    if (
        not result.got.is_contiguous()
        and result.got.untyped_storage().nbytes() == 8 * result.got.numel()
    ):
        stored = result.truth.flatten().as_strided(result.truth.shape, strides)
        if result.fits(stored):
            return Symptom(note("out-of-place"), note("stored-as-contiguous", strides=strides))
    for order in itertools.permutations(range(result.truth.dim())):
        if result.fits(result.truth.permute(order).reshape(result.truth.shape)):
            return Symptom(note("out-of-place"), note("dimensions-in-another-order", order=order))
    return Symptom(note("out-of-place"), note("offsets-wrong"))


def of_another(result: WrongResult) -> Symptom | None:
    """Detect slices along a dimension, such as rows, that are what others should be."""
    got, truth = result.got, result.truth
    if truth.is_complex() or not got.isfinite().all() or not truth.isfinite().all():
        return None
    for dim, size in enumerate(truth.shape):
        others = tuple(it for it in range(truth.dim()) if it != dim)
        hit = result.wrong.any(others) if others else result.wrong
        at = hit.nonzero()[:, 0][:MAX_SLICES]
        if not others or not MIN_WRONG <= size <= MAX_SLICES or len(at) < MIN_WRONG:
            continue
        own, right = (x.movedim(dim, 0).flatten(1) for x in (got, truth))
        if right.shape[1] < MIN_WRONG or not _all_differ(right):
            continue
        slack = 2 * result.allowed.movedim(dim, 0).flatten(1) + 4 * result.eps * own.abs()
        places = torch.linspace(0, right.shape[1] - 1, MAX_SAMPLED).long().unique()
        alike = torch.cat(
            [
                _alike(own[some][:, places], right[:, places], slack[some][:, places])
                for some in at.split(CHUNK)
            ]
        )
        found = alike.argmax(1)
        same = ((own[at] - right[found]).abs() <= slack[at]).double().mean(1) > 0.98
        if same.double().mean() < 0.9 or (found[same] == at[same]).any():
            continue
        if ((alike > 0.9).sum(1) > 1).any():
            continue
        first = int(same.nonzero()[0, 0])
        said = {"dim": dim, "dims": truth.dim(), "count": int(same.sum())}
        pair = {"index": int(at[first]), "other": int(found[first])}
        return Symptom(note("slices-of-others", **said), note("holds-another", **said, **pair))
    return None


def _alike(some: torch.Tensor, others: torch.Tensor, slack: torch.Tensor) -> torch.Tensor:
    """Return what share of each of some rows is the same in each other row."""
    near = (some[:, None] - others[None]).abs() <= slack[:, None]
    return near.double().mean(-1)


def _all_differ(rows: torch.Tensor) -> bool:
    """Return whether no two rows are the same."""
    return len(rows.unique(dim=0)) == len(rows)


def restarted(result: WrongResult) -> Symptom | None:
    """Detect a result that is right within each block but ignores the blocks before it."""
    truth = result.truth
    if truth.dim() < 1 or truth.is_complex():
        return None
    position = torch.arange(truth.shape[-1])
    for block in (2**k for k in range(3, 14)):
        before = position // block * block - 1
        carry = truth[..., before.clamp(min=0)].where(before >= 0, 0.0)
        if block < truth.shape[-1] and result.fits(truth - carry):
            return Symptom(note("starts-over", block=block), note("carry-missing"))
        if not rounds(result.dtype) and result.fits(truth % block):
            return Symptom(note("modulo-block", block=block), note("block-start-missing"))
    return None


def carried_wrongly(result: WrongResult) -> Symptom | None:
    """Detect a scan that is right in its first block, and off by one number in each later one."""
    truth, got = result.truth, result.got
    if truth.dim() < 1 or truth.is_complex() or not result.source.uses(SCANS, otherwise=False):
        return None
    size = truth.shape[-1]
    if not (off := got - truth).isfinite().all():
        return None
    for block in (2**k for k in range(13, 2, -1)):
        if 2 * block > size or result.wrong[..., :block].any():
            continue
        starts = torch.arange(size) // block * block
        guess = truth + off[..., starts]
        if result.fits(guess) and result.wrong[..., block::block].any():
            return Symptom(note("off-by-block", block=block), note("carry-wrong"))
    return None
