"""What no program stored: where it begins, in tiles, and what left it out: grid, loop or mask."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kernelgauge.core.launch import Launch
from kernelgauge.core.settings import settings
from kernelgauge.words.fault import Note, note

# Of larger results only the first element is told.
MAX_ELEMENTS = 2**24

MASK = note("mask-of-store")
ORDER = note("tiles-of-nobody")
LOOP = note("loop-over-tiles")
DEFAULT = note("grid-or-mask")


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


def _block(first: int, axis: int, dims: int, launches: Sequence[Launch]) -> tuple[str, int] | None:
    """Return the constexpr that looks like the block size along an axis: its name, and its value.

    first: an index at which a tile begins
    """
    letters = {dims - 1: "N", dims - 2: "M"} if dims > 1 else {}
    found = [
        (name.endswith(letters.get(axis, "")), value, name)
        for launch in launches
        for name in launch.constexprs
        if type(value := launch.arguments.get(name)) is int and value > 1 and first % value == 0
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
