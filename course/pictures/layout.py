"""Where the frames of a picture stand, how large a cell is, and what of a frame is shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from course.pictures.frames import MAX_RECTANGLES, WINDOW, Box, Frame, boxes
from course.pictures.svg import CHARACTER, LINE, MARGIN, WIDTH, Svg, wide_enough

# Pixels.
AVAILABLE = WIDTH - 2 * MARGIN
# The longest side of a frame that stands alone, of one of two frames, and so on.
SIDES = (420, 320, 300, 240, 220, 200, 180, 160)
LARGEST_CELL = 18
ROW_HEIGHT = 26
# So that a label fits.
LEAST_WIDTH, LEAST_HEIGHT = 76, 28
GAP = 34
HEADING = 34
# A cell must be so large to be seen; frames of smaller ones are cut.
LEAST_RUN = 1.5

Place = tuple[float, float, float, float]


@dataclass
class View:
    """A frame as it is drawn: which cells, how large, and where.

    top, left, height, width: of the cells that are shown, in cells, the room included
    across, down: pixels a cell
    x, y: pixels of the upper left corner
    """

    frame: Frame
    top: int
    left: int
    height: int
    width: int
    across: float = 0.0
    down: float = 0.0
    x: float = 0.0
    y: float = 0.0

    @property
    def is_cut(self) -> bool:
        """Whether cells are left out."""
        return (self.height, self.width) != self.frame.shape

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in pixels."""
        return self.width * self.across, self.height * self.down

    def shown(self, cells: np.ndarray) -> np.ndarray:
        """Return the part of an array of all cells that is shown."""
        return cells[self.top : self.top + self.height, self.left : self.left + self.width]

    def boxes(self, numbers: np.ndarray) -> list[Box]:
        """Return what is alike and shown as rectangles of cells."""
        return boxes(self.shown(numbers))

    def place(self, box: Box) -> Place:
        """Return x, y, width and height of a rectangle of cells in pixels."""
        _, row, column, height, width = box
        return (
            self.x + column * self.across,
            self.y + row * self.down,
            width * self.across,
            height * self.down,
        )

    def elements(self) -> Place:
        """Return x, y, width and height of the elements that are shown, without the room."""
        room_top, _, room_left, _ = self.frame.room
        top = max(room_top - self.top, 0)
        left = max(room_left - self.left, 0)
        bottom = min(room_top + self.frame.rows - self.top, self.height)
        right = min(room_left + self.frame.columns - self.left, self.width)
        return self.place((0, top, left, max(bottom - top, 0), max(right - left, 0)))

    def form(self) -> str:
        """Return dtype and shape of the tensor."""
        tensor = self.frame.tensor
        shape = ", ".join(map(str, tensor.shape)) + ("," if len(tensor.shape) == 1 else "")
        return f"{tensor.dtype} ({shape})"

    def cut(self) -> str:
        """Return which cells are shown, where some are left out; "" otherwise."""
        if not self.is_cut:
            return ""
        top, left = (
            max(start - room, 0)
            for start, room in ((self.top, self.frame.room[0]), (self.left, self.frame.room[2]))
        )
        bottom = min(self.top + self.height - self.frame.room[0], self.frame.rows)
        right = min(self.left + self.width - self.frame.room[2], self.frame.columns)
        if self.frame.is_row:
            return f"only elements {left} to {right - 1}"
        return f"only rows {top} to {bottom - 1}, columns {left} to {right - 1}"


def views_of(frames: Sequence[tuple[Frame, np.ndarray]], focus: Sequence = ()) -> list[View]:
    """Return how frames that stand in one picture are drawn.

    frames: each with a number for each cell, whose changes must be seen
    focus: for each frame, the cells that must be seen where it is cut
    """
    whole = [View(frame, 0, 0, *frame.shape) for frame, _ in frames]
    _scale(whole)
    views = []
    for at, (frame, numbers) in enumerate(frames):
        legible = _is_legible(whole[at], numbers)
        views.append(whole[at] if legible else _window(frame, focus[at] if focus else numbers))
    _scale([view for view in views if not view.is_cut])
    for view in views:
        if view.is_cut:
            _scale([view])
    return views


def _is_legible(view: View, numbers: np.ndarray) -> bool:
    found = view.boxes(numbers)
    if len(found) > MAX_RECTANGLES:
        return False
    # The smallest are those of ragged edges; most must be seen.
    thin = [min(w * view.across, h * view.down) < LEAST_RUN for _, _, _, h, w in found]
    return sum(thin) <= len(thin) / 2


