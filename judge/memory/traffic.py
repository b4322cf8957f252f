"""What the launches of one call move between memory and the programs, and the budgets for it.

Names of tensors are those of the subject's parameters, "result" (or "result 0", "result 1", ...)
for what it returns, and "scratch" for whatever else it allocates.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import torch

from judge.core.launch import Launch
from judge.memory.addresses import Region
from judge.memory.call_sites import CallSites

SECTOR_BYTES = 32


@dataclass
class Flow:
    """What was loaded from a tensor, or stored to it.

    elements: lanes that were active
    sectors: of 32 bytes, those that each access touches, summed over the accesses
    least: the sectors that as many bytes need at least, summed likewise
    times: elements over the tensor's own elements
    lines: elements by number of the line that accessed them
    """

    elements: float = 0.0
    bytes: int = 0
    accesses: int = 0
    sectors: int = 0
    least: int = 0
    times: float = 0.0
    lines: dict[int, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def ratio(self) -> float:
        """Sectors over the least possible; 1 if there were none."""
        return self.sectors / self.least if self.least else 1.0

    @property
    def passes(self) -> float:
        """Sectors over those that the whole tensor takes, packed."""
        return self.sectors * SECTOR_BYTES * self.times / self.bytes if self.bytes else 0.0


@dataclass
class Moved:
    """One tensor's traffic over all launches. numel: its elements."""

    name: str
    numel: int
    loaded: Flow = field(default_factory=Flow)
    stored: Flow = field(default_factory=Flow)

    @property
    def loads(self) -> float:
        """How many times the whole tensor was loaded."""
        return self.loaded.times

    @property
    def stores(self) -> float:
        return self.stored.times

    @property
    def bytes_loaded(self) -> int:
        return self.loaded.bytes

    @property
    def bytes_stored(self) -> int:
        return self.stored.bytes

    @property
    def sectors_ratio(self) -> float:
        """32-byte sectors of loads and stores over the least possible."""
        least = self.loaded.least + self.stored.least
        return (self.loaded.sectors + self.stored.sectors) / least if least else 1.0


@dataclass
class _Entry:
    """The accesses of one line to one argument of one launch."""

    region: Region
    is_store: bool
    site: int
    accesses: int = 0
    bytes: int = 0
    sectors: int = 0
    least: int = 0


