"""Symptoms in which the right values stand in the wrong places: see symptoms.py."""

from __future__ import annotations

import torch

from judge.evidence import LEAST, Evidence, Symptom, rounds


def _moved(
    evidence: Evidence, alternative: torch.Tensor, among: torch.Tensor | None = None
) -> bool:
    """As `fits`, for values that differ: equal ones fit wherever they are moved."""
    return evidence.varied(evidence.got[evidence.wrong]) and evidence.fits(alternative, among)


def transposed(evidence: Evidence) -> Symptom | None:
    truth = evidence.truth
    if truth.dim() < 2 or 1 in truth.shape[-2:]:
        return None
    if _moved(evidence, truth.mT.reshape(truth.shape)):
        return Symptom(
            "the result is the transpose of the expected one",
            "rows and columns swapped: in the offsets of a load or store, or in the strides",
        )
    return None


def mirrored(evidence: Evidence) -> Symptom | None:
    for dim, length in enumerate(evidence.truth.shape):
        if length > 2 and _moved(evidence, evidence.truth.flip(dim)):
            return Symptom(
                f"the wrong elements are in reverse order along dimension {dim}",
                "an offset that runs backwards",
            )
    return None


def shifted(evidence: Evidence) -> Symptom | None:
    for dim, length in enumerate(evidence.truth.shape):
        steps = [step for step in (1, 2, 3, 4, 8, 16, 32, 64, 128) if 2 * step < length]
        position = torch.arange(length).view(
            [-1 if d == dim else 1 for d in range(evidence.truth.dim())]
        )
        for step in steps:
            for signed in (step, -step):
                inside = (position - signed >= 0) & (position - signed < length)
                alternative = evidence.truth.roll(signed, dim)
                inside = inside.expand_as(evidence.truth)
                whole = 2 * (evidence.wrong & inside).sum() > evidence.wrong.sum()
                if whole and _moved(evidence, alternative, inside):
                    side = "before" if signed > 0 else "after"
                    return Symptom(
                        f"each wrong element is what is expected {step} {side} it along "
                        f"dimension {dim}",
                        f"an offset that is off by {step}",
                    )
    return None


def out_of_place(evidence: Evidence) -> Symptom | None:
    """The same values elsewhere: sorted, they are equal, and single ones are far off."""
    got, truth = evidence.got[evidence.wrong], evidence.truth[evidence.wrong]
    if got.is_complex() or len(got) < 2 * LEAST or not got.isfinite().all():
        return None
    got, truth = got.sort().values, truth.sort().values
    allowed = evidence.allowed[evidence.wrong].max()
    moved = (evidence.got - evidence.truth)[evidence.wrong].abs().median()
    if ((got - truth).abs() <= allowed).all() and moved > 100 * allowed:
        return Symptom(
            "the right values stand in the wrong places",
            "offsets of the store, or of a load, that use the wrong stride or index",
        )
    return None


def restarted(evidence: Evidence) -> Symptom | None:
    """Right within each block, without what the blocks before it left."""
    truth = evidence.truth
    if truth.dim() < 1 or truth.is_complex():
        return None
    position = torch.arange(truth.shape[-1])
    for block in (2**k for k in range(3, 14)):
        before = position // block * block - 1
        carry = truth[..., before.clamp(min=0)].where(before >= 0, 0.0)
        if block < truth.shape[-1] and evidence.fits(truth - carry):
            return Symptom(
                f"the result begins again every {block} elements",
                "a carry from block to block that is missing",
            )
        if not rounds(evidence.dtype) and evidence.fits(truth % block):
            return Symptom(
                f"the result is the expected one modulo {block}",
                "an index that is counted within its block: the start of the block is not added",
            )
    return None


def tie(evidence: Evidence) -> Symptom | None:
    """Indices of equal values: the wrong one of them was chosen."""
    if rounds(evidence.dtype) or evidence.truth.dim() != 1:
        return None
    rows = evidence.wrong.nonzero()[:, 0]
    for name, value in evidence.inputs.items():
        if value.dim() != 2 or len(value) != len(evidence.truth):
            continue
        got, expected = evidence.got[rows].long(), evidence.truth[rows].long()
        inside = (got >= 0) & (got < value.shape[1])
        if inside.all() and (value[rows, got] == value[rows, expected]).all():
            side = "a later" if (got > expected).all() else "another"
            return Symptom(
                f"{name} holds the same value at both indices, and {side} one was chosen",
                "ties that are not broken in favour of the first index",
            )
    return None
