"""What is said about a wrong result: where it is wrong, in what pattern, and the likely cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kernelgauge.diagnosis.other_cases import NO_EVIDENCE, Evidence
from kernelgauge.diagnosis.source import UNKNOWN, Source
from kernelgauge.diagnosis.symptoms import GUESSES, find, mistake
from kernelgauge.diagnosis.wrong_result import MIN_WRONG, Mistake, Symptom, WrongResult
from kernelgauge.memory.nonfinite import Origin
from kernelgauge.memory.watch import Store
from kernelgauge.numerics.compare import Mismatch
from kernelgauge.words.fault import Cause, Fault, Note, Place, note

MAP_HEIGHT = 16
MAP_WIDTH = 32
MIN_BLOCK = 8


@dataclass(frozen=True)
class Region:
    """Where the wrong elements are, along one dimension or on one side of the diagonal.

    cause: the usual cause of that
    """

    where: Note
    cause: Note | None = None


def describe(
    got: torch.Tensor,
    truth: torch.Tensor,
    mismatch: Mismatch,
    *,
    inputs: Mapping[str, torch.Tensor] | None = None,
    mistakes: Iterable[Mistake] = (),
    anything: bool = True,
    source: Source = UNKNOWN,
    evidence: Evidence = NO_EVIDENCE,
    stored: Store | None = None,
    origin: Origin | None = None,
    at_fault: Callable[[], Cause | None] = lambda: None,
    known: Cause | None = None,
) -> Fault:
    """Return what is wrong with a result, where, in which pattern, and the likely cause.

    got, truth, mismatch: as `numerics.compare` took and returned them
    inputs: what the subject was called with, by name; it must not have changed them
    mistakes: tried in this order until one gives this result
    anything: masked lanes may have held anything; False if each load has an `other`
    source: what is known about the learner's code
    evidence: what other cases say of a cause
    stored: which program stored the worst element, and on which line
    origin: what made NaN or infinity, if that is known
    known: the cause that a run has shown, so that neither a mistake nor a pattern needs to
    at_fault: finds what makes the difference to a call that is right, if that is to be found
    """
    result = WrongResult(got, truth, mismatch, inputs, mistakes, anything, source, origin)
    drifts = result.drift is not None
    regions = [] if drifts else where(result.wrong)
    made = None if known or drifts else mistake(result, evidence)
    symptoms = [] if made else find(result)

    fault = mismatch.fault()
    said = [*fault.said]
    if stored:
        line, *callers = map(_line, (stored.line, *stored.line.callers))
        said.append(note("stored-by", program=stored.program, line=line, callers=callers))
    if origin and origin.said:
        said.append(note("comes-from", origin=origin.said))
    if regions:
        said.append(note("where-wrong", regions=[region.where for region in regions]))
        # A mistake that explains the whole result needs no map of the wrong elements.
        if not made and (drawn := draw(result)):
            said.append(drawn)
    if symptoms:
        said.append(note("patterns", patterns=[symptom.pattern for symptom in symptoms]))
    cause = known or made or _suggested(result, symptoms, regions, evidence, at_fault)
    return fault.but(said=tuple(said), program=stored and stored.program, cause=cause)


def _line(place: Place) -> Note:
    return note("line", file=place.file, line=place.line, source=place.source)


def _suggested(
    result: WrongResult,
    symptoms: list[Symptom],
    regions: list[Region],
    evidence: Evidence,
    at_fault: Callable[[], Cause | None],
) -> Cause | None:
    """Return the likeliest cause of those that symptoms and regions suggest."""

    def is_told(cause: Note) -> bool:
        if cause.id not in GUESSES:
            return True
        # What is wrong elsewhere is known, and likelier.
        return not evidence.named and evidence.shows(cause, causes_of)

    strong = [symptom.cause for symptom in symptoms if symptom.strong]
    cause = next(filter(is_told, strong), None)
    # Of NaN and infinity the symptoms know more.
    if cause is None and result.got[result.wrong].isfinite().all() and (found := at_fault()):
        return found
    cause = cause or next(filter(is_told, _causes(symptoms, regions)), None)
    return Cause(cause) if cause else None


def causes_of(result: WrongResult) -> list[Note]:
    """Return what a wrong result by itself suggests as its cause, the likeliest first."""
    return _causes(find(result), [] if result.drift is not None else where(result.wrong))


def _causes(symptoms: list[Symptom], regions: list[Region]) -> list[Note]:
    causes = [symptom.cause for symptom in symptoms if symptom.strong]
    causes += [region.cause for region in regions if region.cause]
    return causes + [symptom.cause for symptom in symptoms]


def where(wrong: torch.Tensor) -> list[Region]:
    """Describe which part of the result is wrong. wrong: bool, of any shape."""
    if wrong.numel() < 2:
        return []
    if wrong.all():
        return [Region(note("every-element"))]
    if wrong.dim() >= 2 and (triangle := _by_diagonal(wrong)):
        return [triangle]
    regions = []
    for dim, length in enumerate(wrong.shape):
        others = tuple(d for d in range(wrong.dim()) if d != dim)
        hit = wrong.any(dim=others) if others else wrong
        if length > 1 and not hit.all():
            regions.append(_along(hit, dim, wrong.dim()))
    if regions:
        return regions
    share = float(wrong.double().mean())
    return [Region(note("nearly-every-element") if share > 0.9 else note("scattered", share=share))]


def draw(result: WrongResult) -> Note | None:
    """Draw the result as a small map, one character per tile; None if it would show nothing."""
    wrong = result.wrong
    if wrong.sum() < MIN_WRONG:
        return None
    nan = wrong & result.got.isnan()
    part = result.worst[:-2]
    wrong, nan = wrong[part], nan[part]
    if wrong.dim() == 1:
        tile = (1, -(-wrong.numel() // (MAP_HEIGHT * MAP_WIDTH)))
        wrong, nan = wrong[None], nan[None]
    else:
        tile = -(-wrong.shape[0] // MAP_HEIGHT), -(-wrong.shape[1] // MAP_WIDTH)
    some, whole, hole = _any(wrong, tile), ~_any(~wrong, tile), _any(nan, tile)
    if some.double().mean() > 0.95:
        return None
    kinds = (some.int() + whole.int()).where(~hole, 3)
    rows = ["".join(".xX?"[kind] for kind in row) for row in kinds.tolist()]
    if result.wrong.dim() == 1:
        rows = [rows[0][i : i + MAP_WIDTH] for i in range(0, len(rows[0]), MAP_WIDTH)]
    return note("map", rows=rows, shape=list(result.wrong.shape), tile=list(tile), part=list(part))


def _along(hit: torch.Tensor, dim: int, dims: int) -> Region:
    """Describe the wrong indices along one of so many dimensions. hit: bool (length,)"""
    indices = hit.nonzero()[:, 0].tolist()
    length, first, last = len(hit), indices[0], indices[-1]

    def said(id: str, **values: Any) -> Note:
        return note(id, dim=dim, dims=dims, **values)

    if len(indices) == 1:
        return Region(said("only-index", index=first, last=first == length - 1))
    step = indices[1] - first
    block = first & -first
    if indices == list(range(first, length)) and block >= MIN_BLOCK:
        if length - first < block:
            blocks = _blocks(first, length)
            tile = said("last-partial-tile", first=first, last=last, blocks=blocks)
            return Region(tile, note("last-tile-wrong"))
        return Region(said("all-after", first=first, last=last), note("tiles-left-out"))
    if step == 1 and last - first == len(indices) - 1:
        return Region(said("index-range", first=first, last=last))
    if len(indices) > 3 and step > 1 and indices == list(range(first, last + 1, step)):
        whole = first < step and last + step >= length
        nth = said("every-nth", indices=indices[:3], step=step)
        return Region(nth, note("unit-wrong") if whole else None)
    some = said("some-indices", indices=indices[:6], count=len(indices), length=length)
    return Region(some)


def _blocks(first: int, length: int) -> list[int]:
    """Return the smallest and the largest power of two whose last tile begins at `first`."""
    sizes = [2**k for k in range(3, 20) if first % 2**k == 0 and length - first < 2**k]
    return sorted({sizes[0], sizes[-1]})


def _by_diagonal(wrong: torch.Tensor) -> Region | None:
    """Describe elements on the diagonal only, or on one side of it and next to it."""
    rows, columns = wrong.reshape(-1, *wrong.shape[-2:]).any(0).nonzero(as_tuple=True)
    ahead = columns - rows
    if rows.unique().numel() < MIN_WRONG or columns.unique().numel() < MIN_WRONG:
        return None
    if (ahead == ahead[0]).all():
        diagonal = note("on-the-diagonal", ahead=int(ahead[0]))
        return Region(diagonal, note("diagonal-off-by-one"))
    touching = (ahead.abs() == 1).sum() * 2 > min(wrong.shape[-2:])
    for side, beyond in (
        ("above-the-diagonal", ahead > 0),
        ("below-the-diagonal", ahead < 0),
    ):
        if touching and beyond.all():
            return Region(note(side), note("triangle-wrong"))
    return None


def _any(flags: torch.Tensor, tile: tuple[int, int]) -> torch.Tensor:
    """Return whether any flag in each tile of a 2-d tensor is set; edge tiles may be smaller."""
    pooled = torch.nn.functional.max_pool2d(flags[None].float(), tile, ceil_mode=True)
    return pooled[0] > 0
