"""Tensors as flat frames of cells: a row of elements, or rows and columns, a frame for each slice.

A cell of a frame is an element. Around the elements there is room for lanes that are beyond them:
those that a mask turns off, and those that are out of bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernelgauge.memory.call_sites import Verb
from kernelgauge.memory.recording import Touch, Touched

# Of a tensor of more dimensions so many slices are drawn.
MAX_SLICES = 2
# Rectangles a frame; with more it is cut to a window of so many rows and columns.
MAX_RECTANGLES = 1500
WINDOW = (32, 64)
# How far beyond the elements lanes are shown.
MAX_ROOM = 48

KINDS = ("active", "masked", "outside", "astray")

Box = tuple[int, int, int, int, int]


@dataclass
class Spots:
    """The cells of one access in one frame: rows and columns of its lanes, by what they are.

    astray: where active lanes would be that are past the end of a row, and so touch the next one
    """

    program: int
    verb: Verb
    active: tuple[np.ndarray, np.ndarray]
    masked: tuple[np.ndarray, np.ndarray]
    outside: tuple[np.ndarray, np.ndarray]
    astray: tuple[np.ndarray, np.ndarray]


@dataclass
class Frame:
    """A slice of a tensor, drawn as rows and columns.

    label: a, or q[0, 1]
    room: cells above, below, left and right of the elements
    beyond: lanes that are masked off too far from the elements to be shown
    """

    tensor: Touched
    label: str
    rows: int
    columns: int
    spots: list[Spots] = field(default_factory=list)
    room: tuple[int, int, int, int] = (0, 0, 0, 0)
    beyond: int = 0

    @property
    def is_row(self) -> bool:
        """Whether it shows a tensor of one dimension."""
        return self.rows == 1

    @property
    def has_outside(self) -> bool:
        """Whether lanes are out of bounds."""
        return any(spots.outside[0].size for spots in self.spots)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of cells, the room included."""
        top, bottom, left, right = self.room
        return self.rows + top + bottom, self.columns + left + right

    def make_room(self) -> None:
        """Leave as much room around the elements as lanes beyond them take, up to a limit."""
        limits = [0 if self.is_row else _limit(self.rows), _limit(self.columns)]
        low, high = [0, 0], [self.rows - 1, self.columns - 1]
        for spots in self.spots:
            for cells in (spots.masked, spots.outside):
                for axis in (0, 1):
                    if cells[axis].size:
                        low[axis] = min(low[axis], int(cells[axis].min()))
                        high[axis] = max(high[axis], int(cells[axis].max()))
        top, left = (min(-low[axis], limits[axis]) for axis in (0, 1))
        bottom = min(high[0] - self.rows + 1, limits[0])
        right = min(high[1] - self.columns + 1, limits[1])
        self.room = top, bottom, left, right
        self.beyond = sum(
            spots.masked[0].size - int(self._is_shown(spots.masked).sum()) for spots in self.spots
        )

    def _is_shown(self, cells: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        top, _, left, _ = self.room
        row, column = cells[0] + top, cells[1] + left
        height, width = self.shape
        return (row >= 0) & (row < height) & (column >= 0) & (column < width)

    def cells(self, places: tuple[np.ndarray, np.ndarray], *, clip: bool = False) -> np.ndarray:
        """Return which cells, the room included, these lanes are in.

        clip: whether lanes farther out are put at the border, instead of being left out
        """
        top, _, left, _ = self.room
        height, width = self.shape
        row, column = places
        if clip:
            row, column = np.clip(row + top, 0, height - 1), np.clip(column + left, 0, width - 1)
        else:
            shown = self._is_shown(places)
            row, column = row[shown] + top, column[shown] + left
        found = np.zeros(self.shape, dtype=bool)
        found[row, column] = True
        return found

    def by_programs(self, which: Callable[[Spots], np.ndarray]) -> tuple[np.ndarray, list]:
        """Return a number for each cell, and the programs that each number stands for.

        which: the cells of an access. 0 stands for no program.
        """
        numbers = np.zeros(self.shape, dtype=np.int32)
        sets: list[frozenset[int]] = [frozenset()]
        known = {sets[0]: 0}
        touched: dict[int, np.ndarray] = {}
        for spots in self.spots:
            found = which(spots)
            if spots.program in touched:
                touched[spots.program] |= found
            else:
                touched[spots.program] = found
        for program, found in sorted(touched.items()):
            for before in np.unique(numbers[found]).tolist():
                now = sets[before] | {program}
                if now not in known:
                    known[now] = len(sets)
                    sets.append(now)
                numbers[found & (numbers == before)] = known[now]
        return numbers, sets

    def loads(self) -> np.ndarray:
        """Return how many accesses load each cell."""
        count = np.zeros(self.shape, dtype=np.int32)
        for spots in self.spots:
            if spots.verb == "reads":
                count += self.cells(spots.active)
        return count


def _limit(size: int) -> int:
    return max(8, min(size, MAX_ROOM) if size < 200 else size // 3)


def frames_of(
    touches: Sequence[Touch], *, slices: int = MAX_SLICES, room: bool = True
) -> list[Frame]:
    """Return the frames of one tensor.

    touches: all accesses of it that are to be drawn
    room: whether lanes beyond the elements are shown
    """
    fold = _Fold.of(touches)
    frames = {0: fold.frame(0)} if fold.is_row else {}
    for touch in touches:
        for kind in KINDS:
            lanes = getattr(touch, kind)
            if not lanes.any():
                continue
            number, row, column = fold.places(touch, lanes, kind)
            for slice_ in np.unique(number).tolist():
                if slice_ not in frames:
                    frames[slice_] = fold.frame(slice_)
                here = number == slice_
                _add(frames[slice_], touch, kind, row[here], column[here])
    # What is out of bounds must be seen.
    first = sorted(frames, key=lambda number: (not frames[number].has_outside, number))[:slices]
    chosen = [frames[number] for number in sorted(first)]
    for frame in chosen if room else ():
        frame.make_room()
    return chosen


@dataclass(frozen=True)
class _Fold:
    """How the dimensions of a tensor become slices, rows and columns.

    sizes: of each dimension; 1 where the stride is 0, as all its elements are one
    flat: the dimensions of rows and columns; none where the tensor is one row of elements
    outer: those that tell slices apart
    """

    tensor: Touched
    sizes: tuple[int, ...]
    flat: tuple[int, ...]
    outer: tuple[int, ...]

    @classmethod
    def of(cls, touches: Sequence[Touch]) -> _Fold:
        """Return the fold of the tensor that these accesses touch."""
        tensor = touches[0].tensor
        pairs = zip(tensor.shape, tensor.strides, strict=True)
        sizes = tuple(size if stride else 1 for size, stride in pairs)
        long = tuple(dim for dim, size in enumerate(sizes) if size > 1)
        walked_flat = all(len(touch.shape) == 1 for touch in touches)
        if walked_flat or len(long) < 2:
            return cls(tensor, sizes, (), ())
        return cls(tensor, sizes, long[-2:], long[:-2])

    @property
    def is_row(self) -> bool:
        """Whether the tensor is one row of elements."""
        return not self.flat

    def frame(self, number: int) -> Frame:
        """Return an empty frame of one slice."""
        if self.is_row:
            return Frame(self.tensor, self.tensor.name, 1, math.prod(self.sizes))
        at = np.unravel_index(number, self._outer_sizes) if self.outer else ()
        names = [":" if dim in self.flat else "0" for dim in range(len(self.sizes))]
        for dim, index in zip(self.outer, at, strict=True):
            names[dim] = str(int(index))
        name = self.tensor.name
        label = f"{name}[{', '.join(names)}]" if len(self.sizes) > 2 else name
        return Frame(self.tensor, label, *(self.sizes[dim] for dim in self.flat))

    def places(
        self, touch: Touch, lanes: np.ndarray, kind: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return slice, row and column of the lanes of one kind.

        Lanes out of bounds before or after all slices are put into the first or the last; others
        there are left out.
        """
        index = _index(touch, self.sizes, lanes, kind == "active")
        zeros = np.zeros(int(lanes.sum()), dtype=np.int64)
        if self.is_row:
            return zeros, zeros, zeros + _ravel(index, self.sizes)
        outer = [index[dim] for dim in self.outer]
        number = zeros + _ravel(outer, self._outer_sizes)
        here = np.ones(zeros.size, dtype=bool)
        if kind == "outside":
            number = np.clip(number, 0, math.prod(self._outer_sizes) - 1)
        else:
            for along, size in zip(outer, self._outer_sizes, strict=True):
                here &= (along >= 0) & (along < size)
        row, column = (index[dim] for dim in self.flat)
        return number[here], row[here], column[here]

    @property
    def _outer_sizes(self) -> tuple[int, ...]:
        return tuple(self.sizes[dim] for dim in self.outer)


def _add(frame: Frame, touch: Touch, kind: str, row: np.ndarray, column: np.ndarray) -> None:
    none = np.zeros(0, dtype=np.int64)
    found = dict.fromkeys(KINDS, (none, none))
    found[kind] = row, column
    frame.spots.append(Spots(touch.program, touch.verb, **found))


def _index(touch: Touch, sizes: Sequence[int], lanes: np.ndarray, decode: bool) -> list[np.ndarray]:
    """Return the index of these lanes along each dimension.

    decode: by the memory that they touch, and not by where the kernel may mean them to be
    """
    tensor = touch.tensor
    if decode or (len(touch.shape) == 1 and len(sizes) != 1):
        element = touch.element[lanes]
        index = [np.zeros_like(element) for _ in sizes]
        for dim in sorted(range(len(sizes)), key=lambda d: -tensor.strides[d]):
            if sizes[dim] > 1:
                index[dim] = element // tensor.strides[dim]
                element = element - index[dim] * tensor.strides[dim]
        return index
    return [
        np.zeros(lanes.sum(), dtype=np.int64)
        if along is None
        else np.broadcast_to(along, lanes.shape)[lanes]
        for along in touch.index
    ]


def _ravel(index: list[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    """Return the place in a slice of all dimensions; beyond the last of them it goes on."""
    total = np.zeros(1, dtype=np.int64)
    for along, size in zip(index, sizes, strict=True):
        total = total * size + along
    return total


def boxes(numbers: np.ndarray) -> list[Box]:
    """Return what is alike and not 0 as rectangles: number, row, column, height, width."""
    found: list[Box] = []
    above: dict[tuple[int, int, int], int] = {}
    for row, line in enumerate(numbers):
        breaks = np.flatnonzero(np.diff(line)) + 1
        starts = np.concatenate(([0], breaks))
        ends = np.concatenate((breaks, [line.size]))
        here: dict[tuple[int, int, int], int] = {}
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            number = int(line[start])
            if not number:
                continue
            run = number, start, end - start
            if run in above:
                at = above[run]
                number, top, left, height, width = found[at]
                found[at] = number, top, left, height + 1, width
            else:
                at = len(found)
                found.append((number, row, start, 1, end - start))
            here[run] = at
        above = here
    return found