def _window(frame: Frame, focus: np.ndarray) -> View:
    """Return the part of a frame around the first cell of the focus, as large as is legible."""
    sizes = [min(size, most) for size, most in zip(frame.shape, WINDOW, strict=True)]
    starts = [0, 0]
    if focus.any():
        first = np.unravel_index(int((focus > 0).argmax()), focus.shape)
        starts = [
            min(max(int(at) - size // 2, 0), whole - size)
            for at, size, whole in zip(first, sizes, frame.shape, strict=True)
        ]
    return View(frame, *starts, *sizes)


def _scale(views: Iterable[View]) -> None:
    """Choose the pixels a cell: one scale for all frames of rows and columns that allow it."""
    views = list(views)
    flat = [view for view in views if not view.frame.is_row]
    wide = all(view.width >= 3 * view.height for view in flat)
    side = AVAILABLE - 60 if wide else SIDES[min(len(flat), len(SIDES)) - 1] if flat else 1
    longest = max((max(view.height, view.width) for view in flat), default=1)
    scale = min(LARGEST_CELL, side / longest)
    for view in views:
        if view.frame.is_row:
            view.across = min(LARGEST_CELL, (AVAILABLE - 60) / view.width)
            view.down = ROW_HEIGHT
            continue
        view.across = max(scale, min(LEAST_WIDTH / view.width, LARGEST_CELL))
        view.down = max(scale, min(_least_height(view) / view.height, LARGEST_CELL))


def _least_height(view: View) -> float:
    """Rows of very long lines are drawn higher than their cells are wide."""
    return min(160, 14 * view.height) if view.width >= 3 * view.height else LEAST_HEIGHT


def arrange(svg: Svg, views: Sequence[View]) -> None:
    """Give each view its place: from left to right, and below where there is no room.

    Rows of elements stand by themselves.
    """
    x, y = float(MARGIN), svg.bottom
    tallest = 0.0
    for number, view in enumerate(views):
        width, height = view.size
        notes = (view.frame.label + "  ", view.form(), view.cut())
        needed = max(width, *(len(note) * CHARACTER for note in notes))
        below = HEADING + 12
        other = number > 0 and view.frame.is_row != views[number - 1].frame.is_row
        if x > MARGIN and (other or x + needed > MARGIN + AVAILABLE):
            x, y, tallest = float(MARGIN), y + tallest + GAP / 2, 0.0
        view.x, view.y = x, y + HEADING + 14
        tallest = max(tallest, height + below + (LINE if view.is_cut else 0))
        x += needed + GAP
    svg.bottom = max(svg.bottom, y + tallest)


def head(svg: Svg, view: View) -> None:
    """Draw the name of a frame above it, and its sizes at its corners."""
    svg.text(view.x, view.y - 32, view.frame.label, "n")
    svg.text(view.x, view.y - 18, view.form(), "s")
    x, _, width, _ = view.elements()
    first = max(view.left - view.frame.room[2], 0)
    last = min(view.left + view.width - view.frame.room[2], view.frame.columns) - 1
    if width >= 40:
        svg.text(x, view.y - 4, str(first), "s")
        svg.text(x + width, view.y - 4, str(last), "s e")
    if cut := view.cut():
        svg.text(view.x, view.y + view.size[1] + 14, cut, "s")


def write_in(svg: Svg, place: Place, labels: Sequence[str], kind: str = "on") -> bool:
    """Write the first of these labels that fits into a rectangle. Returns whether one does."""
    x, y, width, height = place
    for label in labels:
        if has_room(place, label):
            svg.text(x + width / 2, y + height / 2 + 4, label, kind)
            return True
    return False


def has_room(place: Place, label: str) -> bool:
    """Whether a label fits into a rectangle."""
    return place[3] >= 12 and wide_enough(label, place[2])


def legend(svg: Svg, entries: Sequence[tuple[str, str, str]]) -> None:
    """Draw the legend: CSS classes, paint and words of each entry."""
    x, y = float(MARGIN), svg.bottom + 18
    for kind, fill, words in entries:
        needed = 20 + len(words) * CHARACTER + 16
        if x > MARGIN and x + needed > MARGIN + AVAILABLE:
            x, y = float(MARGIN), y + LINE + 4
        svg.rect(x, y, 14, 12, kind, fill)
        svg.rect(x, y, 14, 12, "line")
        svg.text(x + 20, y + 10, words, "s")
        x += needed


def middle(place: Place) -> tuple[float, float]:
    """Return the middle of a rectangle."""
    x, y, width, height = place
    return x + width / 2, y + height / 2


def largest(places: Iterable[Place]) -> Place:
    """Return the rectangle that has most room for a label."""
    return max(places, key=lambda place: math.sqrt(place[2]) * min(place[3], 20))
