"""Why a call moves more than its budget: what moves the same bytes again, as it was counted."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernelgauge.memory.addresses import Region
from kernelgauge.memory.coordinates import format_element
from kernelgauge.memory.terms import Term
from kernelgauge.words.fault import Note, note

SECTOR_BYTES = 32

_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Touched:
    """What one access of a program touches.

    spans: the first byte of each run of bytes, and the one after its last
    lanes: bytes of all lanes, of which several may touch one element
    """

    region: Region
    site: int
    is_store: bool
    spans: np.ndarray
    lanes: int

    @property
    def size(self) -> int:
        """Distinct bytes."""
        return int((self.spans[1] - self.spans[0]).sum())


def positions(touched: Iterable[Touched]) -> np.ndarray:
    """Return the distinct bytes of some accesses, in order."""
    return _covered([it.spans for it in touched])


def sectors(touched: Iterable[Touched]) -> int:
    """Return how many distinct sectors some accesses touch."""
    spans = [it.spans for it in touched]
    return _covered(
        [np.stack((b // SECTOR_BYTES, (e - 1) // SECTOR_BYTES + 1)) for b, e in spans]
    ).size


def _covered(spans: Sequence[np.ndarray]) -> np.ndarray:
    if not spans:
        return _NONE
    starts, ends = np.concatenate(spans, axis=1)
    lengths = ends - starts
    before = np.cumsum(lengths) - lengths
    return unique(np.arange(lengths.sum()) + np.repeat(starts - before, lengths))


def unique(values: np.ndarray) -> np.ndarray:
    """Return what np.unique does, in a sixth of the time for the few thousand of one access."""
    ordered = np.sort(values, axis=None)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if ordered.size else _NONE


def why(
    launches: Sequence[dict[int, list[Touched]]],
    grids: Sequence[tuple[int, int, int]],
    kernels: Sequence[str],
    line: Callable[[int], str],
    way: str,
    times_allowed: float,
) -> Note | None:
    """Return what makes a tensor move more than once: lanes, one program, launches, or programs.

    Of these, the first without which the budget would be kept, or else what weighs most. Where
    nothing moves twice and not all may be loaded, the loads take what is not needed.

    launches: for each launch, what its programs do to the tensor
    line: says of a call site where it is
    way: loaded or stored
    times_allowed: of the bytes that are moved at all
    """
    each = [it for programs in launches for touched in programs.values() for it in touched]
    of_program = sum(positions(it).size for programs in launches for it in programs.values())
    of_launch = [positions(it for own in programs.values() for it in own) for programs in launches]
    total, once = sum(it.lanes for it in each), sum(it.size for it in each)
    largest = sum(it.size for it in of_launch)
    least = unique(np.concatenate(of_launch)).size if of_launch else 0
    if not least:
        return None
    factors = {
        "lanes": total / once,
        "again": once / of_program,
        "launches": largest / least,
        "programs": of_program / largest,
    }
    moved = math.prod(factors.values())
    most = max(factors, key=factors.__getitem__)
    most = next((it for it, n in factors.items() if moved / n <= times_allowed + 1e-6), most)
    times = factors[most]
    if times <= 1 + 1e-6:
        return note("loads-too-much") if way == "loaded" and 0 < times_allowed < 1 else None
    if most == "lanes":
        worst = max(each, key=lambda it: it.lanes / it.size)
        lanes = worst.lanes / worst.size
        return note("lanes-share-elements", way=way, times=lanes, line=line(worst.site))
    if most == "again":
        return _again(launches, grids, line, way)
    if most == "launches":
        names = [kernel for kernel, it in zip(kernels, of_launch, strict=True) if it.size]
        return note("launches-share-elements", way=way, kernels=names)
    launch = max(range(len(launches)), key=lambda it: _times(launches[it].values()))
    programs, grid = launches[launch], grids[launch]
    axes = [axis for axis in range(3) if grid[axis] > 1 and _are_alike(programs, grid, axis)]
    if not axes:
        return _meeting(programs, grid, way)
    return note("programs-share-elements", way=way, times=times, axes=axes, grid=grid)


def _meeting(programs: dict[int, list[Touched]], grid: tuple[int, int, int], way: str) -> Note:
    """Return which elements more than one program moves, and two programs that do."""
    own = {number: positions(touched) for number, touched in programs.items()}
    every = np.sort(np.concatenate([*own.values()]))
    twice = unique(every[1:][every[1:] == every[:-1]])
    one, other, *_ = (number for number, its in own.items() if twice[0] in its)
    both = np.intersect1d(own[one], own[other], assume_unique=True)
    region = programs[one][0].region
    before = region.real - region.storage.base
    run = np.flatnonzero(np.diff(both, append=both[-1] + 2) != 1)[0]
    return note(
        "programs-meet-at-elements",
        way=way,
        count=twice.size // region.itemsize,
        programs=[_ids(one, grid), _ids(other, grid)],
        first=format_element(region, int(both[0]) - before),
        last=format_element(region, int(both[run]) - before),
    )


def _times(programs: Iterable[list[Touched]]) -> float:
    """Return how many programs touch a byte, on average."""
    own = [positions(it) for it in programs]
    return sum(it.size for it in own) / unique(np.concatenate(own)).size if own else 0.0


def _ids(number: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    width, height, _ = grid
    return number % width, number // width % height, number // (width * height)


def _are_alike(programs: dict[int, list[Touched]], grid: tuple[int, int, int], axis: int) -> bool:
    """Return whether programs that differ along this axis alone touch the same bytes."""
    groups: dict[tuple[int, ...], list[np.ndarray]] = defaultdict(list)
    for number, touched in programs.items():
        ids = _ids(number, grid)
        groups[ids[:axis] + ids[axis + 1 :]].append(positions(touched))
    return all(
        len(group) == grid[axis] and all(np.array_equal(it, group[0]) for it in group)
        for group in groups.values()
    )


def _again(
    launches: Sequence[dict[int, list[Touched]]],
    grids: Sequence[tuple[int, int, int]],
    line: Callable[[int], str],
    way: str,
) -> Note:
    """A program moves the same bytes in several accesses: on one line, or on several."""
    numbered = [
        (launch, number, touched)
        for launch, programs in enumerate(launches)
        for number, touched in programs.items()
    ]
    doubled = [
        (launch, number, touched)
        for launch, number, touched in numbered
        if sum(it.size for it in touched) > positions(touched).size
    ]
    launch, number, touched = doubled[0]
    twice = _twice(touched)
    sites = sorted({it.site for it in touched if np.isin(positions([it]), twice).any()})
    region = touched[0].region
    square = all(_is_square(it[0].region, _twice(it)) for _, _, it in doubled)
    return note(
        "program-repeats-elements",
        way=way,
        program=_ids(number, grids[launch]),
        element=format_element(region, int(twice[0]) - (region.real - region.storage.base)),
        lines=[line(site) for site in sites],
        count=len(doubled),
        of=len(numbered),
        diagonal=len(sites) > 1 and len(doubled) < len(numbered) and square,
    )


def _twice(touched: Sequence[Touched]) -> np.ndarray:
    """Return the bytes that more than one of these accesses touches."""
    every = np.sort(np.concatenate([positions([it]) for it in touched]))
    return unique(every[1:][every[1:] == every[:-1]])


def _is_square(region: Region, twice: np.ndarray) -> bool:
    """Return whether bytes are those of a tile of a matrix with the same rows as columns."""
    if len(region.shape) != 2:
        return False
    element = (twice - (region.real - region.storage.base)) // region.itemsize
    rows, columns = region.coordinates(element)
    if rows is None or columns is None:
        return False
    return (rows.min(), rows.max()) == (columns.min(), columns.max())


def handed_on(
    flows: Iterable[tuple[int, bool, int, Region]],
    kernels: Sequence[str],
    line: Callable[[int], str],
) -> Iterator[Note]:
    """Yield which tensor that the launcher allocated a launch stores and another one loads.

    flows: as in `TrafficMeter.scratch_flows`
    """
    stored: dict[int, tuple[int, int, str]] = {}
    for launch, is_store, site, region in flows:
        key = region.storage.key
        if is_store:
            stored.setdefault(key, (launch, site, region.name))
        elif key in stored and stored[key][0] < launch:
            first, where, name = stored.pop(key)
            yield note(
                "tensor-handed-on",
                tensor=name,
                kernel=kernels[first],
                line=line(where),
                other=kernels[launch],
                other_line=line(site),
            )


def row_of(terms: Sequence[Term], region: Region) -> Note | None:
    """Return how a tile lies in memory that uses parts of sectors: in short rows, or across it."""
    tiles = [it for it in terms if it.is_tile]
    along = [it for it in tiles if abs(it.factor) == 1]
    if tiles and not along:
        return note("tile-across-memory", indices=[(it.index, it.factor) for it in tiles])
    if len(along) != 1 or not along[0].definition:
        return None
    (term,) = along
    count = int(term.values.max() - term.values.min()) + 1
    if count * region.itemsize >= SECTOR_BYTES:
        return None
    return note(
        "row-of-a-tile",
        index=term.index,
        definition=term.definition,
        count=count,
        nbytes=count * region.itemsize,
    )
