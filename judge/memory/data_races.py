"""Who accessed which element of memory last, and which accesses are ordered by atomics.

The interpreter runs the programs of a launch one after the other. On a GPU they run at the same
time, so two programs may touch one element, one of them storing, only if both do it atomically or
if a chain of atomics lets the later one wait for the earlier one.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np

# Where Linux may give address space without reserving memory for it. Python names it from 3.13 on.
MAP_NORESERVE = 0x4000

# Lanes of atomics that are kept before they are worked into what each program knows.
MAX_LOGGED_LANES = 2**22

ACQUIRING = ("ACQUIRE", "ACQUIRE_RELEASE")
RELEASING = ("RELEASE", "ACQUIRE_RELEASE")


@dataclass
class Conflict:
    """An earlier access by another program that nothing orders before this one.

    index: which of the units of this access it is about
    access: the number of the earlier one
    how: what the earlier one did, "stored", "loaded" or "updated"
    """

    index: int
    access: int
    how: str


class Ledger:
    """For each unit of a storage, the number of the last access of each kind; 0 for none.

    unit: bytes, the smallest access that was seen
    """

    KINDS = ("stored", "loaded", "loaded_before", "updated", "updated_before")

    def __init__(self, nbytes: int, unit: int):
        self.nbytes = nbytes
        self.unit = unit
        self.bits = np.uint64(unit.bit_length() - 1)
        self.touched: dict[str, int] = {}
        self.last: dict[str, np.ndarray] = {}

    def units(self, offset: np.ndarray, size: int) -> np.ndarray:
        """The units of accesses of `size` bytes at these byte offsets, uint64: one row a lane."""
        if size < self.unit:
            self.refine(size)
        first = (offset >> self.bits).view(np.int64)
        if size == self.unit:
            return first
        return (first[:, None] + np.arange(size // self.unit)).ravel()

    def refine(self, size: int) -> None:
        """Go over to units of `size` bytes, a smaller power of two."""
        factor = self.unit // size
        self.unit = size
        self.bits = np.uint64(size.bit_length() - 1)
        for kind, array in self.last.items():
            finer = self._array()
            # Row by row of the factor, so that untouched pages of huge storages stay untouched.
            used = np.flatnonzero(array)
            for step in range(factor):
                finer[used * factor + step] = array[used]
            self.last[kind] = finer

    def was_written_in(self, launch: int) -> bool:
        return launch in (self.touched.get("stored"), self.touched.get("updated"))

    def of(self, kind: str) -> np.ndarray:
        """The last accesses of a kind, uint32 by unit. Pages not touched take no memory."""
        if kind not in self.last:
            self.last[kind] = self._array()
        return self.last[kind]

    def _array(self) -> np.ndarray:
        # 64 bytes more: the storage's first byte may lie so far behind the ledger's.
        count = (self.nbytes + 64) // self.unit + 1
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        return np.frombuffer(mmap.mmap(-1, 4 * count, flags=flags), dtype=np.uint32)


class History:
    """The accesses of one run, numbered from 1, and the order that atomics give the programs.

    Of the loads of an element, and of its atomics, the last ones by two programs are kept. Whatever
    is reported is a race; one with a third program may be missed.
    """

    def __init__(self):
        self.program: list[int] = [0]
        self.site: list[int] = [0]
        self._epoch: list[int] = [0]
        self.current = 0
        self.start_launch()

    def start_launch(self) -> None:
        """Everything before is over when the programs of this launch begin."""
        self._start = np.uint32(len(self.program))
        self.launch = len(self.program)
        self.relaxed = False
        self._epochs = 0
        self._own: dict[int, int] = {}
        self._knows: dict[int, int] = {}
        self._released: dict[tuple[int, int], int] = {}
        self._log: list[tuple] = []
        self._logged = 0

    def start_program(self, program: int) -> None:
        """From here on it is this program, of the launch, that accesses memory."""
        self.current = program
        self._earlier = np.uint32(len(self.program) - self.launch)
        self._new_epoch = True

    def access(self, site: int) -> int:
        """The number of a new access by the current program."""
        if self._new_epoch:
            self._own[self.current] = self._own.get(self.current, 0) | 1 << self._epochs
            self._epochs += 1
            self._new_epoch = False
        self.program.append(self.current)
        self.site.append(site)
        self._epoch.append(self._epochs - 1)
        return len(self.program) - 1

    def load(self, ledger: Ledger, units: np.ndarray, access: int) -> Conflict | None:
        """Note a load. Returns what it conflicts with."""
        found = self._conflict(ledger, units, ("stored", "updated", "updated_before"))
        self._note(ledger, units, access, "loaded", "loaded_before")
        return found

    def store(self, ledger: Ledger, units: np.ndarray, access: int) -> Conflict | None:
        """Note a store. Returns what it conflicts with."""
        found = self._conflict(ledger, units, Ledger.KINDS)
        ledger.of("stored")[units] = access
        ledger.touched["stored"] = self.launch
        return found

    def update(self, ledger: Ledger, units: np.ndarray, access: int, order: str) -> Conflict | None:
        """Note an atomic with memory semantics `order`. Returns what it conflicts with."""
        if order != "RELAXED":
            program, own = self.current, self._own[self.current]
            self._log.append((program, own, order, id(ledger), units))
            self._logged += units.size
            self._new_epoch = self._new_epoch or order in RELEASING
            if self._logged > MAX_LOGGED_LANES:
                self._replay()
        else:
            self.relaxed = True
        found = self._conflict(ledger, units, ("stored", "loaded", "loaded_before"))
        self._note(ledger, units, access, "updated", "updated_before")
        return found

    def _note(self, ledger: Ledger, units: np.ndarray, access: int, kind: str, before: str) -> None:
        """Keep the last accesses by two different programs."""
        last = ledger.of(kind)
        old = last[units]
        earlier = old - self._start < self._earlier
        if earlier.any():
            ledger.of(before)[units[earlier]] = old[earlier]
            ledger.touched[before] = self.launch
        last[units] = access
        ledger.touched[kind] = self.launch

    def _conflict(
        self, ledger: Ledger, units: np.ndarray, kinds: tuple[str, ...]
    ) -> Conflict | None:
        for kind in kinds:
            if ledger.touched.get(kind) != self.launch:
                continue
            last = ledger.last[kind][units]
            # Of this launch and before this program: unsigned, so older ones wrap to large numbers.
            since = last - self._start
            if since.size and since.min() < self._earlier:
                suspects = np.flatnonzero(since < self._earlier)
                if found := self._unordered(suspects, last[suspects]):
                    return Conflict(*found, kind.removesuffix("_before"))
        return None

    def _unordered(self, suspects: np.ndarray, accesses: np.ndarray) -> tuple[int, int] | None:
        """Of suspects and their earlier accesses, one that is not ordered before the current."""
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
        """Work out what each program knows to have happened, a bit for each epoch of each program.

        An epoch ends where its program releases. A release hands what the program knows to the
        address, an acquire takes over what is there.
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


