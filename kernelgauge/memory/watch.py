"""One run of a subject in the interpreter, and what is known of it after each launch.

The `Tracker` of a launch checks every access before it happens. What outlives the launch is kept
by the `Watch` of the run.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np
import torch

from kernelgauge.core.launch import Launch
from kernelgauge.core.verdict import Wrong
from kernelgauge.interpreter import arithmetic
from kernelgauge.memory.addresses import Region, Storage
from kernelgauge.memory.budgets import Traffic
from kernelgauge.memory.call_sites import ACCESS_CALLS, CallSites, Verb
from kernelgauge.memory.coordinates import format_element
from kernelgauge.memory.data_races import History
from kernelgauge.memory.recording import Recording
from kernelgauge.words.fault import Fault, Place, note

# Of larger allocations a digest is compared from launch to launch, where all programs run.
MAX_COMPARED_BYTES = 2**26

# Atomics whose result depends on what was there.
CHANGES = r"atomic_(add|max|min|and|or|xor|cas)\b"

STORES: tuple[Verb, ...] = ("writes", "updates")

# What an access touches: units of the ledger, by tensor.
Parts = list[tuple[Region, np.ndarray]]


class Overwritten(NamedTuple):
    """A program that lost what it stored: it stored there again, in the same line.

    storage: the key of the storage
    element: the first of those that were lost
    """

    storage: int
    element: str
    program: tuple[int, int, int]
    line: Place


# What Triton calls the formats of 16 bits.
NAMES = {torch.float16: "fp16", torch.bfloat16: "bf16"}

# Which programs of a launch run: see `Watch`.
Programs = str | Callable[[int], Iterable[int]]

_watches: list[Watch] = []


class Store(NamedTuple):
    """A store: the ids of its program, and its line."""

    program: tuple[int, int, int]
    line: Place


class Watch:
    """One run of a subject: `with Watch(...) as watch:` around the call.

    order: of the programs of each launch, "ascending" (x fastest), "shuffled", or "reversed", in
        which any two programs that were shuffled run the other way round
    seed: of the shuffled order
    case: its name, by which the partitions of a Gluon kernel run in orders of their own
    poison: whether masked-off lanes of loads without `other` get values that spoil a result, not 0,
        and operations that a GPU approximates come out otherwise in the last bits
    count: whether to record the traffic of each access
    programs: which run: "all" of a launch, the first and the last and a few in between ("ends"),
        a few that stand for all ("some"), "none", or a function that chooses of so many
    inputs: the subject's tensors, by the names of its parameters
    fixed_order: whether floats must be added in an order that something fixes
    as_started: whether programs begin in their order, and no more at once than fit on the GPU
    record: keeps all that is touched; a run with it goes on where it would be wrong
    launches: what was launched, in order
    begun: the number of each launch's first access, and the launch
    stored_at_ends: of the programs at the ends, where only these run, the bytes stored by each, by
        storage, first access of the launch and number of the program
    stops_at_ends: whether one of these did not end by itself
    loads_without_other: the number of masked-off lanes in such loads, by (file, line)
    traffic: what the launches moved, if `count`
    loaded: the parts of memory that the last load touched
    overwritten: where a program stored twice, in one line, what nothing loaded in between, the
        first time that one did
    rounded: the formats that kernels rounded to, as in interpreter.arithmetic, "scratch fp16" for
        what they loaded from memory that is no input
    has_partitions: whether a kernel has parts that run side by side, in orders of their own
    waits_beyond_the_gpu: whether a program waited in a launch of more than fit on the GPU
    puts_off: whether a launch runs later, if anything decides that; it then runs it
    showing: makes the context in which a launch runs, where inputs are hidden from the launcher
    """

    def __init__(
        self,
        order: str = "ascending",
        seed: int = 0,
        poison: bool = True,
        count: bool = False,
        programs: Programs = "all",
        inputs: dict[str, torch.Tensor] | None = None,
        record: Recording | None = None,
        fixed_order: bool = False,
        as_started: bool = False,
        case: str = "",
    ):
        if order not in ("ascending", "shuffled", "reversed"):
            raise ValueError(f'order is {order!r}, not "ascending", "shuffled" or "reversed"')
        inputs = inputs or {}
        self.order, self.seed, self.poison, self.programs = order, seed, poison, programs
        self.case = case
        self.record, self.fixed_order = record, fixed_order
        self.as_started, self.waits_beyond_the_gpu = as_started, False
        self.has_partitions = False
        self.launches: list[Launch] = []
        self.begun: list[tuple[int, Launch]] = []
        self.stored_at_ends: Counter[tuple[int, int, int]] = Counter()
        self.stops_at_ends = False
        self.loads_without_other: dict[tuple[str, int], int] = {}
        self.history = History()
        self.sites = CallSites()
        self.rounded: set[str] = set()
        self._rounded_before: set[str] = set()
        self._approximated = False
        self.known: list[Region] = []
        self.loaded: Parts = []
        self.overwritten: Overwritten | None = None
        self.puts_off: Callable[[Callable[[], None]], bool] | None = None
        self.showing: Callable[[], AbstractContextManager] = nullcontext
        self.traffic = Traffic(self.sites, inputs) if count else None
        self.given = {x.untyped_storage().data_ptr() for x in inputs.values()}
        self._storages: dict[int, Storage] = {}
        self._remembered: list[tuple[Region, np.ndarray]] = []
        self._digests: list[tuple[Region, bytes]] = []
        for name, tensor in inputs.items():
            self.know(tensor, name)

    def __enter__(self) -> Watch:
        _watches.append(self)
        self._rounded_before = {*arithmetic.rounded}
        self._approximated, arithmetic.approximate = arithmetic.approximate, self.poison
        arithmetic.rounded.clear()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _watches.remove(self)
        arithmetic.approximate = self._approximated
        self.rounded |= arithmetic.rounded
        if len(self.launches) > 2:
            # In a chain of kernels, each step is rounded like that.
            self.rounded -= {f"scratch {name}" for name in NAMES.values()}
        arithmetic.rounded.update(self._rounded_before)
        if kind is None:
            self.check_contents()

    def know(self, tensor: torch.Tensor, name: str) -> None:
        """Allow kernels to access this tensor by its data_ptr(), loaded from memory."""
        if all(region.tensor is not tensor for region in self.known):
            self.known.append(self.region(name, tensor))

    def remember(self, tensor: torch.Tensor, name: str = "an allocation") -> None:
        """Allow access to a tensor, and expect only kernels to change its contents from now on.

        Call it again after any other change that is allowed, such as zero_().
        """
        self.know(tensor, name)
        region = self.region(name, tensor)
        of_storage = [pair for pair in self._remembered if pair[0].storage is region.storage]
        for remembered, before in of_storage:
            before[:] = remembered.contents()
        of_digest = [it for it, _ in self._digests if it.storage is region.storage]
        if region.extent > MAX_COMPARED_BYTES and self.programs == "all" and not of_digest:
            self._digests.append((region, b""))
        elif region.extent <= MAX_COMPARED_BYTES and not of_storage and not of_digest:
            self._remembered.append((region, region.contents().copy()))
        self._digest_again(lambda storage: storage is region.storage)

    def check_contents(self) -> None:
        """Raise Wrong if anything but a kernel changed a remembered tensor."""
        for region, before in self._remembered:
            contents = region.contents()
            if not np.array_equal(contents, before):
                changed = np.flatnonzero(contents != before)
                element = format_element(region, int(changed[0]), name="")
                said = note("changed-outside-kernel", tensor=region.name, element=element)
                raise Wrong(
                    Fault(
                        "outside-kernel",
                        (said,),
                        tensor=region.name,
                        remedy=note("compute-in-kernel"),
                    )
                )
        for region, digest in self._digests:
            if _digest(region) != digest:
                said = note("changed-outside-kernel", tensor=region.name, element="")
                remedy = note("compute-in-kernel")
                raise Wrong(Fault("outside-kernel", (said,), tensor=region.name, remedy=remedy))

    def stored(self, tensor: torch.Tensor) -> np.ndarray:
        """Return which elements kernels stored, every byte of them: bool, of the tensor's shape."""
        region, last, first = self._last_stores(tensor)
        units = region.itemsize // region.storage.ledger.unit
        # The units of each element are the last dimension.
        shape = (*region.shape, units)
        strides = [4 * units * stride for stride in region.strides] + [4]
        done = np.zeros(shape, dtype=bool)
        for accesses in last.values():
            done |= np.lib.stride_tricks.as_strided(accesses[first:], shape, strides) != 0
        return np.asarray(done.all(axis=-1))

    def lost_beside(self, results: Iterable[torch.Tensor]) -> Overwritten | None:
        """Return what a program overwrote in memory that holds none of these results."""
        keys = {result.untyped_storage().data_ptr() for result in results}
        found = self.overwritten
        return None if found is None or found.storage in keys else found

    @property
    def has_atomics(self) -> bool:
        """Whether a kernel used atomics."""
        return any("updates" in storage.ledger.last for storage in self._storages.values())

    def line_that_stores_to(self, tensor: torch.Tensor) -> Place | None:
        """Return a line of a kernel that stored to one of the tensor's elements, if one did."""
        region, last, first = self._last_stores(tensor)
        end = first + -(-region.extent // region.storage.ledger.unit)
        for verb, accesses in last.items():
            if (access := int(accesses[first:end].max(initial=0))) > 0:
                return self.sites[self.history.site[access]].place_of(*ACCESS_CALLS[verb])
        return None

    def stored_by(self, tensor: torch.Tensor) -> np.ndarray:
        """Return how many elements of a tensor each program stored last, by its number."""
        region, last, first = self._last_stores(tensor)
        unit = region.storage.ledger.unit
        numbers = np.zeros(-(-region.extent // unit), dtype=np.int64)
        for accesses in last.values():
            np.maximum(numbers, accesses[first : first + len(numbers)], out=numbers)
        programs = np.asarray(self.history.program)[numbers[numbers > 0]]
        return np.bincount(programs) * unit // region.itemsize

    def room(self, tensor: torch.Tensor) -> tuple[int, int] | None:
        """Return how many elements all programs store if each stores as many as those at the ends.

        And how many of these store any. None if they did not end, or if more than one launch stores
        to the tensor, or none.
        """
        storage, launches = self.region("", tensor).storage, dict(self.begun)
        stored = {it[1:]: size for it, size in self.stored_at_ends.items() if it[0] == id(storage)}
        if self.stops_at_ends or len({launch for launch, _ in stored}) != 1:
            return None
        ((launch, _), *_), most = stored, max(stored.values())
        room = math.prod(launches[launch].grid) * most // tensor.element_size()
        return room, len(stored)

    def store_of(self, tensor: torch.Tensor, index: tuple[int, ...]) -> Store | None:
        """Return the last store to an element, None if there was none."""
        region, last, first = self._last_stores(tensor)
        units = region.itemsize // region.storage.ledger.unit
        unit = first + units * sum(i * s for i, s in zip(index, tensor.stride(), strict=True))
        stores = [(int(accesses[unit]), verb) for verb, accesses in last.items() if accesses[unit]]
        if not stores:
            return None
        number, verb = max(stores)
        launch = self._launch_of(number)
        line = self.sites[self.history.site[number]].place_of(*ACCESS_CALLS[verb])
        return Store(launch.program(self.history.program[number]), line)

    def stores(self, kernel: Callable, tensor: torch.Tensor) -> bool:
        """Return whether a kernel made the last store to any element of a tensor."""
        region, last, first = self._last_stores(tensor)
        end = first + -(-region.extent // region.storage.ledger.unit)
        numbers = np.zeros(end - first, dtype=np.int64)
        for accesses in last.values():
            np.maximum(numbers, accesses[first:end], out=numbers)
        return any(self._launch_of(it).kernel is kernel for it in np.unique(numbers[numbers > 0]))

    def _launch_of(self, number: int) -> Launch:
        return next(launch for first, launch in reversed(self.begun) if first <= number)

    def check_set(self, fresh: list[torch.Tensor]) -> None:
        """Raise Wrong if an atomic changed memory that nothing had set.

        fresh: allocations that held anything when they were made, as those of torch.empty
        """
        for tensor in fresh:
            _, last, _ = self._last_stores(tensor)
            if "updates" not in last:
                continue
            updated = last["updates"]
            unset = updated > 0 if "writes" not in last else (updated > 0) & (last["writes"] == 0)
            for number in np.unique(updated[unset])[:1]:
                site = self.sites[self.history.site[int(number)]]
                if re.search(CHANGES, site.whole_call(*ACCESS_CALLS["updates"])):
                    raise Wrong(
                        Fault(
                            "unset-atomic",
                            (note("atomic-on-unset"),),
                            place=site.place_of(*ACCESS_CALLS["updates"]),
                            remedy=note("set-before-atomics"),
                        )
                    )

    def note_scratch(self, parts: Parts) -> None:
        """Take note of the formats, of 16 bits, in which kernels keep numbers in memory."""
        for region, _ in parts:
            name = NAMES.get(region.dtype)
            if name and region.storage.key not in self.given:
                self.rounded.add(f"scratch {name}")

    @property
    def loads_inputs(self) -> bool:
        """Whether all that the last load found lies in memory that the call was given."""
        return all(region.storage.key in self.given for region, _ in self.loaded)

    def first_unset(self) -> str:
        """Return the first element that the last load found and no program stored, or "".

        Elements of the inputs are set.
        """
        for region, units in self.loaded:
            if region.storage.key in self.given:
                continue
            ledger = region.storage.ledger
            unset = np.ones(units.shape, dtype=bool)
            for verb in STORES:
                if verb in ledger.last:
                    unset &= ledger.last[verb][units] == 0
            if unset.any():
                address = int(units[unset.argmax()]) * ledger.unit + region.storage.base
                return format_element(region, address - region.real)
        return ""

    def _last_stores(self, tensor: torch.Tensor) -> tuple[Region, dict[Verb, np.ndarray], int]:
        """Return the last stores and atomics to a tensor's memory, and the tensor's first unit."""
        region = self.region("", tensor)
        ledger = region.storage.ledger
        if region.extent and region.itemsize < ledger.unit:
            ledger.refine(region.itemsize)
        last = {verb: ledger.last[verb] for verb in STORES if verb in ledger.last}
        return region, last, (region.real - region.storage.base) // ledger.unit

    def region(self, name: str, tensor: torch.Tensor) -> Region:
        """Return the elements of a tensor; those of one storage share its `Storage`."""
        key = tensor.untyped_storage().data_ptr()
        if key not in self._storages:
            self._storages[key] = Storage(tensor)
        return Region(name, tensor, self._storages[key])

    def end_launch(self) -> None:
        """Accept the contents that kernels stored to remembered tensors."""
        for region, before in self._remembered:
            if region.storage.ledger.was_written_in(self.history.launch):
                before[:] = region.contents()
        self._digest_again(lambda it: it.ledger.was_written_in(self.history.launch))

    def _digest_again(self, changed: Callable[[Storage], bool]) -> None:
        """Accept the contents of large memory that changed."""
        self._digests = [
            (it, _digest(it) if changed(it.storage) else digest) for it, digest in self._digests
        ]


def _digest(region: Region) -> bytes:
    return hashlib.blake2b(region.contents().data, digest_size=16).digest()


def current_watch() -> Watch:
    """Return the innermost active watch, or one without poison if there is none."""
    return _watches[-1] if _watches else Watch(poison=False)
