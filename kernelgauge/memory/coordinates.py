"""Which elements of a tensor the lanes of an access address, in the tensor's own coordinates.

A pointer is only a number. If the lanes of a tile are evenly spaced, the spacing tells which axis
of the tile runs along which dimension of the tensor, and the kernel's variables tell where it
starts. This distinguishes running past the end of a row from reading the next row.
"""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelgauge.core.launch import Launch
from kernelgauge.memory.addresses import Region
from kernelgauge.memory.call_sites import ACCESS_CALLS, CallSite, Verb
from kernelgauge.words.fault import Note, Place, note


@dataclass
class Access:
    """One access of one program, with all its lanes.

    pointers: uint64, of the tile's shape, including masked-off lanes
    mask: bool, of the same shape
    size: bytes per lane
    variables: of the learner's function that makes the access
    """

    verb: Verb
    site: CallSite
    program: tuple[int, int, int]
    launch: Launch
    pointers: np.ndarray
    mask: np.ndarray
    size: int
    variables: dict[str, object]

    @property
    def place(self) -> Place:
        """The place and the source of the call."""
        return self.site.place_of(*ACCESS_CALLS[self.verb])

    @property
    def is_masked(self) -> bool:
        """Whether the call has a mask."""
        return not self.mask.all() or "mask=" in self.site.whole_call(*ACCESS_CALLS[self.verb])

    @property
    def sizes(self) -> dict[str, int]:
        """The kernel's integer arguments, except those that are strides by their names."""
        return {
            name: value
            for name, value in self.launch.arguments.items()
            if isinstance(value, int)
            and not isinstance(value, bool)
            and "stride" not in name.lower()
        }


@dataclass
class LaneCoordinates:
    """The indices of lanes in a tensor.

    index: for each dimension the index of each lane, None for dimensions of stride 0
    axis: for each dimension, the axis of the tile that runs along it, if one does
    names: for each dimension, the kernel's variables that hold the index, and their number of axes
    """

    shape: tuple[int, ...]
    index: list[np.ndarray | None]
    axis: dict[int, int] = field(default_factory=dict)
    names: dict[int, dict[str, int]] = field(default_factory=dict)


