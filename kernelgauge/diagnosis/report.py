"""The message about a wrong result: where it is wrong, in what pattern, and the likely cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import torch

from kernelgauge.diagnosis.other_cases import NO_EVIDENCE, Evidence
from kernelgauge.diagnosis.source import UNKNOWN, Source
from kernelgauge.diagnosis.symptoms import GUESSES, find
from kernelgauge.diagnosis.wrong_result import MIN_WRONG, Mistake, Symptom, WrongResult
from kernelgauge.memory.nonfinite import Origin
from kernelgauge.numerics.compare import Mismatch
from kernelgauge.words import say

MAP_HEIGHT = 16
MAP_WIDTH = 32
MIN_BLOCK = 8


@dataclass(frozen=True)
class Place:
    """A phrase that says where the wrong elements are, and the usual cause of that."""

    phrase: str
    cause: str | None = None


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
    stored: str | None = None,
    origin: Origin | None = None,
    at_fault: Callable[[], str | None] = lambda: None,
    known: bool = False,
) -> str:
    """Return the message about a wrong result: what is wrong, where, the pattern, the likely cause.

    got, truth, mismatch: as `numerics.compare` took and returned them
    inputs: what the subject was called with, by name; it must not have changed them
    mistakes: tried in this order until one gives this result
    anything: masked lanes may have held anything; False if each load has an `other`
    source: what is known about the learner's code
    evidence: what other cases say of a cause
    stored: which program stored the worst element, and on which line
    origin: what made NaN or infinity, if that is known
    known: whether another cause was shown by a run, so that no pattern needs to suggest one
    at_fault: finds what makes the difference to a call that is right, if that is to be found
    """
    result = WrongResult(got, truth, mismatch, inputs, mistakes, anything, source, origin)
    places = [] if result.drift is not None else where(result.wrong)
    symptoms = find(result, evidence)

    lines = [mismatch.message()]
    if stored:
        lines.append(f"stored by: {stored}")
    if origin and origin.said:
        lines.append(f"it comes from: {say(origin.said)}")
    if places:
        lines.append("where: " + "; ".join(place.phrase for place in places))
        # A mistake that explains the whole result needs no map of the wrong elements.
        if all(symptom.pattern for symptom in symptoms):
            lines += draw(result)
    if patterns := [symptom.pattern for symptom in symptoms if symptom.pattern]:
        lines.append("pattern: " + "; ".join(patterns))
    proven = [symptom.cause for symptom in symptoms if not symptom.pattern]
    strong = [symptom.cause for symptom in symptoms if symptom.pattern and symptom.strong]

    def is_told(cause: str) -> bool:
        if not cause.startswith(GUESSES):
            return True
        # What is wrong elsewhere is known, and likelier.
        return not evidence.named and evidence.shows(cause, causes_of)

    told = iter(()) if known else filter(is_told, _causes(symptoms, places))
    surest = () if known else filter(is_told, strong)
    cause = next(chain(proven, surest), None)
    if cause is None and not known and result.got[result.wrong].isfinite().all():
        # Of NaN and infinity the symptoms know more.
        cause = at_fault()
    if cause := cause or next(told, None):
        lines.append(f"likely cause: {cause}")
    return "\n".join(lines)


def causes_of(result: WrongResult) -> list[str]:
    """Return what a wrong result by itself suggests as its cause, the likeliest first."""
    return _causes(find(result), [] if result.drift is not None else where(result.wrong))


def _causes(symptoms: list[Symptom], places: list[Place]) -> list[str]:
    causes: list[str | None] = [symptom.cause for symptom in symptoms if symptom.strong]
    causes += [place.cause for place in places]
    causes += [symptom.cause for symptom in symptoms]
    return [cause for cause in causes if cause]


def where(wrong: torch.Tensor) -> list[Place]:
    """Describe which part of the result is wrong. wrong: bool, of any shape."""
    if wrong.numel() < 2:
        return []
    if wrong.all():
        return [Place("every element")]
    if wrong.dim() >= 2 and (triangle := _by_diagonal(wrong)):
        return [triangle]
    places = []
    for dim, length in enumerate(wrong.shape):
        others = tuple(d for d in range(wrong.dim()) if d != dim)
        hit = wrong.any(dim=others) if others else wrong
        if length > 1 and not hit.all():
            places.append(_along(hit, *_axis_names(dim, wrong.dim())))
    share = float(wrong.double().mean())
    return places or [Place("nearly every element" if share > 0.9 else f"scattered, {share:.0%}")]


def draw(result: WrongResult) -> list[str]:
    """Draw the result as a small map, one character per tile; no lines if it would show nothing."""
    wrong = result.wrong
    if wrong.sum() < MIN_WRONG:
        return []
    nan = wrong & result.got.isnan()
    part = ""
    if wrong.dim() > 2:
        leading = result.worst[:-2]
        wrong, nan = wrong[leading], nan[leading]
        part = f"[{', '.join(map(str, leading))}] of "
    if wrong.dim() == 1:
        tile = (1, -(-wrong.numel() // (MAP_HEIGHT * MAP_WIDTH)))
        wrong, nan, unit = wrong[None], nan[None], f"{tile[1]} elements"
    else:
        tile = -(-wrong.shape[0] // MAP_HEIGHT), -(-wrong.shape[1] // MAP_WIDTH)
        unit = f"tile of {tile[0]} x {tile[1]}"
    if tile == (1, 1):
        unit = "element"
    some, whole, hole = _any(wrong, tile), ~_any(~wrong, tile), _any(nan, tile)
    if some.double().mean() > 0.95:
        return []
    kinds = (some.int() + whole.int()).where(~hole, 3)
    marks = ["".join(".xX?"[kind] for kind in row) for row in kinds.tolist()]
    if result.wrong.dim() == 1:
        marks = [marks[0][i : i + MAP_WIDTH] for i in range(0, len(marks[0]), MAP_WIDTH)]
    shape = " x ".join(map(str, result.wrong.shape))
    head = (
        f"map of {part}the result ({shape}), one character per {unit}: "
        ". right, x partly wrong, X wrong, ? NaN"
    )
    return [head, *(f"    {line}" for line in marks)]


def _axis_names(dim: int, dims: int) -> tuple[str, str]:
    """Return what the indices of a dimension are called, one and many."""
    if dims == 1:
        return "element", "elements"
    names = {dims - 1: ("column", "columns"), dims - 2: ("row", "rows")}
    return names.get(dim, (f"dimension-{dim} index", f"dimension-{dim} indices"))


def _along(hit: torch.Tensor, one: str, many: str) -> Place:
    """Describe the wrong indices along one dimension, whose indices have these names.

    hit: bool (length,)
    """
    indices = hit.nonzero()[:, 0].tolist()
    length, first, last = len(hit), indices[0], indices[-1]
    if len(indices) == 1:
        return Place(f"only {one} {first}" + (" (the last)" if first == length - 1 else ""))
    step = indices[1] - first
    block = first & -first
    if indices == list(range(first, length)) and block >= MIN_BLOCK:
        if length - first < block:
            return Place(
                f"{many} {first}..{last}: only the last, partial tile "
                f"(blocks of {_blocks(first, length)})",
                "the mask of the last tile is wrong, or the grid leaves that tile out, because the "
                "size is not a multiple of the block",
            )
        return Place(
            f"{many} {first}..{last}: all after the first {first}",
            "the grid or a loop ends too early, or the mask of the last tile is wrong",
        )
    if step == 1 and last - first == len(indices) - 1:
        return Place(f"{many} {first}..{last}")
    if len(indices) > 3 and step > 1 and indices == list(range(first, last + 1, step)):
        shown = ", ".join(map(str, indices[:3]))
        number = {2: "second", 3: "third"}.get(step, f"{step}th")
        whole = first < step and last + step >= length
        cause = "an offset or a stride counts in the wrong unit" if whole else None
        return Place(f"{many} {shown}, ...: every {number}", cause)
    shown = ", ".join(map(str, indices[:6])) + (", ..." if len(indices) > 6 else "")
    return Place(f"{len(indices)} of {length} {many}: {shown}")


def _blocks(first: int, length: int) -> str:
    """Return the powers of two whose last tile begins at `first`, as text."""
    sizes = [2**k for k in range(3, 20) if first % 2**k == 0 and length - first < 2**k]
    return str(sizes[0]) + (f" to {sizes[-1]}" if len(sizes) > 1 else "")


def _by_diagonal(wrong: torch.Tensor) -> Place | None:
    """Describe elements on the diagonal only, or on one side of it and next to it."""
    rows, columns = wrong.reshape(-1, *wrong.shape[-2:]).any(0).nonzero(as_tuple=True)
    ahead = columns - rows
    if rows.unique().numel() < MIN_WRONG or columns.unique().numel() < MIN_WRONG:
        return None
    if (ahead == ahead[0]).all():
        name = "the diagonal" if ahead[0] == 0 else f"the diagonal column - row = {int(ahead[0])}"
        return Place(f"only {name}", "a comparison of row and column is off by one")
    touching = (ahead.abs() == 1).sum() * 2 > min(wrong.shape[-2:])
    for side, beyond in (("above", ahead > 0), ("below", ahead < 0)):
        if touching and beyond.all():
            cause = "a triangular mask is missing, or compares the wrong way round"
            return Place(f"only {side} the diagonal", cause)
    return None


def _any(flags: torch.Tensor, tile: tuple[int, int]) -> torch.Tensor:
    """Return whether any flag in each tile of a 2-d tensor is set; edge tiles may be smaller."""
    pooled = torch.nn.functional.max_pool2d(flags[None].float(), tile, ceil_mode=True)
    return pooled[0] > 0
