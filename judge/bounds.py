"""What a learner reads when a kernel leaves a tensor: which elements, and what would have kept it in.

A pointer is only a number. Where the lanes of a tile are evenly spaced, their spacing says which axis
of the tile runs along which dimension of the tensor, and the kernel's own variables say where it
starts; so an overrun of a row is told apart from the beginning of the next one.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from judge.addresses import Region
from judge.places import Site

CALLS = {
    "reads": ("load", "gather"),
    "writes": ("store", "scatter"),
    "updates": tuple(
        f"atomic_{name}" for name in "add max min and or xor xchg cas load store poll".split()
    ),
}


@dataclass
class Access:
    """One access of one program, all its lanes.

    verb: "reads", "writes" or "updates"
    pointers: uint64, of the tile's shape, masked-off lanes too
    mask: bool, of the same shape
    size: bytes a lane
    arguments: of the kernel, by name
    variables: of the learner's function that makes the access
    """

    verb: str
    site: Site
    program: tuple[int, int, int]
    grid: tuple[int, int, int]
    pointers: np.ndarray
    mask: np.ndarray
    size: int
    arguments: dict[str, object]
    variables: dict[str, object]

    @property
    def headline(self) -> str:
        return self.site.describe(*CALLS[self.verb])

    @property
    def is_masked(self) -> bool:
        return not self.mask.all()


@dataclass
class Placed:
    """Lanes in a tensor's own coordinates.

    index: for each dimension the index of each lane, None along dimensions of stride 0
    axis: the axis of the tile that runs along a dimension
    names: the kernel's variables that hold the index along a dimension, and their number of axes
    """

    shape: tuple[int, ...]
    index: list[np.ndarray | None]
    axis: dict[int, int] = field(default_factory=dict)
    names: dict[int, dict[str, int]] = field(default_factory=dict)


def explain(access: Access, region: Region | None, bad: np.ndarray) -> str:
    """The message for an access of which some lanes, `bad`, lie outside the elements of a region.

    region: None where the addresses belong to no tensor at all
    """
    program = f"program {access.program}"
    lanes = _lanes(access, bad)
    if region is None:
        address = int(access.pointers[bad][0])
        return "\n".join(
            (
                access.headline,
                f"{program} {access.verb} address {address:#x}, which belongs to no tensor: {lanes}",
                "hint: a pointer that is read from memory must come from the data_ptr() of a tensor"
                + (", and this one is null" if address < 4096 else ""),
            )
        )
    offset = (access.pointers - np.uint64(region.virtual)).view(np.int64)
    if not (offset[bad] + region.real & (access.size - 1) == 0).all():
        return "\n".join(
            (
                access.headline,
                f"{program} {access.verb} {access.size} bytes at an address of {region.name} that is "
                f"no multiple of {access.size}: {lanes}",
                "hint: a pointer moves by whole elements of its own type; a GPU faults here",
            )
        )
    placed = place(access, region, offset // region.itemsize)
    dim = _exceeded(placed, bad)
    text = f"{program} {access.verb} {index_text(region.name, placed, bad)}"
    if dim is None:
        text += f", which is no element of {region.name}"
    else:
        text += f" but {region.name} has {_size_text(placed.shape, dim)}"
    hint = _hint(access, region, placed, dim, offset, bad)
    return "\n".join((access.headline, f"{text}: {lanes}", f"hint: {hint}"))


def _lanes(access: Access, bad: np.ndarray) -> str:
    count, active = int(bad.sum()), int(access.mask.sum())
    if access.pointers.size == 1:
        return "out of bounds"
    let_through = " that the mask lets through" if access.is_masked else ""
    return f"{count} of {active} lanes{let_through} are out of bounds"


def element_text(region: Region, offset: int, name: str | None = None) -> str:
    """The element at a byte offset, such as a[3, 4], under the region's name or another."""
    placed = _decoded(region, np.array([offset // region.itemsize]))
    return index_text(region.name if name is None else name, placed, np.array([True]))


def index_text(name: str, placed: Placed, lanes: np.ndarray) -> str:
    """The elements of some lanes, such as a[67, 0..31]."""
    if not placed.index:
        return name
    parts = []
    for index in placed.index:
        if index is None:
            parts.append(":")
            continue
        low, high = int(index[lanes].min()), int(index[lanes].max())
        parts.append(f"{low}" if low == high else f"{low}..{high}")
    return f"{name}[{', '.join(parts)}]"


def place(access: Access, region: Region, element: np.ndarray) -> Placed:
    """Find each lane's index in the tensor from the elements' int64 offsets."""
    steps = _steps(element)
    if steps is None or not region.shape:
        return _decoded(region, element)
    axis_of = _match(steps, region)
    if axis_of is None:
        return _decoded(region, element)
    flat = _flat(region, element) if len(axis_of) == 1 and _is_walked_flat(access, region) else None
    if flat:
        axis_of = {0: next(iter(axis_of.values()))}
    shape, strides = (flat.shape, (1,)) if flat else (region.shape, region.strides)
    start = int(element.flat[0])
    names, begins = _named(access, steps, axis_of, strides, shape, start)
    if begins is None:
        begins = _first(flat.index if flat else region.coordinates(np.array([start])))
    index: list[np.ndarray | None] = []
    for dim, stride in enumerate(strides):
        if not stride:
            index.append(None)
            continue
        along = np.full(element.shape, begins[dim], dtype=np.int64)
        if dim in axis_of:
            axis = axis_of[dim]
            lane = np.arange(element.shape[axis]) * (steps[axis] // stride)
            along += lane.reshape([-1 if a == axis else 1 for a in range(element.ndim)])
        index.append(along)
    if names is None:
        names = _names_of(access, axis_of, index)
    return Placed(shape, index, axis_of, names)


def _first(index: list[np.ndarray | None]) -> list[int | None]:
    return [None if along is None else int(along.flat[0]) for along in index]


def _decoded(region: Region, element: np.ndarray) -> Placed:
    if not region.shape:
        return _flat(region, element)
    return Placed(region.shape, region.coordinates(element))


def _flat(region: Region, element: np.ndarray) -> Placed:
    return Placed((max(1, region.numel),), [element])


def _steps(element: np.ndarray) -> list[int] | None:
    """How many elements apart neighbouring lanes are along each axis, None if not everywhere so."""
    origin = element[(0,) * element.ndim]
    steps, expected = [], np.full(element.shape, origin)
    for axis, length in enumerate(element.shape):
        step = 0
        if length > 1:
            step = int(element[tuple(int(a == axis) for a in range(element.ndim))] - origin)
        steps.append(step)
        shape = [-1 if a == axis else 1 for a in range(element.ndim)]
        expected = expected + (np.arange(length) * step).reshape(shape)
    return steps if np.array_equal(expected, element) else None


def _match(steps: list[int], region: Region) -> dict[int, int] | None:
    """The tile's axis along each dimension, by step and stride; None if some axis has none."""
    found: dict[int, int] = {}
    for axis, step in enumerate(steps):
        if not step:
            continue
        dims = [d for d, s in enumerate(region.strides) if s and step % s == 0 and d not in found]
        # A size of 1 leaves the stride without meaning, so such a dimension is the last choice
        # among those of one stride, and the largest stride that fits is the most likely.
        dims.sort(key=lambda d: (region.strides[d], region.shape[d]))
        if not dims:
            return None
        found[dims[-1]] = axis
    return found


def _is_walked_flat(access: Access, region: Region) -> bool:
    """Whether a kernel goes over all elements of a tensor with dimensions as if it had only one."""
    if sum(size > 1 for size in region.shape) < 2 or not region.dense:
        return False
    sizes = {n: value for n, value in _integers(access).items() if not n.startswith("BLOCK")}
    return region.numel in sizes.values()


def _integers(access: Access) -> dict[str, int]:
    return {
        name: value
        for name, value in access.arguments.items()
        if isinstance(value, int) and not isinstance(value, bool)
    }


def _named(
    access: Access,
    steps: list[int],
    axis_of: dict[int, int],
    strides: tuple[int, ...],
    shape: tuple[int, ...],
    start: int,
) -> tuple[dict[int, dict[str, int]] | None, list[int | None] | None]:
    """The kernel's variables that add up to these addresses, and where each dimension starts."""
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
                begins[dim] = min(max(rest // strides[dim], 0), shape[dim] - 1)
                rest -= begins[dim] * strides[dim]
        if rest == 0:
            for dim, begin, _ in choice:
                begins[dim] = begin
            return {dim: names for dim, _, names in choice}, begins
    return None, None


def _names_of(
    access: Access, axis_of: dict[int, int], index: list[np.ndarray | None]
) -> dict[int, dict[str, int]]:
    """The kernel's variables that hold just the index along a dimension."""
    found: dict[int, dict[str, int]] = {}
    for dim, axis in axis_of.items():
        along = np.moveaxis(index[dim], axis, 0)
        along = along.reshape(len(along), -1)[:, 0]
        for name, values, axes in _indices(access, axis):
            if np.array_equal(values, along):
                found.setdefault(dim, {})[name] = axes
    return found


def _indices(access: Access, axis: int) -> list[tuple[str, np.ndarray, int]]:
    """The integer variables as long as an axis of the tile: name, values, number of axes."""
    found = []
    for name, value in access.variables.items():
        data = getattr(getattr(value, "handle", None), "data", None)
        if not isinstance(data, np.ndarray) or data.dtype.kind not in "iu" or data.size < 2:
            continue
        if data.size == max(data.shape) == access.pointers.shape[axis]:
            found.append((name, data.ravel().astype(np.int64), data.ndim))
    return found


def _exceeded(placed: Placed, bad: np.ndarray) -> int | None:
    for dim, (index, size) in enumerate(zip(placed.index, placed.shape, strict=True)):
        if index is not None and ((index[bad] < 0) | (index[bad] >= size)).any():
            return dim
    return None


def _noun(shape: tuple[int, ...], dim: int, count: int = 2) -> str:
    if len(shape) > 2:
        return f"indices along dimension {dim}" if count != 1 else f"index along dimension {dim}"
    word = "element" if len(shape) == 1 else ("row", "column")[dim]
    return word + "s" * (count != 1)


def _size_text(shape: tuple[int, ...], dim: int) -> str:
    if len(shape) > 2:
        return f"size {shape[dim]} in dimension {dim}"
    return f"{shape[dim]} {_noun(shape, dim, shape[dim])}"


def _hint(
    access: Access,
    region: Region,
    placed: Placed,
    dim: int | None,
    offset: np.ndarray,
    bad: np.ndarray,
) -> str:
    unwrapped = offset[bad] + 2**32 * region.itemsize
    if ((unwrapped >= 0) & (unwrapped < region.extent)).any():
        return (
            "the offset is 2**32 too small, as an int32 is that passed 2**31: make one factor int64, "
            "tl.program_id(0).to(tl.int64)"
        )
    if dim is None:
        return f"{region.name} has the strides {region.strides} and does not own what lies between"
    index, size = placed.index[dim], placed.shape[dim]
    if (index[bad] < 0).any():
        return f"an index below 0 lies before the tensor: mask with {_variable(access, placed, dim)[0]} >= 0"
    variable, limit = _variable(access, placed, dim)
    nouns = _noun(placed.shape, dim)
    if access.pointers.size == 1:
        return _scalar_hint(access, placed, dim, int(index[bad][0]), limit)
    if not _is_call_of_tl(access):
        return f"the shape that the descriptor was given is larger than {region.name}"
    if not access.is_masked:
        return f"the {nouns} of this tile run past {limit}; mask with {variable} < {limit}"
    if dim in placed.axis and _is_constant(access.mask, placed.axis[dim]):
        return f"the mask lets all {nouns} of this tile through; add {variable} < {limit} to it"
    most = int(index[access.mask].max())
    text = f"the mask lets {_noun(placed.shape, dim, 1)} {most} through, the last one is {size - 1}"
    others = [name for name, value in _integers(access).items() if value == most + 1]
    if most == size:
        return f"{text}: compare with < {limit}, not <="
    if others:
        return f"{text} ({others[0]} is {most + 1}): compare {variable} with {limit}"
    return f"{text}: mask with {variable} < {limit}"


def _scalar_hint(access: Access, placed: Placed, dim: int, index: int, limit: str) -> str:
    for axis, (program, programs) in enumerate(zip(access.program, access.grid, strict=True)):
        if program == index and programs > placed.shape[dim]:
            return (
                f"the grid has {programs} programs along axis {axis}, but there are only "
                f"{_size_text(placed.shape, dim)}: launch fewer, or mask with < {limit}"
            )
    return f"the last one is {placed.shape[dim] - 1}: mask with < {limit}, or do not come here"


def _is_call_of_tl(access: Access) -> bool:
    call = access.site.call(*CALLS[access.verb])
    return "tl." in call or "triton.language." in call


def _is_constant(mask: np.ndarray, axis: int) -> bool:
    return bool((mask == mask.take([0], axis=axis)).all())


def _variable(access: Access, placed: Placed, dim: int) -> tuple[str, str]:
    """The expression to compare, and what to compare it with, by the kernel's own names."""
    size = placed.shape[dim]
    limits = [name for name, value in _integers(access).items() if value == size]
    names = placed.names.get(dim, {})
    pairs = [(n, s) for n in names for s in limits if n.lower().split("_")[-1] == s.lower()]
    if pairs:
        names, limits = {pairs[0][0]: names[pairs[0][0]]}, [pairs[0][1]]
    elif len(limits) > 1:
        limits = [name for name in limits if not name.startswith("BLOCK")] or limits
    limit = " or ".join(limits) if limits else str(size)
    if len(names) != 1:
        return (
            "its index" if len(placed.shape) != 2 else f"the {_noun(placed.shape, dim, 1)}"
        ), limit
    ((name, axes),) = names.items()
    total = access.pointers.ndim
    if total > 1 and axes == 1:
        slices = [":" if axis == placed.axis[dim] else "None" for axis in range(total)]
        name += f"[{', '.join(slices)}]"
    return name, limit
