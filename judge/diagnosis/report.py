"""What a wrong result looks like: where it is wrong, in what way, and what that usually means.

Nothing here decides whether a result is wrong; `numerics.compare` does. A sentence is printed only
if a computation on the result found it to hold. What it may come from is worded as a likeness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from judge.diagnosis.source import UNKNOWN, Source
from judge.diagnosis.symptoms import find
from judge.diagnosis.wrong_result import MIN_WRONG, Mistake, WrongResult, axis_names
from judge.numerics.compare import Mismatch

MAP_HEIGHT = 16
MAP_WIDTH = 32
MIN_BLOCK = 8


@dataclass(frozen=True)
class Place:
    """A sentence about where the wrong elements are, and what that usually means."""

    sentence: str
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
    subject: str = "",
) -> str:
    """The whole message about a wrong result: what, where, how it looks, the most likely cause.

    got, truth, mismatch: as `numerics.compare` had and gave them
    inputs: what the subject was called with, by name; not changed by it
    mistakes: to try, in this order, until one would give this result
    anything: whether masked-off lanes may have held anything; False where each load has an `other`
    source: what is known of the learner's code
    subject: put before the message, such as the path of the learner's file
    """
    result = WrongResult.of(got, truth, mismatch, inputs, mistakes, anything, source)
    places = [] if result.drift is not None else where(result.wrong)
    symptoms = find(result)

    lines = [mismatch.message() if not subject else f"{subject}: {mismatch.message()}"]
    if places:
        lines.append("where: " + "; ".join(place.sentence for place in places))
        # A mistake that explains the whole result, right elements too, needs no map of them.
        if all(symptom.look for symptom in symptoms):
            lines += draw(result)
    if looks := [symptom.look for symptom in symptoms if symptom.look]:
        lines.append("how it looks: " + "; ".join(looks))
    causes = [symptom.cause for symptom in symptoms if symptom.strong]
    causes += [place.cause for place in places]
    causes += [symptom.cause for symptom in symptoms]
    cause = next((cause for cause in causes if cause), None)
    if cause:
        lines.append(f"this looks like {cause}")
    return "\n".join(lines)


def where(wrong: torch.Tensor) -> list[Place]:
    """Which part of the result is wrong. wrong: bool, of any shape."""
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
            places.append(_along(hit, axis_names(dim, wrong.dim())))
    share = float(wrong.double().mean())
    return places or [Place("nearly every element" if share > 0.9 else f"scattered, {share:.0%}")]


def draw(result: WrongResult) -> list[str]:
    """The result as a small map, one character a tile; no lines where it would show nothing."""
    wrong = result.wrong
    if wrong.sum() < MIN_WRONG:
        return []
    poisoned = wrong & result.got.isnan()
    part = ""
    if wrong.dim() > 2:
        leading = result.worst[:-2]
        wrong, poisoned = wrong[leading], poisoned[leading]
        part = f"[{', '.join(map(str, leading))}] of "
    if wrong.dim() == 1:
        wrong, poisoned = wrong[None], poisoned[None]
        tile = (1, -(-wrong.numel() // (MAP_HEIGHT * MAP_WIDTH)))
    else:
        tile = -(-wrong.shape[0] // MAP_HEIGHT), -(-wrong.shape[1] // MAP_WIDTH)
    touched = _any(wrong, tile)
    if touched.double().mean() > 0.95:
        return []
    marks = [
        "".join(
            "?" if hole else "X" if whole else "x" if some else "." for some, whole, hole in row
        )
        for row in torch.stack(
            [touched, ~_any(~wrong, tile), _any(poisoned, tile)], dim=-1
        ).tolist()
    ]
    if result.wrong.dim() == 1:
        marks = [marks[0][i : i + MAP_WIDTH] for i in range(0, len(marks[0]), MAP_WIDTH)]
        unit = "an element" if tile == (1, 1) else f"{tile[1]} elements"
    else:
        unit = "an element" if tile == (1, 1) else f"a tile of {tile[0]} x {tile[1]}"
    shape = " x ".join(map(str, result.wrong.shape))
    head = (
        f"map of {part}the result ({shape}), one character {unit}: "
        ". right, x partly wrong, X wrong, ? NaN"
    )
    return [head, *(f"    {line}" for line in marks)]


def _along(hit: torch.Tensor, axis: tuple[str, str]) -> Place:
    """What the wrong indices of one dimension have in common. hit: bool (length,)."""
    indices = hit.nonzero()[:, 0].tolist()
    length, first, last = len(hit), indices[0], indices[-1]
    one, many = axis
    if len(indices) == 1:
        return Place(f"only {one} {first}" + (" (the last)" if first == length - 1 else ""))
    step = indices[1] - first
    if indices == list(range(first, length)) and first >= MIN_BLOCK:
        block = first & -first
        if block >= MIN_BLOCK and length - first < min(block, first):
            return Place(
                f"{many} {first}..{last}: only the last, partial tile "
                f"(blocks of {_blocks(first, length)})",
                "a wrong mask of the last tile, or a grid that leaves it out, where the size is no "
                "multiple of the block",
            )
        if block >= MIN_BLOCK:
            return Place(
                f"{many} {first}..{last}: all that follow the first {first}",
                "a grid or a loop that ends too early, or a wrong mask of the last tile",
            )
    if step == 1 and last - first == len(indices) - 1:
        return Place(f"{many} {first}..{last}")
    if len(indices) > 3 and step > 1 and indices == list(range(first, last + 1, step)):
        shown = ", ".join(map(str, indices[:3]))
        number = {2: "second", 3: "third"}.get(step, f"{step}th")
        whole = first < step and last + step >= length
        rest = "an offset or a stride that counts in the wrong unit" if whole else None
        return Place(f"{many} {shown}, ...: every {number}", rest)
    shown = ", ".join(map(str, indices[:6])) + (", ..." if len(indices) > 6 else "")
    return Place(f"{len(indices)} of {length} {many}: {shown}")


def _blocks(first: int, length: int) -> str:
    """The powers of two whose last tile begins at `first`, as a text."""
    sizes = [2**k for k in range(3, 20) if first % 2**k == 0 and length - first < 2**k]
    return str(sizes[0]) + (f" to {sizes[-1]}" if len(sizes) > 1 else "")


def _by_diagonal(wrong: torch.Tensor) -> Place | None:
    """Elements on the diagonal only, or on one side of it and up to it."""
    rows, columns = wrong.reshape(-1, *wrong.shape[-2:]).any(0).nonzero(as_tuple=True)
    ahead = columns - rows
    if rows.unique().numel() < MIN_WRONG or columns.unique().numel() < MIN_WRONG:
        return None
    if (ahead == ahead[0]).all():
        name = "the diagonal" if ahead[0] == 0 else f"the diagonal column - row = {int(ahead[0])}"
        return Place(f"only {name}", "a comparison of row and column that is off by one")
    touching = (ahead.abs() == 1).sum() * 2 > min(wrong.shape[-2:])
    for side, beyond in (("above", ahead > 0), ("below", ahead < 0)):
        if touching and beyond.all():
            cause = "a triangular mask that is missing, or compares the wrong way round"
            return Place(f"only {side} the diagonal", cause)
    return None


def _any(flags: torch.Tensor, tile: tuple[int, int]) -> torch.Tensor:
    """Whether any flag of each tile of a 2-d tensor is set; tiles at the edge may be smaller."""
    pooled = torch.nn.functional.max_pool2d(flags[None].float(), tile, ceil_mode=True)
    return pooled[0] > 0
