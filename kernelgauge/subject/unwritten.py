"""What no program stored: where it begins, in tiles, and what left it out: grid, loop or mask."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kernelgauge.core.launch import Launch
from kernelgauge.core.settings import settings

# Of larger results only the first element is told.
MAX_ELEMENTS = 2**24

MASK = "the mask of the store leaves them out"
ORDER = (
    "some tiles are nobody's: a loop over tiles ends too early or takes steps that are too large, "
    "or the rule that turns a number into a tile leaves them out"
)
LOOP = (
    "the grid has one program for each multiprocessor: each must loop over tiles, in steps of "
    "tl.num_programs(0), to the last one"
)
DEFAULT = "is the grid large enough, and does the mask let every element through?"


def explain(missing: np.ndarray, launches: Sequence[Launch]) -> tuple[str, str]:
    """Return the ranges that are missing, ", rows 256..330", and the hint.

    missing: bool, of the result's shape
    launches: those that were given the result
    """
    if missing.size > MAX_ELEMENTS:
        return "", DEFAULT
    persistent = any(
        math.prod(launch.grid) == settings.multiprocessors
        and "multiprocessors" in getattr(launch.kernel, "__globals__", {})
        for launch in launches
    )
    places, hint = "", LOOP if persistent else DEFAULT
    for axis, size in enumerate(missing.shape):
        others = tuple({*range(missing.ndim)} - {axis})
        hit = np.flatnonzero(missing.any(axis=others) if others else missing)
        first, last = int(hit[0]), int(hit[-1])
        if len(hit) == size or len(hit) != last - first + 1:
            continue
        name = _name(axis, missing.ndim)
        places += f", {name} {first}..{last}"
        block = _block(first, axis, missing.ndim, launches)
        if last == size - 1 and first:
            places += ", all from there on"
            if block:
                places += f": from tile {first // block[1]} of {block[0]} = {block[1]}"
                if hint == DEFAULT:
                    hint = _short_grid(first, size, block, name, launches) or hint
        if persistent:
            continue
        if axis < missing.ndim - 2:
            hint = f"does the grid have a program for each of the {size} {name}?"
        elif hint == DEFAULT and launches:
            hint = ORDER if block and (last + 1) % block[1] in (0, size % block[1]) else MASK
    return places, hint


def _name(axis: int, dims: int) -> str:
    if dims == 1:
        return "elements"
    return {dims - 1: "columns", dims - 2: "rows"}.get(axis, f"indices of dimension {axis}")


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
    first: int, size: int, block: tuple[str, int], name: str, launches: Sequence[Launch]
) -> str | None:
    """Return what to say if the grid ends where the missing part begins."""
    label, step = block
    needed = -(-size // step)
    for launch in launches:
        used = [axis for axis, programs in enumerate(launch.grid) if programs > 1] or [0]
        for axis, programs in enumerate(launch.grid[: used[-1] + 1]):
            if programs * step == first:
                many = "1 program" if programs == 1 else f"{programs} programs"
                covers = "covers" if programs == 1 else "cover"
                said = (
                    f"the grid has {many} along axis {axis}, which {covers} {first} of {size} "
                    f"{name}: triton.cdiv({size}, {label}) is {needed}"
                )
                if needed in launch.grid:
                    said += f", as along axis {launch.grid.index(needed)}: are the axes swapped?"
                return said
    return None