class TrafficMeter:
    """The traffic of one run of a subject. Sizes are in elements unless they are called bytes.

    launches: their number
    grids: the grid of each
    kernels: the name of each
    dot_macs: multiply-adds through tl.dot
    sites: the lines of the kernels, by the numbers that flows know them by
    """

    def __init__(self, sites: CallSites, inputs: dict[str, torch.Tensor]):
        self.grids: list[tuple[int, int, int]] = []
        self.dot_macs = 0
        self.kernels: list[str] = []
        self.sites = sites
        self.inputs = inputs
        self._results: tuple[torch.Tensor, ...] | None = None
        self._entries: dict[tuple[int, bool, int], _Entry] = {}
        # By launch, by program, by storage: first and last byte of each run that was touched.
        self._touched: list[dict[int, dict[int, list[np.ndarray]]]] = []

    @property
    def launches(self) -> int:
        return len(self.grids)

    @property
    def grid(self) -> tuple[int, int, int]:
        """The largest grid of a launch."""
        return max(self.grids, key=_programs, default=(0, 0, 0))

    def name_results(self, *results: torch.Tensor) -> None:
        """Say what the subject returned, or changed in place.

        Until then every tensor but the inputs counts as "result".
        """
        self._results = results

    def start_launch(self, launch: Launch) -> None:
        self.grids.append(launch.grid)
        self.kernels.append(launch.kernel.__name__)
        self._touched.append(defaultdict(lambda: defaultdict(list)))

    def note(self, program: int, region: Region, units: np.ndarray, verb: str, site: int) -> None:
        """Count one access of a program. Atomics count as stores.

        units: what it touches, in units of the storage's ledger
        """
        unit = region.storage.ledger.unit
        key = (id(region), verb != "reads", site)
        if key not in self._entries:
            self._entries[key] = _Entry(region, verb != "reads", site)
        entry = self._entries[key]
        first = np.unique(units) * unit
        entry.accesses += 1
        entry.bytes += units.size * unit
        entry.sectors += 1 + int(np.count_nonzero(np.diff(first // SECTOR_BYTES)))
        entry.least += -(-first.size * unit // SECTOR_BYTES)
        breaks = np.flatnonzero(np.diff(first) != unit)
        starts = first[np.concatenate(([0], breaks + 1))]
        ends = first[np.concatenate((breaks, [first.size - 1]))] + unit
        self._touched[-1][program][region.storage.key].append(np.stack((starts, ends)))

    def seeing_dots(self, original: Callable) -> Callable:
        """Triton's create_dot, counting."""

        def create_dot(builder, a, b, *rest, **options):
            self.dot_macs += a.data.size * b.data.shape[-1]
            return original(builder, a, b, *rest, **options)

        return create_dot

    def seeing_scaled_dots(self, original: Callable) -> Callable:
        """Triton's create_dot_scaled, counting by the shape of the result."""

        def create_dot_scaled(builder, a, a_scale, a_format, b, *rest, **options):
            result = original(builder, a, a_scale, a_format, b, *rest, **options)
            packed = 2 if a_format.name == "E2M1" else 1
            self.dot_macs += a.data.size * packed * result.data.shape[-1]
            return result

        return create_dot_scaled

    @property
    def tensors(self) -> dict[str, Moved]:
        """All traffic, by name of tensor."""
        # A kernel may see a tensor as one of another type: complex64 as pairs of float32.
        sizes = {name: tensor.numel() for name, tensor in self.inputs.items()}
        itemsizes = {name: tensor.element_size() for name, tensor in self.inputs.items()}
        for tensor in self._results or ():
            sizes.setdefault(self._name(tensor), tensor.numel())
            itemsizes.setdefault(self._name(tensor), tensor.element_size())
        others: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for entry in self._entries.values():
            name, key = self._name_of(entry.region), entry.region.storage.key
            if name not in sizes:
                others[name][key] = max(others[name][key], entry.region.numel)
        sizes |= {name: sum(numels.values()) for name, numels in others.items()}
        found = {name: Moved(name, numel) for name, numel in sizes.items()}
        for entry in self._entries.values():
            moved = found[self._name_of(entry.region)]
            itemsize = itemsizes.get(moved.name, entry.region.itemsize)
            _add(moved.stored if entry.is_store else moved.loaded, entry, moved.numel, itemsize)
        return found

    def tensor(self, name: str) -> Moved:
        """The traffic of one tensor; "result" is all results, where there are several."""
        tensors = self.tensors
        if name in tensors:
            return tensors[name]
        if name in ("result", "scratch"):
            return _sum(name, [part for key, part in tensors.items() if key.startswith(f"{name} ")])
        raise KeyError(f"{name} is none of {', '.join(tensors)}")

    def window_bytes(self, tensors: Iterable[str], window: int) -> float:
        """Distinct bytes of these tensors that so many consecutive programs touch.

        The mean over all windows of all launches, in the order in which a GPU starts programs (x
        fastest). A launch of fewer programs is one window.
        """
        wanted = set(tensors)
        keys = {
            e.region.storage.key
            for e in self._entries.values()
            if self._name_of(e.region) in wanted
        }
        totals: list[int] = []
        for grid, programs in zip(self.grids, self._touched, strict=True):
            sizes = [_window_sizes(programs, _programs(grid), key, window) for key in keys]
            totals += np.sum(sizes, axis=0).tolist() if sizes else []
        return float(np.mean(totals)) if totals else 0.0

    @property
    def stored_sizes(self) -> set[tuple[str, int]]:
        """Name and number of elements of every tensor that a kernel stored to."""
        stored = (entry.region for entry in self._entries.values() if entry.is_store)
        return {(self._name_of(region), region.numel) for region in stored}

    def _name_of(self, region: Region) -> str:
        return self._name(region.tensor, region.name)

    def _name(self, tensor: torch.Tensor, argument: str = "") -> str:
        """The name of a tensor, by its memory; the kernel's own name for it tells inputs apart."""
        key = tensor.untyped_storage().data_ptr()
        same = {n: t for n, t in self.inputs.items() if t.untyped_storage().data_ptr() == key}
        if argument in same:
            return argument
        for name, other in same.items():
            if other.data_ptr() == tensor.data_ptr() and other.shape == tensor.shape:
                return name
        if same:
            return next(iter(same))
        if self._results is None:
            return "result"
        for number, result in enumerate(self._results):
            if result.untyped_storage().data_ptr() == key:
                return "result" if len(self._results) == 1 else f"result {number}"
        return "scratch"

    def result_names(self) -> list[str]:
        return ["result"] if self._results is None else [self._name(r) for r in self._results]


def _add(flow: Flow, entry: _Entry, numel: int, itemsize: int) -> None:
    elements = entry.bytes / itemsize
    flow.elements += elements
    flow.bytes += entry.bytes
    flow.accesses += entry.accesses
    flow.sectors += entry.sectors
    flow.least += entry.least
    flow.times = flow.elements / numel if numel else 0.0
    flow.lines[entry.site] += elements


def _sum(name: str, parts: list[Moved]) -> Moved:
    total = Moved(name, sum(moved.numel for moved in parts))
    for moved, direction in itertools.product(parts, ("loaded", "stored")):
        flow, into = getattr(moved, direction), getattr(total, direction)
        for count in ("elements", "bytes", "accesses", "sectors", "least"):
            setattr(into, count, getattr(into, count) + getattr(flow, count))
        for site, elements in flow.lines.items():
            into.lines[site] += elements
        into.times = into.elements / total.numel if total.numel else 0.0
    return total


def _window_sizes(
    programs: dict[int, dict[int, list[np.ndarray]]], count: int, key: int, window: int
) -> list[int]:
    """Distinct bytes of one storage in each window of consecutive programs."""
    touched = [_positions(programs[n][key]) if n in programs else _NONE for n in range(count)]
    distinct = np.unique(np.concatenate(touched)) if touched else _NONE
    ranks = [np.searchsorted(distinct, positions) for positions in touched]
    users = np.zeros(distinct.size, dtype=np.int32)
    size, sizes = 0, []
    for number, positions in enumerate(ranks):
        size += np.count_nonzero(users[positions] == 0)
        users[positions] += 1
        if number >= window:
            gone = ranks[number - window]
            users[gone] -= 1
            size -= np.count_nonzero(users[gone] == 0)
        if number >= min(window, count) - 1:
            sizes.append(size)
    return sizes


_NONE = np.empty(0, dtype=np.int64)


def _positions(runs: list[np.ndarray]) -> np.ndarray:
    """The distinct bytes of runs of first and last bytes."""
    if not runs:
        return _NONE
    starts, ends = np.concatenate(runs, axis=1)
    lengths = ends - starts
    before = np.cumsum(lengths) - lengths
    return np.unique(np.arange(lengths.sum()) + np.repeat(starts - before, lengths))


def _programs(grid: tuple[int, int, int]) -> int:
    return grid[0] * grid[1] * grid[2]
