"""What no program stored: where it begins, in tiles, and what left it out: grid, loop or mask."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from kernelgauge.core.launch import Launch, named_blocks
from kernelgauge.core.settings import settings
from kernelgauge.memory.call_sites import CallSite
from kernelgauge.memory.executor import region_name
from kernelgauge.memory.mask_limits import (
    REDUCTIONS,
    ends_where_memory_says,
    function_at,
    stores_a_sum,
)
from kernelgauge.memory.recording import Recording, Touch
from kernelgauge.subject.idle import in_their_tiles, swapped_axes
from kernelgauge.words.fault import Note, note

# Of larger results only the first element is told.
MAX_ELEMENTS = 2**24
# Of so many programs it is said where their tiles begin.
FIRST_TILES = 4

MASK = note("mask-of-store")
ORDER = note("tiles-of-nobody")
NUMBERS = note("tile-numbers-of-nobody")
LOOP = note("loop-over-tiles")
DEFAULT = note("grid-or-mask")
GRID = note("grid-of-too-few")
TURN = note("loop-to-the-end")
IDLE = note("store-in-every-program")
ROW = note("row-of-a-reduction")
GAPS = note("lanes-leave-gaps")
# With what these say, all would be stored.
CERTAIN = ("grid-axes-are-swapped", "first-size-for-all")


def explain(missing: np.ndarray, launches: Sequence[Launch]) -> tuple[list[Note], Note]:
    """Return the ranges that are missing, such as rows 256..330, and the remedy.

    missing: bool, of the result's shape
    launches: those that were given the result
    """
    if missing.size > MAX_ELEMENTS:
        return [], DEFAULT
    persistent = any(
        math.prod(launch.grid) == settings.multiprocessors
        and "multiprocessors" in getattr(launch.kernel, "__globals__", {})
        for launch in launches
    )
    ranges: list[Note] = []
    remedy = LOOP if persistent else DEFAULT
    for axis, size in enumerate(missing.shape):
        others = tuple({*range(missing.ndim)} - {axis})
        hit = np.flatnonzero(missing.any(axis=others) if others else missing)
        first, last = int(hit[0]), int(hit[-1])
        if len(hit) == size or len(hit) != last - first + 1:
            continue
        block = _block(first, axis, missing.ndim, launches)
        on = last == size - 1 and first > 0
        tiles = {"block": block[0], "step": block[1]} if on and block else {}
        along = {"axis": axis, "dims": missing.ndim}
        ranges.append(note("range-never-stored", first=first, last=last, on=on, **along, **tiles))
        many = note("indices-along-axis", **along)
        if on and block and remedy is DEFAULT:
            remedy = _short_grid(first, size, block, many, launches) or remedy
        if persistent:
            continue
        if axis < missing.ndim - 2:
            remedy = note("grid-lacks-dimension", size=size, many=many)
        elif remedy is DEFAULT and launches:
            remedy = ORDER if block and (last + 1) % block[1] in (0, size % block[1]) else MASK
    return ranges, remedy


def surest(guessed: Note, why: tuple[Note, Note | None] | None, launches: Sequence[Launch]) -> Note:
    """Return the remedy that a record of the tiles shows; what a grid lacks says more than that.

    why: what `left_out` found. Without it the mask may as well be at fault as the order of tiles
    launches: those that were given the result
    """
    if guessed is LOOP and launches and all(_stores_in_loop(it.kernel) for it in launches):
        # One program for each multiprocessor is meant, and its loop is there.
        return why[1] if why and why[1] in (MASK, TURN) else ORDER
    remedy = _surest(guessed, why)
    if remedy is ORDER and not any(_stores_in_loop(it.kernel) for it in launches):
        return NUMBERS
    return remedy


def _surest(guessed: Note, why: tuple[Note, Note | None] | None) -> Note:
    if why is None:
        return DEFAULT if guessed in (ORDER, MASK) else guessed
    recorded = why[1]
    if recorded and (recorded in (MASK, GAPS, IDLE) or recorded.id in CERTAIN):
        return recorded
    return recorded if recorded and guessed in (MASK, ORDER, DEFAULT) else guessed


def _block(first: int, axis: int, dims: int, launches: Sequence[Launch]) -> tuple[str, int] | None:
    """Return the constexpr that looks like the block size along an axis: its name, and its value.

    first: an index at which a tile begins
    """
    letters = {dims - 1: "N", dims - 2: "M"} if dims > 1 else {}
    found = [
        (name.endswith(letters.get(axis, "")), value, name)
        for launch in launches
        for name, value in named_blocks(launch).items()
        if first % value == 0 and value & (value - 1) == 0
    ]
    return (max(found)[2], max(found)[1]) if found else None


def _short_grid(
    first: int, size: int, block: tuple[str, int], many: Note, launches: Sequence[Launch]
) -> Note | None:
    """Return what to say if the grid ends where the missing part begins."""
    label, step = block
    needed = -(-size // step)
    for launch in launches:
        used = [axis for axis, programs in enumerate(launch.grid) if programs > 1] or [0]
        for axis, programs in enumerate(launch.grid[: used[-1] + 1]):
            if programs * step == first:
                return note(
                    "grid-is-short",
                    programs=programs,
                    axis=axis,
                    covered=first,
                    size=size,
                    many=many,
                    block=label,
                    needed=needed,
                    at=launch.grid.index(needed) if needed in launch.grid else -1,
                )
    return None


def left_out(
    recording: Recording,
    launches: Sequence[int],
    names: Collection[str],
    missing: np.ndarray,
    strides: tuple[int, ...],
) -> tuple[Note, Note | None] | None:
    """Return what left elements out, and the remedy if it is certain; None where nothing is.

    recording: of the same call, all of it
    launches, names: the numbers of those that were given the result, and by which parameters
    missing, strides: of the result, as in `explain`
    """
    stores = [it for it in recording.touches if it.launch in launches and it.verb != "reads"]
    stores = [it for it in stores if it.tensor.name in names]
    programs = sum(math.prod(recording.launches[number].grid) for number in launches)
    if recording.is_full or not launches:
        return None
    if not stores:
        around = _around_stores({recording.launches[number].kernel for number in launches})
        said = note("no-store-to-result", programs=programs, **(around or {}))
        return said, TURN if programs and around and around["loops"] else None
    alike = {(it.tensor.name, it.tensor.shape, it.tensor.strides) for it in stores}
    if alike == {(stores[0].tensor.name, (*missing.shape, 2), (*(2 * it for it in strides), 1))}:
        # Complex numbers, handed over as pairs of real ones.
        missing = np.stack([missing, missing], -1).reshape(-1)
        stores = [replace(it, index=[it.element], shape=missing.shape) for it in stores]
    elif {it[1:] for it in alike} != {(missing.shape, strides)} or len(alike) > 1:
        return None
    if any(_hit(touch, touch.active, missing).any() for touch in stores):
        # An autotuner may have run another configuration.
        return None
    if found := _of_programs(recording, stores, names, missing):
        return found
    if not all((touch.active | touch.masked | touch.outside).all() for touch in stores):
        # Where a lane lies that is masked off is known of evenly spaced ones only.
        return None
    counted = _first_size(recording, launches, missing)
    covered = np.zeros(missing.shape, dtype=bool)
    example: Touch | None = None
    for touch in stores:
        hit = _hit(touch, touch.masked, missing)
        if hit.any():
            example = example or touch
            covered |= hit
    if example:
        first = _hit(example, example.masked, missing)
        said = note(
            "mask-leaves-out",
            program=recording.launches[example.launch].program(example.program),
            element=[int(i) for i in np.argwhere(first)[0]],
            tensor=example.tensor.name,
            file=example.site.file,
            line=example.site.line,
            count=int(covered.sum()),
            of=int(missing.sum()),
            **_launch(recording, stores),
        )
        if any(_is_ambiguous(touch) for touch in stores):
            return None
        if counted or covered.sum() < missing.sum() or ends_where_memory_says(example.site):
            # Such a mask may be right, and the tile that lacks be another.
            return said, counted
        return said, MASK
    said, remedy = _in_no_tile(recording, stores, missing)
    return said, counted or remedy


def _of_programs(
    recording: Recording, stores: Sequence[Touch], names: Collection[str], missing: np.ndarray
) -> tuple[Note, Note] | None:
    """Return what certain programs would have stored: those that store nothing, or do not run."""
    strides = np.empty(missing.shape, dtype=np.int8).strides
    sizes = zip(missing.shape, stores[0].tensor.strides, strides, strict=False)
    if any(size > 1 and step != dense for size, step, dense in sizes):
        return None
    numbers = sorted({touch.launch for touch in stores})
    if len(numbers) == 1 and (swapped := swapped_axes(recording, numbers[0], names, missing)):
        return _in_no_tile(recording, stores, missing)[0], swapped
    for number in numbers:
        own = [touch for touch in stores if touch.launch == number]
        programs, sites = math.prod(recording.launches[number].grid), {it.site for it in own}
        idle = {*range(programs)} - {
            program for at, program, site in recording.ran if at == number and site in sites
        }
        line = in_their_tiles(recording, number, names, idle, missing) if idle else None
        if line is not None:
            which = _launch(recording, own)
            count = {"idle": len(idle), "programs": programs}
            return note("tiles-of-idle-programs", **count, **which, **line), IDLE
    return None


def _first_size(recording: Recording, launches: Sequence[int], missing: np.ndarray) -> Note | None:
    """Say so if the first size of an input is taken for the number of all its elements.

    With that number the kernel would have just what is missing, too.
    """
    for launch in (recording.launches[number] for number in launches):
        for name, value in launch.arguments.items():
            if not isinstance(value, torch.Tensor) or value.dim() < 2 or not value.numel():
                continue
            shape, first = tuple(value.shape), len(value)
            given = [
                label
                for label, it in launch.arguments.items()
                if type(it) is int and it == first and label not in launch.constexprs
            ]
            if missing.shape[: len(shape)] != shape or len(given) != 1 or value.numel() == first:
                continue
            rows = missing.reshape(value.numel(), -1)
            if not rows[:first].any() and rows[first:].all():
                tensor = region_name(name)
                sizes = {"first": first, "numel": value.numel()}
                return note("first-size-for-all", label=given[0], tensor=tensor, **sizes)
    return None


def _is_ambiguous(touch: Touch) -> bool:
    """Return whether two indices of a tile may have changed places: dimensions of one stride."""
    strides = [
        step
        for index, step in zip(touch.index, touch.tensor.strides, strict=False)
        if index is not None and index.min() < index.max()
    ]
    return len({*strides}) < len(strides)


def _around_stores(kernels: Collection[Callable]) -> dict[str, object] | None:
    """Return the only loop or condition of a kernel in which all its stores stand, as a line."""
    file, around = _statements_around(kernels)
    if len({*around}) != 1 or len(around[0]) != 1:
        return None
    (statement,) = around[0]
    if isinstance(statement, ast.If) and statement.orelse:
        return None
    line, loops = statement.lineno, _is_loop(statement)
    return {
        "file": file,
        "line": line,
        "source": CallSite(file, line, "").line_text,
        "loops": loops,
    }


def _statements_around(
    kernels: Collection[Callable],
) -> tuple[str, list[tuple[ast.stmt, ...]]]:
    """Return a kernel's file, and the loops and conditions around each of its stores.

    Nothing where there are several kernels, or the source is not known.
    """
    if len(kernels) != 1:
        return "", []
    (kernel,) = kernels
    code = kernel.__code__
    last = max(line for *_, line in code.co_lines() if line)
    function = function_at(CallSite(code.co_filename, last, kernel.__name__))
    return code.co_filename, [*_stores(function, ())] if function else []


def _stores_in_loop(kernel: Callable) -> bool:
    """Return whether a store stands in a loop, or where is not known."""
    around = _statements_around({kernel})[1]
    return not around or any(map(_is_loop, itertools.chain(*around)))


def _is_loop(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.For, ast.While))


def _stores(node: ast.AST, around: tuple[ast.stmt, ...]) -> Iterator[tuple[ast.stmt, ...]]:
    """Yield the loops and conditions around each call that stores."""
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(called, ast.Attribute) and called.attr.startswith(("store", "atomic_")):
        yield around
    if isinstance(node, (ast.For, ast.While, ast.If)):
        around = *around, node
    for child in ast.iter_child_nodes(node):
        yield from _stores(child, around)


def _in_no_tile(
    recording: Recording, stores: Sequence[Touch], missing: np.ndarray
) -> tuple[Note, Note | None]:
    """No lane of a store has what is missing, masked off or not."""
    if gaps := _gaps(stores, missing):
        axis, step = gaps
        said = note("lanes-lie-apart", step=step, axis=axis, dims=missing.ndim)
        return said, GAPS
    tiles = [(touch.launch, touch.program) for touch in stores]
    grids = [recording.launches[number].grid for number in {touch.launch for touch in stores}]
    programs, storing = sum(map(math.prod, grids)), len(set(tiles))
    sides = [_sides(touch) for touch in stores if touch.shape == missing.shape]
    tile = max(sides, key=math.prod, default=())
    needed = math.prod(-(-n // side) for n, side in zip(missing.shape, tile, strict=False))
    said = note(
        "no-tile-has-them",
        programs=programs,
        storing=storing,
        tiles=len(tiles),
        needed=needed if tile else 0,
        sides=tile,
        ends=_ends(stores, missing),
        begins=_begins(stores, missing) if tile and len(tiles) >= needed else [],
        **_launch(recording, stores),
    )
    if len(tiles) == storing < programs == needed:
        kernels = {recording.launches[touch.launch].kernel for touch in stores}
        return said, ORDER if any(map(_stores_in_loop, kernels)) else IDLE
    if not tile or not len(tiles) == storing == programs < needed:
        return said, ORDER
    in_part = missing.any(-1) & ~missing.all(-1)
    reduces = any(stores_a_sum(it.site, REDUCTIONS) for it in stores)
    return said, ROW if reduces and in_part.any() else GRID


def _gaps(stores: Sequence[Touch], missing: np.ndarray) -> tuple[int, int] | None:
    """Return the axis along which all that is missing lies between lanes, and how far these lie."""
    if any(it.shape != missing.shape for it in stores):
        return None
    for axis in range(missing.ndim):
        taken = [
            np.unique(np.broadcast_to(index, touch.active.shape)[touch.active])
            for touch in stores
            if (index := touch.index[axis]) is not None
        ]
        steps = {int(step) for indices in taken for step in np.unique(np.diff(indices))}
        if len(steps) != 1 or (step := steps.pop()) == 1:
            continue
        places = {int(place) % step for indices in taken for place in indices[:1]}
        others = tuple({*range(missing.ndim)} - {axis})
        empty = np.flatnonzero(missing.any(axis=others) if others else missing) % step
        if len(places) == 1 and not places & {*empty.tolist()}:
            return axis, step
    return None


def _sides(touch: Touch) -> tuple[int, ...]:
    """Return how many indices a tile has along each dimension."""
    return tuple(
        1 if index is None else int(index.max() - index.min()) + 1 for index in touch.index
    )


def _launch(recording: Recording, stores: Sequence[Touch]) -> dict[str, object]:
    """Return which of several launches stores the result, where only one of them does."""
    numbers = {touch.launch for touch in stores}
    if len(numbers) != 1 or len(recording.launches) == 1:
        return {"kernel": "", "launch": 0, "launches": len(recording.launches)}
    (number,) = numbers
    return {
        "kernel": recording.launches[number].kernel.__name__,
        "launch": number + 1,
        "launches": len(recording.launches),
    }


def _hit(touch: Touch, lanes: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Return which of the missing elements these lanes of an access have, by their indices."""
    found = np.zeros(missing.shape, dtype=bool)
    if touch.shape != missing.shape or any(index is None for index in touch.index):
        if touch.shape != (missing.size,) or touch.index[0] is None:
            return found
        # The kernel walks the tensor as one row.
        inside = lanes & (touch.index[0] >= 0) & (touch.index[0] < missing.size)
        found.reshape(-1)[touch.index[0][inside]] = True
        return found & missing
    indices = [np.broadcast_to(index, lanes.shape) for index in touch.index if index is not None]
    inside = lanes.copy()
    for index, size in zip(indices, missing.shape, strict=True):
        inside &= (index >= 0) & (index < size)
    found[tuple(index[inside] for index in indices)] = True
    return found & missing


def _begins(stores: Sequence[Touch], missing: np.ndarray) -> list[tuple[int, list[int]]]:
    """Return where the first tile of each of the first programs begins, by their numbers."""
    found: dict[int, list[int]] = {}
    for touch in stores:
        if touch.shape == missing.shape and all(index is not None for index in touch.index):
            begin = [int(index.min()) for index in touch.index if index is not None]
            found.setdefault(touch.program, begin)
    return sorted(found.items())[:FIRST_TILES] if len({it.launch for it in stores}) == 1 else []


def _ends(stores: Sequence[Touch], missing: np.ndarray) -> list[Note]:
    """Return where all tiles end along an axis beyond which all that is missing lies."""
    found = []
    for axis in range(missing.ndim):
        lasts = [it.index[axis] for it in stores if it.shape == missing.shape]
        if len(lasts) != len(stores) or any(index is None for index in lasts):
            return []
        last = max(int(index.max()) for index in lasts if index is not None)
        others = tuple({*range(missing.ndim)} - {axis})
        hit = np.flatnonzero(missing.any(axis=others) if others else missing)
        if last < hit[0]:
            found.append(note("tiles-end", last=last, axis=axis, dims=missing.ndim))
    return found