def locate(access: Access, region: Region, element: np.ndarray) -> LaneCoordinates:
    """Find each lane's index in the tensor from int64 offsets in elements, of the tile's shape."""
    steps = spacing(element)
    if steps is None or not region.shape or (axis_of := _match(steps, region)) is None:
        return _decoded(region, element)
    flat = _flat(region, element) if len(axis_of) == 1 and _is_walked_flat(access, region) else None
    if flat:
        axis_of = {0: next(iter(axis_of.values()))}
    shape, strides = (flat.shape, (1,)) if flat else (region.shape, region.strides)
    start = int(element.flat[0])
    names, begins = _named(access, steps, axis_of, strides, shape, start)
    if begins is None:
        first = flat.index if flat else region.coordinates(np.array([start]))
        begins = [None if along is None else int(along.flat[0]) for along in first]
    index: list[np.ndarray | None] = []
    for dim, stride in enumerate(strides):
        if not stride:
            index.append(None)
            continue
        along = np.full(element.shape, begins[dim], dtype=np.int64)
        if dim in axis_of:
            along += _arange(element, axis_of[dim], steps[axis_of[dim]] // stride)
        index.append(along)
    if names is None:
        names = _names_of(access, axis_of, index)
    return LaneCoordinates(shape, index, axis_of, names)


def as_walked(access: Access, region: Region, element: np.ndarray) -> Region:
    """Return the tensor with one dimension in place of several, if the kernel has one index there.

    It has where the product of their sizes is an argument of it, and where a lane that is inside
    of all of them together is past the end of the last one. Otherwise return the tensor itself.
    """
    shape, strides, placed = region.shape, region.strides, locate(access, region, element)
    if placed.shape != shape:
        return region
    for last, first in ((dim, outer) for dim in placed.axis for outer in range(dim)):
        own = range(first, last + 1)
        size = math.prod(shape[first : last + 1])
        joined = all(strides[d] == strides[d + 1] * shape[d + 1] for d in own[:-1])
        if not joined or not _is_given(access, size) or sum(shape[d] > 1 for d in own) < 2:
            continue
        index: Any = np.zeros_like(access.mask, dtype=np.int64)
        inside = access.mask.copy()
        for dim, along in enumerate(placed.index):
            if dim in own:
                index = index * shape[dim] + along
            elif along is not None:
                inside &= (along >= 0) & (along < shape[dim])
        past = placed.index[last]
        assert past is not None
        if (inside & (index >= 0) & (index < size) & (past >= shape[last])).any():
            view = copy.copy(region)
            view.shape = (*shape[:first], size, *shape[last + 1 :])
            view.strides = (*strides[:first], *strides[last:])
            return view
    return region


def _decoded(region: Region, element: np.ndarray) -> LaneCoordinates:
    if not region.shape:
        return _flat(region, element)
    return LaneCoordinates(region.shape, region.coordinates(element))


def _flat(region: Region, element: np.ndarray) -> LaneCoordinates:
    return LaneCoordinates((max(1, region.numel),), [element])


def _arange(tile: np.ndarray, axis: int, step: int) -> np.ndarray:
    """Return multiples of a step along an axis of a tile, to be broadcast to its shape."""
    shape = [-1 if a == axis else 1 for a in range(tile.ndim)]
    return (np.arange(tile.shape[axis]) * step).reshape(shape)


def spacing(element: np.ndarray) -> list[int] | None:
    """Return how many elements apart lanes are along each axis, None if that is not uniform."""
    origin = element[(0,) * element.ndim]
    steps, expected = [], np.full(element.shape, origin)
    for axis, length in enumerate(element.shape):
        step = 0
        if length > 1:
            step = int(element[tuple(int(a == axis) for a in range(element.ndim))] - origin)
        steps.append(step)
        expected = expected + _arange(element, axis, step)
    return steps if np.array_equal(expected, element) else None


def _match(steps: list[int], region: Region) -> dict[int, int] | None:
    """Return the tile's axis along each dimension; None if an axis matches no dimension."""
    found: dict[int, int] = {}
    for axis, step in enumerate(steps):
        if not step:
            continue
        dims = [d for d, s in enumerate(region.strides) if s and step % s == 0 and d not in found]
        if not dims:
            return None
        found[max(dims, key=lambda d: _likelihood(d, axis, steps, region))] = axis
    return found


def _likelihood(dim: int, axis: int, steps: list[int], region: Region) -> tuple:
    """Return the sort key among dimensions whose strides divide the step along an axis of the tile.

    The largest stride is the most likely. The stride of a dimension of size 1 means nothing, so
    such a dimension comes last among those of equal stride, unless each of them has its own axis.
    """
    stride = region.strides[dim]
    in_place = dim - len(region.shape) == axis - len(steps)
    all_have_one = steps.count(steps[axis]) >= region.strides.count(stride)
    return stride, all_have_one and in_place, region.shape[dim], in_place


def _is_walked_flat(access: Access, region: Region) -> bool:
    """Return whether a kernel treats a tensor of several dimensions as if it had only one."""
    if sum(size > 1 for size in region.shape) < 2 or not region.dense:
        return False
    return _is_given(access, region.numel)


def _is_given(access: Access, size: int) -> bool:
    """Return whether an argument of the kernel is this size of a tensor."""
    return any(it == size and not is_of_a_block(name) for name, it in access.sizes.items())


def _named(
    access: Access,
    steps: list[int],
    axis_of: dict[int, int],
    strides: tuple[int, ...],
    shape: tuple[int, ...],
    start: int,
) -> tuple[dict[int, dict[str, int]] | None, list[int | None] | None]:
    """Find variables of the kernel that add up to these addresses.

    Returns them by dimension, and the index at which each dimension starts; None and None if there
    are no such variables.
    """
    if not axis_of:
        return None, None
    choices = []
    for dim, axis in axis_of.items():
        starts: dict[int, dict[str, int]] = {}
        for name, values, axes in _indices(access, axis):
            if np.array_equal(
                values - values[0], np.arange(len(values)) * (steps[axis] // strides[dim])
            ):
                starts.setdefault(int(values[0]), {})[name] = axes
        choices.append([(dim, begin, names) for begin, names in starts.items()])
    for choice in itertools.product(*choices):
        rest = start - sum(begin * strides[dim] for dim, begin, _ in choice)
        begins: list[int | None] = [None] * len(strides)
        for dim in sorted(range(len(strides)), key=lambda d: -strides[d]):
            if dim not in axis_of and strides[dim]:
                begins[dim] = begin = min(max(rest // strides[dim], 0), shape[dim] - 1)
                rest -= begin * strides[dim]
        if rest == 0:
            for dim, begin, _ in choice:
                begins[dim] = begin
            return {dim: names for dim, _, names in choice}, begins
    return None, None


def _names_of(
    access: Access, axis_of: dict[int, int], index: list[np.ndarray | None]
) -> dict[int, dict[str, int]]:
    """Return the kernel's variables that hold exactly the index along each dimension."""
    found: dict[int, dict[str, int]] = {}
    for dim, axis in axis_of.items():
        own = index[dim]
        assert own is not None
        along = np.moveaxis(own, axis, 0)
        along = along.reshape(len(along), -1)[:, 0]
        for name, values, axes in _indices(access, axis):
            if np.array_equal(values, along):
                found.setdefault(dim, {})[name] = axes
    return found


def integers(value: object) -> np.ndarray | None:
    """Return the integers of a tensor of the interpreter, None of anything else."""
    data = getattr(getattr(value, "handle", None), "data", None)
    return data if isinstance(data, np.ndarray) and data.dtype.kind in "iu" else None


def _indices(access: Access, axis: int) -> list[tuple[str, np.ndarray, int]]:
    """Return the integer variables as long as an axis of the tile: name, values, number of axes."""
    found = []
    for name, value in access.variables.items():
        data = integers(value)
        if data is None or data.size < 2:
            continue
        if data.size == max(data.shape) == access.pointers.shape[axis]:
            found.append((name, data.ravel().astype(np.int64), data.ndim))
    return found


def is_of_a_block(name: str) -> bool:
    """Return whether a parameter is the size of a tile by its name, which ends no tensor."""
    return name.startswith("BLOCK")


def noun(shape: tuple[int, ...], dim: int, count: int = 2) -> Note:
    """Return what the indices along a dimension are called."""
    return note("indices", dim=dim, dims=len(shape), count=count)


def has_size(tensor: str, shape: tuple[int, ...], dim: int) -> Note:
    """Return that a tensor has this size in a dimension."""
    return note("tensor-has-size", tensor=tensor, size=shape[dim], dim=dim, dims=len(shape))


def format_element(region: Region, offset: int, name: str | None = None) -> str:
    """Format the element at a byte offset, such as a[3, 4], by the region's name or another."""
    placed = _decoded(region, np.array([offset // region.itemsize]))
    return format_lanes(region.name if name is None else name, placed, np.array([True]))


def format_lanes(name: str, placed: LaneCoordinates, lanes: np.ndarray) -> str:
    """Format the elements of some lanes, such as a[67, 0..31]."""
    if not placed.index:
        return name
    parts = []
    for span in spans(placed, lanes):
        low, high = span or (":", ":")
        parts.append(f"{low}" if low == high else f"{low}..{high}")
    return f"{name}[{', '.join(parts)}]"


def spans(placed: LaneCoordinates, lanes: np.ndarray) -> list[tuple[int, int] | None]:
    """Return the least and the greatest index of some lanes along each dimension."""
    return [
        None if index is None else (int(index[lanes].min()), int(index[lanes].max()))
        for index in placed.index
    ]
