"""What the launches of one call move between memory and the programs.

Tensors are named after the subject's parameters; "result" is what the subject returns, which has
names of its own if there is more than one, and "scratch" is all else that it allocates.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from kernelgauge.core.dtypes import dtype_name
from kernelgauge.core.launch import Launch, named_blocks
from kernelgauge.core.tensors import nbytes
from kernelgauge.memory.addresses import Region
from kernelgauge.memory.call_sites import CallSites, Verb
from kernelgauge.memory.excess import SECTOR_BYTES, Touched, positions, sectors, unique
from kernelgauge.memory.terms import Term

# So many sets of elements that programs load are compared with each other.
MAX_COMPARED = 32
# What operations cost, in additions, by the name of NumPy's function, of the builder's method or of
# libdevice's symbol; any other symbol costs as much as erf.
COSTS = {
    "divide": 8.0,
    "create_fdiv": 8.0,
    "div_rn": 8.0,
    "exp": 4.0,
    "create_exp": 4.0,
    "exp2": 4.0,
    "sqrt": 4.0,
    "create_rsqrt": 4.0,
    "rsqrt": 4.0,
    "log": 8.0,
    "log2": 8.0,
    "sin": 25.0,
    "cos": 25.0,
    "create_erf": 25.0,
    "rint": 1.0,
    "nearbyint": 1.0,
    "floor": 1.0,
    "ceil": 1.0,
    "trunc": 1.0,
}

_NONE = np.empty(0, dtype=np.int64)


@dataclass
class Flow:
    """What was loaded from a tensor, or stored to it.

    numel: the tensor's elements
    elements: active lanes
    sectors: 32-byte sectors that each access touches, summed over the accesses
    least: the fewest sectors that hold as many bytes, summed likewise
    runs: of neighbouring bytes that each access touches, summed likewise
    lines: elements by the number of the call site
    """

    numel: int = 0
    elements: float = 0.0
    bytes: int = 0
    sectors: int = 0
    least: int = 0
    runs: int = 0
    lines: dict[int, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, other: Flow) -> None:
        """Add another flow to this one."""
        self.elements += other.elements
        self.bytes += other.bytes
        self.sectors += other.sectors
        self.least += other.least
        self.runs += other.runs
        for site, elements in other.lines.items():
            self.lines[site] += elements

    @property
    def times(self) -> float:
        """How many times the whole tensor was moved."""
        return self.share(self.elements)

    def share(self, elements: float) -> float:
        """So many elements over those of the tensor, which may have none."""
        return elements / self.numel if self.numel else 0.0

    @property
    def ratio(self) -> float:
        """Sectors over the fewest possible; 1 if there were none."""
        return self.sectors / self.least if self.least else 1.0

    @property
    def passes(self) -> float:
        """Sectors over those of the whole tensor, densely packed."""
        return self.sectors * SECTOR_BYTES * self.times / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class Sampled:
    """What one launch moves and multiplies, as far as its programs ran.

    loaded, stored: by storage, bytes of the 32-byte sectors of each access
    needed: by storage, bytes of all sectors that each program touches, however often
    sizes: by storage, bytes of the tensor
    loads: how many loads, by their lanes, masked ones too, and the bytes of a lane
    macs: multiply-adds of tl.dot
    lanes: operations of single lanes on floats and unsigned integers
    """

    loaded: dict[int, float]
    stored: dict[int, float]
    needed: dict[int, float]
    sizes: dict[int, int]
    loads: dict[tuple[int, int], int]
    macs: float
    lanes: float


class Moved:
    """One tensor's traffic in all launches. numel: its elements."""

    def __init__(self, name: str, numel: int):
        self.name, self.numel = name, numel
        self.loaded, self.stored = Flow(numel), Flow(numel)

    @property
    def loads(self) -> float:
        """How many times the whole tensor was loaded."""
        return self.loaded.times

    @property
    def stores(self) -> float:
        """How many times the whole tensor was stored."""
        return self.stored.times


