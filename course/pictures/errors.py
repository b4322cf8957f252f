"""The map of a wrong result: which elements are wrong, and by how much."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from course.pictures.frames import MAX_SLICES, Box, Frame, frames_of
from course.pictures.layout import View, arrange, head, legend, views_of
from course.pictures.svg import Picture, Svg
from kernelgauge.core.dtypes import dtype_name
from kernelgauge.memory.recording import Touch, Touched
from kernelgauge.numerics.compare import Mismatch
from kernelgauge.words import say

# How many times the allowed error begins each step, and its paint: light to dark red.
STEPS = ((0.0, "#f7b6a8"), (10.0, "#e0604d"), (1000.0, "#a50f15"))
# Into how many parts, down and across, a slice is divided whose elements are too small to be seen.
PARTS = (48, 30)
NO_NUMBER = "#3b0a45"
# More borders of tiles are a tangle.
MAX_BORDERS = 400
WORDS = (
    "off by up to 10 times what is allowed",
    "off by 10 to 1000 times what is allowed",
    "off by more than 1000 times what is allowed",
    "NaN or infinity, or not where it should be",
)


def levels(mismatch: Mismatch) -> np.ndarray:
    """Return 1 for right elements, 2 to 4 for wrong ones by their error, 5 for no number."""
    wrong = mismatch.mask.cpu().numpy()
    error, allowed = mismatch.error.cpu().numpy(), mismatch.allowed.cpu().numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(allowed > 0, error / np.where(allowed > 0, allowed, 1.0), np.inf)
    level = np.searchsorted([start for start, _ in STEPS[1:]], times, side="right") + 2
    level = np.where(np.isfinite(error), level, 5)
    return np.where(wrong, level, 1).astype(np.int32)


def errors(name: str, call: str, mismatch: Mismatch, touches: Sequence[Touch]) -> Picture:
    """Draw where a result is wrong.

    name, call: the puzzle and what was called
    touches: of the last launch, whose tiles are outlined
    """
    level = levels(mismatch)
    frames = _frames(mismatch, level)
    shape = mismatch.mask.shape
    stored = [t for t in touches if t.verb != "reads" and t.tensor.shape == tuple(shape)]
    tiles = {}
    for tile in frames_of(stored, slices=stored[0].tensor.numel, room=False) if stored else ():
        tiles[tile.label.partition("[")[2], tile.rows] = tile
    outlines = [tiles.get((frame.label.partition("[")[2], frame.rows)) for frame, _ in frames]
    title = f"Where {mismatch.name} is wrong"
    said = say(mismatch.notes()[0])
    caption = f"{said[0].upper()}{said[1:]}."
    found = set(np.unique(level).tolist())
    if 1 in found:
        caption += " Grey cells are right."
    if len(found & {2, 3, 4}) > 1:
        caption += " The darker the red, the worse."
    views = views_of(frames, [numbers > 1 for _, numbers in frames])
    if any(view.is_cut and not view.frame.is_row for view in views):
        parts = " x ".join(map(str, _part(frames[0][1])))
        caption += f" Each cell stands for {parts} elements, and shows the worst of them."
        frames = [(frame, _worst_of_parts(numbers)) for frame, numbers in frames]
        views = views_of(frames)
    borders = [_borders(*pair) if pair[1] else [] for pair in zip(views, outlines, strict=True)]
    if any(borders):
        caption += " The lines are the borders of the tiles that the programs store."
    svg = Svg(title, caption, f"{name} errors {mismatch.name}", call)
    arrange(svg, views)
    paints = [paint for _, paint in STEPS] + [NO_NUMBER]
    for view, (_, numbers), tiles_of in zip(views, frames, borders, strict=True):
        svg.rect(*view.elements(), "empty")
        by_level = defaultdict(list)
        for box in view.boxes(numbers):
            by_level[box[0]].append(view.place(box))
        for number in range(2, 6):
            svg.boxes(by_level[number], "wrong", paints[number - 2])
        for box in tiles_of:
            svg.rect(*view.place(box), "line")
        svg.rect(*view.elements(), "frame")
        head(svg, view)
    entries = [("empty", "", "right")] if 1 in found else []
    entries += [
        ("", paint, words)
        for number, paint, words in zip(range(2, 6), paints, WORDS, strict=True)
        if number in found
    ]
    legend(svg, entries)
    return Picture("errors", mismatch.name.removeprefix("the "), title, caption, svg.render())


def _frames(mismatch: Mismatch, level: np.ndarray) -> list[tuple[Frame, np.ndarray]]:
    """Return the slices of a result that are wrong first, each with its levels."""
    shape = level.shape
    name = mismatch.name.removeprefix("the ")
    tensor = Touched(name, shape, (), dtype_name(mismatch.dtype), 1, 0)
    long = [dim for dim, size in enumerate(shape) if size > 1]
    if len(long) < 2:
        return [(Frame(tensor, tensor.name, 1, level.size), level.reshape(1, -1))]
    rows, columns = (shape[dim] for dim in long[-2:])
    slices = level.reshape(-1, rows, columns)
    outer = [size for dim, size in enumerate(shape) if dim not in long[-2:]]
    found = []
    right = ~(slices > 1).any(axis=(1, 2))
    for number in np.argsort(right, kind="stable")[:MAX_SLICES]:
        at = iter(np.unravel_index(int(number), outer))
        names = [":" if dim in long[-2:] else str(int(next(at))) for dim in range(len(shape))]
        label = f"{tensor.name}[{', '.join(names)}]" if len(shape) > 2 else tensor.name
        found.append((Frame(tensor, label, rows, columns), slices[number]))
    return found


def _part(numbers: np.ndarray) -> tuple[int, int]:
    """Return rows and columns of the parts of a large slice that are still seen."""
    rows, columns = (-(-size // most) for size, most in zip(numbers.shape, PARTS, strict=True))
    return rows, columns


def _worst_of_parts(numbers: np.ndarray) -> np.ndarray:
    """Return the same array, with the largest number of each part in all of it."""
    (height, width), (rows, columns) = numbers.shape, _part(numbers)
    padded = np.pad(numbers, ((0, -height % rows), (0, -width % columns)))
    parts = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    worst = parts.max(axis=(1, 3))
    return worst.repeat(rows, axis=0).repeat(columns, axis=1)[:height, :width]


def _borders(view: View, tile: Frame) -> list[Box]:
    """Return what each program stores, nothing if it has no borders here or too many."""
    numbers, _ = tile.by_programs(
        lambda s: tile.cells(s.active) if s.verb != "reads" else np.zeros(tile.shape, dtype=bool)
    )
    found = view.boxes(numbers)
    several = np.unique(view.shown(numbers)).size > 1
    return found if several and len(found) <= MAX_BORDERS else []