def explain(
    headline: str,
    element: str,
    here: tuple[tuple[int, int, int], str],
    there: tuple[tuple[int, int, int], str, str],
    shared: list[str],
    relaxed: bool,
) -> str:
    """The message for a race.

    here: the program, and what it does: "loads", "stores" or "updates"
    there: the program that came earlier, what it did, and where
    shared: the arguments that are views of this memory
    relaxed: some program used an atomic that orders nothing
    """
    (program, does), (other, did, place) = here, there
    too = ", too" if does == did else ""
    text = (
        f"{headline}\n"
        f"race: program {program} {_VERBS[does]} {element}, "
        f"which program {other} {_VERBS[did]}{too} at {place}; "
        "the programs of a launch may run at the same time, in no fixed order"
    )
    if len(shared) > 1:
        text += f"\n{' and '.join(shared)} are the same memory"
    return f"{text}\nhint: {_advice(does, did, relaxed)}"


_VERBS = {"loads": "loads", "stores": "stores", "updates": "updates by an atomic"}


def _advice(does: str, did: str, relaxed: bool) -> str:
    if does == did == "stores":
        return (
            "let one program store each element, or add with tl.atomic_add; "
            "two stores of one value are a race too"
        )
    if relaxed:
        return 'an atomic with sem="relaxed" orders nothing; without `sem` it orders what is around'
    if "updates" in (does, did):
        return (
            "use an atomic in both places, or do one of the two in a launch of its own; in one "
            "launch only an atomic that both programs execute in between orders them"
        )
    return (
        "to add into one element use tl.atomic_add; else store to another tensor than is read, or "
        "split the work into two launches (in one, only an atomic that both execute orders them)"
    )
