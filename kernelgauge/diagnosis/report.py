"""What is said about a wrong result: where it is wrong, in what pattern, and the likely cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelgauge.diagnosis.symptoms import find
from kernelgauge.diagnosis.wrong_result import MIN_WRONG, WrongResult
from kernelgauge.memory.nonfinite import Origin
from kernelgauge.memory.watch import Overwritten, Store
from kernelgauge.numerics.compare import Mismatch
from kernelgauge.words.fault import PROVEN, Cause, Fault, Note, Place, note

MAP_HEIGHT = 16
MAP_WIDTH = 32
MIN_BLOCK = 8


@dataclass(frozen=True)
class Region:
    """Where the wrong elements are, along one dimension or on one side of the diagonal.

    cause: the usual cause of that
    left_out: of tiles that may be left out, the dimension and the first index
    """

    where: Note
    cause: Note | None = None
    left_out: tuple[int, int] | None = None


@dataclass(frozen=True)
class Suggestions:
    """What a wrong result by itself suggests.

    patterns: what it has in common with others that have such a cause
    strong: the causes of patterns that explain the wrong elements by themselves
    causes: these and all others, the likeliest first
    left_out: of tiles that may be left out, along which dimension from which index on
    """

    patterns: list[Note]
    strong: list[Note]
    causes: list[Note]
    left_out: list[tuple[int, int]]


def facts(
    mismatch: Mismatch,
    stored: Store | None,
    origin: Origin | None,
    overwritten: Overwritten | None = None,
) -> Fault:
    """Return what is known of a wrong result without a look at its pattern.

    stored: which program stored the worst element, and on which line
    origin: what made NaN or infinity, if that is known
    overwritten: which program lost what it stored for others
    """
    fault = mismatch.fault()
    said = [*fault.said]
    if stored:
        line, *callers = map(_line, (stored.line, *stored.line.callers))
        said.append(note("stored-by", program=stored.program, line=line, callers=callers))
    if origin and origin.said:
        said.append(note("comes-from", origin=origin.said))
    if overwritten:
        line, element = _line(overwritten.line), overwritten.element
        said.append(note("overwritten", program=overwritten.program, element=element, line=line))
    return fault.but(said=tuple(said), program=stored and stored.program)


def _line(place: Place) -> Note:
    return note("line", file=place.file, line=place.line, source=place.source)


def describe(
    fault: Fault, result: WrongResult, cause: Cause | None, patterns: Sequence[Note]
) -> Fault:
    """Return the fault with where the result is wrong, in which pattern, and the cause.

    patterns: nothing where a mistake explains the whole result, which then needs no map either
    """
    said = [*fault.said]
    if regions := _regions(result):
        said.append(note("where-wrong", regions=[region.where for region in regions]))
        if not (cause and cause.known == PROVEN) and (drawn := draw(result)):
            said.append(drawn)
    if patterns:
        said.append(note("patterns", patterns=list(patterns)))
    if fault.config:
        said.append(note("with-config", config=fault.config))
    return fault.but(said=tuple(said), cause=cause)


def suggestions(result: WrongResult) -> Suggestions:
    """Return what a wrong result by itself suggests."""
    symptoms = find(result)
    strong = [symptom.cause for symptom in symptoms if symptom.strong]
    regions = _regions(result)
    causes = strong + [region.cause for region in regions if region.cause]
    causes += [symptom.cause for symptom in symptoms]
    patterns = [symptom.pattern for symptom in symptoms if symptom.pattern]
    left_out = [region.left_out for region in regions if region.left_out]
    return Suggestions(patterns, strong, causes, left_out)


def _regions(result: WrongResult) -> list[Region]:
    return [] if result.drift is not None else where(result.wrong)


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
        after = said("all-after", first=first, last=last)
        return Region(after, note("tiles-left-out"), (dim, first))
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