class TrafficMeter:
    """The traffic of one run of a subject.

    inputs: the subject's tensors, by the names of its parameters
    grids, kernels, blocks: the grid and the name of each launch, and its block sizes by name
    macs: for each launch, the multiply-adds of tl.dot by the ids of the program
    macs_of_zeros: those of all launches where one of the two tiles is 0 everywhere
    lanes: for each launch, operations of single lanes on floats and unsigned integers
    loads: for each launch, how many loads load anything, by their lanes, masked ones too, and the
        bytes of a lane
    allocated: bytes that the launcher allocated beside the results, freed or not
    allocations: what those were, for messages
    sites: the call sites, by the numbers in `Flow.lines`
    terms: what the offset of the first access is made of, by call site
    """

    def __init__(self, sites: CallSites, inputs: dict[str, torch.Tensor]):
        self.grids: list[tuple[int, int, int]] = []
        self.macs: list[Counter[tuple[int, int, int]]] = []
        self.macs_of_zeros = 0
        self.lanes: list[float] = []
        self.loads: list[Counter[tuple[int, int]]] = []
        self.kernels: list[str] = []
        self.blocks: list[dict[str, int]] = []
        self.allocated = 0
        self.allocations: list[str] = []
        self.sites = sites
        self.inputs = inputs
        self._results: Sequence[torch.Tensor] | None = None
        self._names: Sequence[str] = ()
        self._joint: dict[str, str] = {}
        # By launch, argument of a launch, whether it is a store, and call site.
        self._flows: dict[tuple[int, int, bool, int], tuple[Region, Flow]] = {}
        self.terms: dict[int, list[Term]] = {}
        # By launch, program and storage.
        self._touched: list[dict[int, dict[int, list[Touched]]]] = []

    @property
    def launches(self) -> int:
        """The number of launches."""
        return len(self.grids)

    @property
    def grid(self) -> tuple[int, int, int]:
        """The largest grid of a launch."""
        return max(self.grids, key=math.prod, default=(0, 0, 0))

    @property
    def dot_macs(self) -> int:
        """All multiply-adds of tl.dot."""
        return sum(macs.total() for macs in self.macs)

    @property
    def programs(self) -> int:
        """The programs of the launch with the most multiply-adds, or of the largest without any."""
        if not self.dot_macs:
            return math.prod(self.grid)
        done = [macs.total() for macs in self.macs]
        return math.prod(self.grids[done.index(max(done))])

    @property
    def largest_share(self) -> float:
        """The multiply-adds of a launch's busiest program over the mean of all its programs.

        This is the largest of all launches that multiply with tl.dot, 1 if there are none.
        """
        return max(
            (
                max(macs.values()) * math.prod(grid) / macs.total()
                for grid, macs in zip(self.grids, self.macs, strict=True)
                if macs
            ),
            default=1.0,
        )

    @property
    def idle(self) -> int:
        """The number of programs, of all launches, that neither load nor store an element."""
        return sum(map(math.prod, self.grids)) - sum(map(len, self._touched))

    def whole_grids(self) -> Iterator[tuple[str, int, int, str, int]]:
        """Yield which grids of one axis have programs without work, and what their size should be.

        That is the kernel, its programs, and how many elements, by which block, take how many.
        """
        tensors = [*self.inputs.values(), *(self._results or ())]
        sizes = {size for it in tensors for size in (it.numel(), *it.shape)}
        for kernel, grid, blocks, touched in zip(
            self.kernels, self.grids, self.blocks, self._touched, strict=True
        ):
            programs, needed = math.prod(grid), len(touched)
            fitting = [(n, it) for n in sizes for it in blocks if -(-n // blocks[it]) == needed]
            found = [(n, it) for n, it in fitting if n == programs] or fitting
            if len(found) == 1 and programs == grid[0] > needed:
                yield kernel, programs, *found[0], needed

    @property
    def share_of_least(self) -> float:
        """The bytes of all sectors moved, over those of the inputs and the results."""
        flows = [flow for _, flow in self._flows.values()]
        tensors = [*self.inputs.values(), *(self._results or ())]
        moved = SECTOR_BYTES * sum(flow.sectors for flow in flows)
        return moved / (sum(map(nbytes, tensors)) or 1)

    @property
    def sampled(self) -> list[Sampled]:
        """What each launch moves and multiplies."""
        found = []
        for number, programs in enumerate(self._touched):
            flows = {key: it for key, it in self._flows.items() if key[0] == number + 1}
            loaded, stored = Counter[int](), Counter[int]()
            for (_, _, is_store, _), (region, flow) in flows.items():
                moved = stored if is_store else loaded
                moved[region.storage.key] += SECTOR_BYTES * flow.sectors
            needed: Counter[int] = Counter()
            for storages in programs.values():
                for storage, touched in storages.items():
                    needed[storage] += SECTOR_BYTES * sectors(touched)
            sizes = {
                region.storage.key: region.numel * region.itemsize for region, _ in flows.values()
            }
            done = dict(self.loads[number]), self.macs[number].total(), self.lanes[number]
            found.append(Sampled(dict(loaded), dict(stored), dict(needed), sizes, *done))
        return found

    def distinct(self, name: str) -> float:
        """How many times an input is moved if each program moves each of its bytes once."""
        key = self.inputs[name].untyped_storage().data_ptr()
        moved = sum(
            positions(storages[key]).size
            for programs in self._touched
            for storages in programs.values()
            if key in storages
        )
        return moved / (self.inputs[name].nbytes or 1)

    def overlap(self, name: str) -> bool:
        """Return whether some programs of a launch share a part of an input, and each has more."""
        key = self.inputs[name].untyped_storage().data_ptr()
        for programs in self._touched:
            loaded = [positions(it[key]) for it in programs.values() if key in it]
            distinct = list({it.tobytes(): it for it in loaded}.values())[:MAX_COMPARED]
            for one, other in itertools.combinations(distinct, 2):
                shared = np.intersect1d(one, other, assume_unique=True).size
                if 0 < shared < min(one.size, other.size):
                    return True
        return False

    def name_results(self, results: Sequence[torch.Tensor], names: Sequence[str]) -> None:
        """Set what the subject returned, or changed in place, and what each is called.

        Until then every tensor except the inputs counts as "result", and so does a single one.
        """
        names = names if len(names) != 1 else ["result"]
        together: dict[int, list[str]] = defaultdict(list)
        given = {x.untyped_storage().data_ptr() for x in self.inputs.values()}
        for number, (name, result) in enumerate(zip(names, results, strict=True)):
            key = result.untyped_storage().data_ptr()
            together[~number if key in given else key].append(name)
        # A kernel may see those of one allocation as one tensor.
        self._joint = {name: " and ".join(group) for group in together.values() for name in group}
        self._results, self._names = results, [self._joint[name] for name in names]

    def name_allocated(self, tensors: Iterable[torch.Tensor]) -> None:
        """Set what the launcher allocated, the results included; `name_results` comes first."""
        own = sorted(tensors, key=nbytes, reverse=True)
        kept: Counter[int] = Counter()
        for result in self._results or ():
            kept[result.untyped_storage().data_ptr()] += nbytes(result)
        keys = [tensor.untyped_storage().data_ptr() for tensor in own]
        self.allocated = sum(map(nbytes, own)) - sum(kept[key] for key in keys)
        self.allocations = [
            f"{dtype_name(tensor.dtype)} {tuple(tensor.shape)}"
            for tensor, key in zip(own, keys, strict=True)
            if key not in kept
        ]

    def start_launch(self, launch: Launch) -> None:
        """Begin a launch."""
        self.grids.append(launch.grid)
        self.kernels.append(launch.kernel.__name__)
        self.blocks.append(named_blocks(launch))
        self.macs.append(Counter())
        self.lanes.append(0.0)
        self.loads.append(Counter())
        self._touched.append(defaultdict(lambda: defaultdict(list)))

    def note(self, program: int, region: Region, units: np.ndarray, verb: Verb, site: int) -> None:
        """Count one access of a program. Atomics count as stores.

        units: what it touches, in units of the storage's ledger
        """
        unit = region.storage.ledger.unit
        key = (len(self.grids), id(region), verb != "reads", site)
        if key not in self._flows:
            self._flows[key] = region, Flow()
        flow = self._flows[key][1]
        first = unique(units) * unit
        flow.bytes += units.size * unit
        flow.sectors += 1 + int(np.count_nonzero(np.diff(first // SECTOR_BYTES)))
        flow.least += -(-first.size * unit // SECTOR_BYTES)
        breaks = np.flatnonzero(np.diff(first) != unit)
        flow.runs += breaks.size + 1
        starts = first[np.concatenate(([0], breaks + 1))]
        ends = first[np.concatenate((breaks, [first.size - 1]))] + unit
        touched = Touched(
            region, site, verb != "reads", np.stack((starts, ends)), units.size * unit
        )
        self._touched[-1][program][region.storage.key].append(touched)

    def count_lanes(self, name: str) -> Callable[[Callable], Callable]:
        """Return a wrapper of a method of Triton's builder that counts lanes by what they cost."""

        def wrap(original: Callable) -> Callable:
            def operation(builder: Any, *operands: Any) -> Any:
                result = original(builder, *operands)
                dtype = result.dtype.scalar
                if dtype.is_floating() or dtype.is_int_unsigned():
                    self.lanes[-1] += _cost(name, operands) * result.data.size
                return result

            return operation

        return wrap

    def count_dots(self, original: Callable) -> Callable:
        """Wrap Triton's create_dot, and count its multiply-adds."""

        def create_dot(builder: Any, a: Any, b: Any, *rest: Any, **options: Any) -> Any:
            macs = a.data.size * b.data.shape[-1]
            self.macs[-1][builder.grid_idx] += macs
            if not (a.data.any() and b.data.any()):
                self.macs_of_zeros += macs
            return original(builder, a, b, *rest, **options)

        return create_dot

    def count_scaled_dots(self, original: Callable) -> Callable:
        """Wrap Triton's create_dot_scaled, and count its multiply-adds by the result's shape."""

        def create_dot_scaled(
            builder: Any, a: Any, a_scale: Any, a_format: Any, b: Any, *rest: Any, **options: Any
        ) -> Any:
            result = original(builder, a, a_scale, a_format, b, *rest, **options)
            packed = 2 if a_format.name == "E2M1" else 1
            self.macs[-1][builder.grid_idx] += a.data.size * packed * result.data.shape[-1]
            return result

        return create_dot_scaled

    @property
    def tensors(self) -> dict[str, Moved]:
        """All traffic, by name of tensor."""
        # Kernels may see a tensor as one of another type, such as complex64 as pairs of float32.
        sizes = {name: tensor.numel() for name, tensor in self.inputs.items()}
        itemsizes = {name: tensor.element_size() for name, tensor in self.inputs.items()}
        for tensor in self._results or ():
            if (name := self._name(tensor)) not in self.inputs:
                sizes[name] = sizes.get(name, 0) + tensor.numel()
                itemsizes.setdefault(name, tensor.element_size())
        others: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for region, _ in self._flows.values():
            name, key = self._name_of(region), region.storage.key
            if name not in sizes:
                others[name][key] = max(others[name][key], region.numel)
        sizes |= {name: sum(numels.values()) for name, numels in others.items()}
        found = {name: Moved(name, numel) for name, numel in sizes.items()}
        for (_, _, is_store, site), (region, flow) in self._flows.items():
            moved = found[self._name_of(region)]
            elements = flow.bytes / itemsizes.get(moved.name, region.itemsize)
            total = moved.stored if is_store else moved.loaded
            total.add(replace(flow, elements=elements, lines={site: elements}))
        return found

    def tensor(self, name: str) -> Moved:
        """Return the traffic of one tensor; "result" is all results together. Raises KeyError."""
        tensors, name = self.tensors, self._joint.get(name, name)
        if name in tensors:
            return tensors[name]
        if name not in ("result", "scratch"):
            raise KeyError(f"{name} is none of {', '.join(tensors)}")
        wanted = self.result_names if name == "result" else ()
        parts = [moved for key, moved in tensors.items() if key in wanted]
        total = Moved(name, sum(moved.numel for moved in parts))
        for moved in parts:
            total.loaded.add(moved.loaded)
            total.stored.add(moved.stored)
        return total

    def loads_by_launch(self, name: str) -> list[float]:
        """Return how many times each launch loaded a whole input. Raises KeyError."""
        size = self.inputs[name].nbytes or 1
        loaded = [0.0] * self.launches
        for (launch, _, is_store, _), (region, flow) in self._flows.items():
            if not is_store and self._name_of(region) == name:
                loaded[launch - 1] += flow.bytes / size
        return loaded

    def touched(self, name: str, direction: str) -> list[dict[int, list[Touched]]]:
        """Return what the programs of each launch load of a tensor, or store to it."""
        return [
            {
                program: found
                for program, storages in programs.items()
                if (
                    found := [
                        it
                        for touched in storages.values()
                        for it in touched
                        if it.is_store == (direction == "stored") and self._is(name, it.region)
                    ]
                )
            }
            for programs in self._touched
        ]

    def scratch_flows(self) -> list[tuple[int, bool, int, Region]]:
        """Return which launch stores to, or loads from, which memory that is no result, and where.

        In the order of launches: whether it stores, the call site, and the tensor.
        """
        return [
            (launch - 1, is_store, site, region)
            for (launch, _, is_store, site), (region, _) in self._flows.items()
            if self._name_of(region) == "scratch"
        ]

    def _is(self, name: str, region: Region) -> bool:
        own = self._name_of(region)
        return own == name or (name == "result" and own.startswith("result "))

    def window_bytes(self, tensors: Iterable[str], window: int) -> float:
        """Return how many distinct bytes of these tensors `window` consecutive programs touch.

        This is the mean over all windows of all launches, in the order in which a GPU starts
        programs (x fastest). A launch of fewer programs is one window.
        """
        wanted = set(tensors)
        regions = [region for region, _ in self._flows.values()]
        keys = {region.storage.key for region in regions if self._name_of(region) in wanted}
        totals: list[int] = []
        for grid, programs in zip(self.grids, self._touched, strict=True):
            sizes = [_window_sizes(programs, math.prod(grid), key, window) for key in keys]
            totals += np.sum(sizes, axis=0).tolist() if sizes else []
        return float(np.mean(totals)) if totals else 0.0

    @property
    def stored_sizes(self) -> set[tuple[str, int]]:
        """Name and number of elements of every tensor that a kernel stored to."""
        return {
            (self._name_of(region), region.numel)
            for (_, _, is_store, _), (region, _) in self._flows.items()
            if is_store
        }

    @property
    def result_names(self) -> list[str]:
        """The names of the results."""
        return (
            ["result"]
            if self._results is None
            else [*dict.fromkeys(map(self._name, self._results))]
        )

    def _name_of(self, region: Region) -> str:
        return self._name(region.tensor, region.name)

    def _name(self, tensor: torch.Tensor, argument: str = "") -> str:
        """Return a tensor's name by its memory.

        argument: the kernel's name for it, which decides between inputs that share memory
        """
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
        for name, result in zip(self._names, self._results, strict=True):
            if result.untyped_storage().data_ptr() == key:
                return name
        return "scratch"


def _cost(method: str, operands: tuple) -> float:
    """Return what an operation of one lane costs, in additions."""
    what = method
    if method.endswith("_op"):
        what = getattr(operands[-1], "__name__", "")
    elif method.endswith("_elementwise"):
        what = operands[2].removeprefix("__nv_").removesuffix("f")
        if what not in COSTS:
            return COSTS["create_erf"]
    return COSTS.get(what, 1.0)


def _window_sizes(
    programs: dict[int, dict[int, list[Touched]]], count: int, key: int, window: int
) -> list[int]:
    """Return the distinct bytes of one storage in each window of consecutive programs."""
    touched = [positions(programs[n][key]) if n in programs else _NONE for n in range(count)]
    distinct = unique(np.concatenate(touched)) if touched else _NONE
    ranks = [np.searchsorted(distinct, own) for own in touched]
    users = np.zeros(distinct.size, dtype=np.int32)
    size, sizes = 0, []
    for number, own in enumerate(ranks):
        size += int(np.count_nonzero(users[own] == 0))
        users[own] += 1
        if number >= window:
            gone = ranks[number - window]
            users[gone] -= 1
            size -= int(np.count_nonzero(users[gone] == 0))
        if number >= min(window, count) - 1:
            sizes.append(size)
    return sizes
