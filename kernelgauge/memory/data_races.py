"""Data races: who last accessed each element of memory, and which accesses atomics put in order.

The interpreter runs the programs of a launch one after another; a GPU runs them at the same time.
So two programs may access one element, at least one of them storing, only if both do so atomically
or if a chain of atomics makes the later access wait for the earlier one.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import cast

import numpy as np

from kernelgauge.memory.call_sites import Verb
from kernelgauge.words.fault import Note, note

# On Linux, maps address space without reserving memory for it. Python has the name since 3.13.
MAP_NORESERVE = 0x4000

# Lanes of atomics that are logged before `History` works out what each program knows.
MAX_LOGGED_LANES = 2**22

ACQUIRING = ("ACQUIRE", "ACQUIRE_RELEASE")
RELEASING = ("RELEASE", "ACQUIRE_RELEASE")

# The records of a `Ledger` that each kind of access may conflict with.
CONFLICTING: dict[Verb, tuple[str, ...]] = {
    "reads": ("writes", "updates", "updates before"),
    "writes": ("writes", "reads", "reads before", "updates", "updates before"),
    "updates": ("writes", "reads", "reads before"),
}


@dataclass
class Conflict:
    """An earlier access by another program that nothing orders before this one.

    index: the position of the conflicting unit among the units of this access
    access: the number of the earlier access
    verb: what the earlier access does
    """

    index: int
    access: int
    verb: Verb


class Ledger:
    """The numbers of the last accesses of each unit of a storage, by kind of access.

    The kinds are "reads", "writes" and "updates"; "reads before" and "updates before" are the last
    ones by another program than these.

    unit: bytes, the smallest access so far
    bits: log2 of the unit
    touched: the launch in which each kind was last recorded
    last: for each kind, the number of the last access of each unit, uint32; 0 if there was none
    """

    def __init__(self, nbytes: int, unit: int):
        self.nbytes = nbytes
        self._set_unit(unit)
        self.touched: dict[str, int] = {}
        self.last: dict[str, np.ndarray] = {}

    def _set_unit(self, unit: int) -> None:
        self.unit = unit
        self.bits = np.uint64(unit.bit_length() - 1)

    def units(self, offset: np.ndarray, size: int) -> np.ndarray:
        """Return the units, int64, that accesses of `size` bytes at uint64 byte offsets touch."""
        if size < self.unit:
            self.refine(size)
        first = (offset >> self.bits).view(np.int64)
        if size == self.unit:
            return first
        return (first[:, None] + np.arange(size // self.unit)).ravel()

    def refine(self, size: int) -> None:
        """Change to units of `size` bytes, a smaller power of two."""
        factor = self.unit // size
        self._set_unit(size)
        for kind, array in self.last.items():
            finer = self._array()
            # Only the used units, so that untouched pages of huge storages stay untouched.
            used = np.flatnonzero(array)
            for step in range(factor):
                finer[used * factor + step] = array[used]
            self.last[kind] = finer

    def was_written_in(self, launch: int) -> bool:
        """Return whether a kernel wrote to the storage in this launch."""
        return launch in (self.touched.get("writes"), self.touched.get("updates"))

    def record(self, kind: str, units: np.ndarray, access: object, launch: int) -> None:
        """Make `access`, a number or an array of one for each unit, the last one of a kind."""
        if kind not in self.last:
            self.last[kind] = self._array()
        self.last[kind][units] = access
        self.touched[kind] = launch

    def _array(self) -> np.ndarray:
        """Return zeros, one for each unit. Pages that are not written take no memory."""
        # 64 bytes more, because the storage may begin that far after the ledger's first byte.
        count = (self.nbytes + 64) // self.unit + 1
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        return np.frombuffer(mmap.mmap(-1, 4 * count, flags=flags), dtype=np.uint32)


class History:
    """The accesses of one run, numbered from 1, and the order that atomics impose on them.

    Of the reads and of the updates of a unit, the last ones by two different programs are kept.
    Every conflict that is reported is a race; one with a third program may be missed.

    program, site: of each access, by its number
    current: the program that is running
    launch: the number of the launch's first access
    relaxed: whether an atomic of this launch had relaxed semantics
    """

    def __init__(self) -> None:
        self.program: list[int] = [0]
        self.site: list[int] = [0]
        self._epoch: list[int] = [0]
        self.current = 0
        self.start_launch()

    def start_launch(self) -> None:
        """Begin a launch. All accesses so far happen before those of its programs."""
        self.launch = len(self.program)
        self.relaxed = False
        self._start = np.uint32(self.launch)
        self._epochs = 0
        self._own: dict[int, int] = {}
        self._knows: dict[int, int] = {}
        self._released: dict[tuple[int, int], int] = {}
        self._log: list[tuple] = []
        self._logged = 0

    def start_program(self, program: int) -> None:
        """Attribute the accesses that follow to this program of the launch."""
        self.current = program
        self._earlier = np.uint32(len(self.program) - self.launch)
        self._new_epoch = True

    def access(self, site: int) -> int:
        """Return the number of a new access by the current program."""
        if self._new_epoch:
            self._own[self.current] = self._own.get(self.current, 0) | 1 << self._epochs
            self._epochs += 1
            self._new_epoch = False
        self.program.append(self.current)
        self.site.append(site)
        self._epoch.append(self._epochs - 1)
        return len(self.program) - 1

    def note(
        self, verb: Verb, ledger: Ledger, units: np.ndarray, access: int, order: str | None = None
    ) -> Conflict | None:
        """Record what an access does to some units. Return what it conflicts with, if anything.

        order: memory semantics of an update, such as "ACQUIRE_RELEASE"
        """
        if verb == "updates":
            self._note_order(ledger, units, order)
        found = self.conflict(ledger, units, CONFLICTING[verb])
        if verb != "writes" and verb in ledger.last:
            old = ledger.last[verb][units]
            by_others = old - self._start < self._earlier
            if by_others.any():
                ledger.record(f"{verb} before", units[by_others], old[by_others], self.launch)
        ledger.record(verb, units, access, self.launch)
        return found

    def _note_order(self, ledger: Ledger, units: np.ndarray, order: str | None) -> None:
        if order == "RELAXED":
            self.relaxed = True
            return
        self._log.append((self.current, self._own[self.current], order, id(ledger), units))
        self._logged += units.size
        self._new_epoch = self._new_epoch or order in RELEASING
        if self._logged > MAX_LOGGED_LANES:
            self._replay()

    def release(self, ledger: Ledger, units: np.ndarray) -> None:
        """Let whoever acquires at these units from now on know what the current program does."""
        if units.size:
            self._note_order(ledger, units, "RELEASE")

    def conflict(
        self, ledger: Ledger, units: np.ndarray, kinds: tuple[str, ...]
    ) -> Conflict | None:
        """Return an access of these kinds by another program that nothing orders before now."""
        for kind in kinds:
            if ledger.touched.get(kind) != self.launch:
                continue
            last = ledger.last[kind][units]
            # Unsigned, so that accesses before this launch wrap around to large numbers.
            since = last - self._start
            if since.size and since.min() < self._earlier:
                suspects = np.flatnonzero(since < self._earlier)
                if found := self._unordered(suspects, last[suspects]):
                    verb = cast(Verb, kind.removesuffix(" before"))
                    return Conflict(*found, verb)
        return None

    def _unordered(self, suspects: np.ndarray, accesses: np.ndarray) -> tuple[int, int] | None:
        """Return a suspect and its earlier access that nothing orders before the current one."""
        distinct, first = np.unique(accesses, return_index=True)
        known = None
        for access, index in zip(distinct.tolist(), first.tolist(), strict=True):
            if self.program[access] == self.current:
                continue
            if known is None:
                self._replay()
                known = self._knows.get(self.current, 0)
            if not known >> self._epoch[access] & 1:
                return int(suspects[index]), access
        return None

    def _replay(self) -> None:
        """Work out which epochs, one bit each, each program knows to be over.

        An epoch of a program ends where the program releases. A release leaves what the program
        knows at the address; an acquire takes over what was left there.
        """
        for program, own, order, ledger, units in self._log:
            knows = self._knows.get(program, 0)
            addresses = [(ledger, unit) for unit in units.tolist()]
            if order in ACQUIRING:
                for address in addresses:
                    knows |= self._released.get(address, 0)
                self._knows[program] = knows
            if order in RELEASING:
                for address in addresses:
                    self._released[address] = self._released.get(address, 0) | knows | own
        self._log.clear()
        self._logged = 0


def remedy(verb: Verb, other: Verb, relaxed: bool, counts: bool) -> Note:
    """Return what to do about a race between an access and an earlier one.

    relaxed: whether the launch has atomics that order nothing
    counts: whether the programs add up integers, whose sum is the same in any order
    """
    if verb == other == "writes":
        return note("race-of-counts" if counts else "race-of-stores")
    if relaxed:
        return note("race-of-relaxed-atomics")
    if "updates" in (verb, other):
        return note("race-with-atomic")
    return note("race-of-load-and-store", counts=counts)
