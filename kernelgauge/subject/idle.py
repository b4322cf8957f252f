"""The tiles that programs would have which store nothing, or do not run: read from the source."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Iterable

import numpy as np

from kernelgauge.memory.call_sites import CallSite
from kernelgauge.memory.mask_limits import function_at
from kernelgauge.memory.recording import Recording
from kernelgauge.memory.terms import in_program
from kernelgauge.words.fault import Note, note

# The tiles of so many programs are worked out.
MAX_PROGRAMS = 512

Ids = tuple[int, int, int]


def swapped_axes(
    recording: Recording, launch: int, names: Collection[str], missing: np.ndarray
) -> Note | None:
    """Return which two axes of a grid must change places for the tiles to have what is missing.

    names: by which parameters the kernel has the result
    """
    grid = recording.launches[launch].grid
    now = _reached(recording, launch, names, _programs(grid), missing)
    if now is None or now.any():
        return None
    for one, other in itertools.combinations(range(3), 2):
        sizes = list(grid)
        sizes[one], sizes[other] = sizes[other], sizes[one]
        if sizes == list(grid):
            continue
        found = _reached(recording, launch, names, _programs(sizes), missing)
        if found is not None and np.array_equal(found, missing):
            axes = {"one": one, "other": other}
            return note("grid-axes-are-swapped", given=list(grid), needed=sizes, **axes)
    return None


def in_their_tiles(
    recording: Recording,
    launch: int,
    names: Collection[str],
    idle: Collection[int],
    missing: np.ndarray,
) -> dict[str, object] | None:
    """Return the line that these programs end at, where their tiles have all that is missing.

    {} where that line is not known, and None where their tiles are not.

    names: as in `swapped_axes`
    """
    ids = [recording.launches[launch].program(number) for number in idle]
    found = _reached(recording, launch, names, ids, missing)
    if found is None or not np.array_equal(found, missing):
        return None
    sites = [site for number, name, site in recording.stores if number == launch and name in names]
    return _line_before(sites)


def _programs(grid: Iterable[int]) -> list[Ids]:
    width, height, depth = grid
    if width * height * depth > MAX_PROGRAMS:
        return []
    return [(x, y, z) for z in range(depth) for y in range(height) for x in range(width)]


def _reached(
    recording: Recording,
    launch: int,
    names: Collection[str],
    programs: list[Ids],
    missing: np.ndarray,
) -> np.ndarray | None:
    """Return which of the missing elements the tiles of these programs have, if that is certain."""
    stores = [
        store
        for (number, name, _), store in recording.stores.items()
        if number == launch and name in names
    ]
    if not stores or not 0 < len(programs) <= MAX_PROGRAMS:
        return None
    strides = np.empty(missing.shape, dtype=np.int8).strides
    found = np.zeros(missing.size, dtype=bool)
    for access, terms in stores:
        tiles = [term.is_tile for term in terms]
        along = [term.dimensions(missing.shape, strides) if term.is_tile else [] for term in terms]
        taken = [dims[0] for dims in along if len(dims) == 1]
        if not any(tiles) or len({*taken}) != sum(tiles):
            return None
        for program in programs:
            values = in_program(access, terms, program)
            if values is None:
                return None
            element = np.zeros(access.mask.shape, dtype=np.int64)
            inside = np.ones(access.mask.shape, dtype=bool)
            for term, dims, index in zip(terms, along, values, strict=True):
                element += index * term.factor
                for dim in dims:
                    inside &= (index >= 0) & (index < missing.shape[dim])
            inside &= (element >= 0) & (element < missing.size)
            found[element[inside]] = True
    return found.reshape(missing.shape) & missing


def _line_before(sites: Collection[CallSite]) -> dict[str, object]:
    """Return the condition that keeps a program from these stores, if there is only one."""
    functions = {function_at(site) for site in sites}
    function = functions.pop() if len(functions) == 1 else None
    if function is None:
        return {}
    lines = {site.line for site in sites}
    returns = [it for it in ast.walk(function) if isinstance(it, ast.Return)]
    around = [it for it in function.body if lines & {*range(it.lineno, (it.end_lineno or 0) + 1)}]
    if not around or any(isinstance(it, (ast.For, ast.While, ast.If)) for it in around):
        return {}
    early = [it for it in function.body if isinstance(it, ast.If) and {*returns} & {*ast.walk(it)}]
    if len(returns) != 1 or len(early) != 1 or early[0].lineno > min(lines):
        return {}
    (site, *_), line = sites, early[0].lineno
    return {"file": site.file, "line": line, "source": CallSite(site.file, line, "").line_text}
