"""What happens before what in one program: actors, their clocks, and accesses to shared memory."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelgauge.memory.call_sites import CallSite

Clock = dict[int, int]


def join(clock: Clock, other: Clock) -> None:
    """Let everything that `other` knows of happen before what follows in `clock`."""
    for actor, time in other.items():
        if clock.get(actor, 0) < time:
            clock[actor] = time


class Actor:
    """Something that accesses shared memory: a partition, or an operation that goes on beside it.

    name: of the partition
    clock: how far it knows each actor to have come
    """

    _numbers = itertools.count()

    def __init__(self, name: str, clock: Clock | None = None):
        self.number, self.name = next(self._numbers), name
        self.clock: Clock = {**(clock or {}), self.number: 1}

    def fork(self, name: str = "") -> Actor:
        """Return an actor that begins now."""
        child = Actor(name or self.name, self.clock)
        self.tick()
        return child

    def tick(self) -> None:
        """Tell what this actor does from now on from what it has made known."""
        self.clock[self.number] += 1

    def knows(self, access: Access) -> bool:
        """Return whether an access is over before what this actor does now."""
        return self.clock.get(access.actor, 0) >= access.time


@dataclass(frozen=True, eq=False)
class Access:
    """One access to shared memory. how: "load", "store" or "copy"."""

    actor: int
    time: int
    partition: str
    how: str
    site: CallSite
    writes: bool


class Conflict(Exception):
    """An access, and an earlier one, None if nothing was written, that nothing puts before it."""

    def __init__(self, buffer: Buffer, slot: int | None, now: Access, before: Access | None):
        super().__init__(now.how)
        self.buffer, self.slot, self.now, self.before = buffer, slot, now, before


@dataclass(eq=False)
class Buffer:
    """One allocation of shared memory.

    data: its elements, flat
    shape: as allocated; the first axis numbers the slots of a ring if there are more than two
    accesses: every write, by the number that `writer` holds for each element
    """

    name: str
    data: np.ndarray
    shape: tuple[int, ...]
    accesses: list[Access] = field(default_factory=list)
    reads: list[tuple[Access, np.ndarray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.writer = np.full(self.data.size, -1, np.int32)

    def slot(self, where: np.ndarray) -> int | None:
        """Return the first index of what is accessed, None if it is not of one slot."""
        size = self.data.size // self.shape[0]
        first, last = int(where.min()) // size, int(where.max()) // size
        return first if len(self.shape) > 1 and first == last else None

    def access(self, actor: Actor, access: Access, where: np.ndarray) -> None:
        """Note an access to these elements. Raises Conflict."""
        where = where.ravel()
        for number in np.unique(self.writer[where]):
            if number < 0 and access.writes:
                continue
            before = self.accesses[number] if number >= 0 else None
            if before is None or not actor.knows(before):
                raise Conflict(self, self.slot(where), access, before)
        if not access.writes:
            self.reads.append((access, where))
            return
        kept = []
        for before, read in self.reads:
            touched = np.isin(read, where, assume_unique=True)
            if touched.any() and not actor.knows(before):
                raise Conflict(self, self.slot(where), access, before)
            if not touched.all():
                kept.append((before, read))
        self.reads = kept
        self.writer[where] = len(self.accesses)
        self.accesses.append(access)


@dataclass(eq=False)
class Barrier:
    """An mbarrier: `pending` arrivals and `bytes` are missing until phase number `phase` is over.

    came: the partitions that have ever arrived
    copies: copies that will arrive here
    """

    name: str
    count: int
    pending: int
    phase: int = 0
    bytes: int = 0
    expected: int = 0
    copies: int = 0
    came: dict[str, Any] = field(default_factory=dict)
    clock: Clock = field(default_factory=dict)
    coming: Clock = field(default_factory=dict)

    def passed(self, parity: int) -> bool:
        """Return whether a wait for the phase of this parity goes on."""
        return self.phase & 1 != parity

    def complete(self) -> bool:
        """Begin the next phase if this one is over."""
        if self.pending > 0 or self.bytes:
            return False
        self.phase += 1
        self.pending += self.count
        self.expected = 0
        join(self.clock, self.coming)
        return True
