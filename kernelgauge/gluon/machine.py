"""One program of a Gluon kernel while it runs: partitions, barriers and operations in flight."""

from __future__ import annotations

import contextvars
import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from torch.utils._python_dispatch import _disable_current_modes

from kernelgauge.core.verdict import Wrong
from kernelgauge.gluon.clocks import Access, Actor, Barrier, Buffer, Conflict, join
from kernelgauge.memory.call_sites import CallSite
from kernelgauge.memory.tracker import Tracker
from kernelgauge.words.fault import Fault, Note, note

GRACE_SECONDS = 1.0
# How much likelier one thing is to happen next than another: 2 to a power up to this.
SPREAD = 6


class _Cancelled(BaseException):
    """Ends the thread of a partition that need not go on."""


class Partition(Actor):
    """Warps that run one function.

    waits: the barrier, the parity and the place that it waits for, if it does
    """

    def __init__(self, name: str, num_warps: int, weight: float, clock: dict | None = None):
        super().__init__(name, clock)
        self.num_warps, self.weight = num_warps, weight
        self.waits: tuple[Barrier, int, CallSite] | None = None
        self.turn = threading.Semaphore(0)
        self.thread: threading.Thread | None = None
        self.error: BaseException | None = None
        self.done = False

    @property
    def ready(self) -> bool:
        """Whether it could go on."""
        return not self.done and (self.waits is None or self.waits[0].passed(self.waits[1]))


class Machine:
    """One program. seed: of the order in which things happen."""

    def __init__(self, tracker: Tracker, num_warps: int, seed: Sequence[int]):
        self.tracker = tracker
        self.random = np.random.default_rng(list(seed))
        self.main = self.current = Partition("the kernel", num_warps, 1.0)
        self.barriers: dict[tuple[int, int], Barrier] = {}
        self.events: list[tuple[float, Callable[[], None]]] = []
        self._baton = threading.Semaphore(0)
        self._cancelled = False

    # What happens when.

    def weight(self) -> float:
        """Return how likely something new is to happen early."""
        return float(2.0 ** self.random.uniform(-SPREAD, SPREAD))

    def later(self, event: Callable[[], None]) -> None:
        """Let something happen at any moment from now on."""
        self.events.append((self.weight(), event))

    def step(self) -> None:
        """Let others go on before what the current partition does next."""
        partition = self.current
        if partition is not self.main:
            self._give_back(partition)
            return
        while self.events and self.random.random() < 0.5:
            self._happen(int(self.random.integers(len(self.events))))

    def wait(self, barrier: Barrier, parity: int) -> None:
        """Let the current partition go on once the phase of this parity is over."""
        partition = self.current
        partition.waits = (barrier, parity, self.site())
        if partition is not self.main:
            self._give_back(partition)
        while not partition.ready:
            if not self.events:
                self._deadlock([partition])
            self._happen(int(self.random.integers(len(self.events))))
        partition.waits = None
        join(partition.clock, barrier.clock)

    def _happen(self, number: int) -> None:
        self.events.pop(number)[1]()

    def _give_back(self, partition: Partition) -> None:
        self._baton.release()
        partition.turn.acquire()
        if self._cancelled:
            raise _Cancelled
        self.current = partition

    def specialize(self, bodies: Sequence[tuple[str, int, Callable[[], Any]]]) -> Any:
        """Run partitions side by side: name, warps and body of each. Returns the first's result."""
        if self.current is not self.main:
            raise ValueError("warp_specialize does not nest")
        outer, results = self.main, {}
        partitions = [Partition(n, w, self.weight(), outer.clock) for n, w, _ in bodies]
        outer.tick()
        for number, (partition, (_, _, body)) in enumerate(zip(partitions, bodies, strict=True)):

            def run(
                number: int = number, partition: Partition = partition, body: Any = body
            ) -> None:
                partition.turn.acquire()
                try:
                    if not self._cancelled:
                        self.current = partition
                        results[number] = body()
                except _Cancelled:
                    pass
                except BaseException as error:
                    partition.error = error
                partition.done = True
                self._baton.release()

            context = contextvars.copy_context()
            partition.thread = threading.Thread(target=context.run, args=(run,), daemon=True)
        with _disable_current_modes():
            for partition in partitions:
                partition.thread.start()  # type: ignore[union-attr]
        try:
            self._schedule(partitions)
        finally:
            self._cancel(partitions)
            self.current = outer
        for partition in partitions:
            join(outer.clock, partition.clock)
        return results.get(0)

    def _schedule(self, partitions: list[Partition]) -> None:
        while not all(partition.done for partition in partitions):
            ready = [partition for partition in partitions if partition.ready]
            weights = np.array([p.weight for p in ready] + [weight for weight, _ in self.events])
            if not weights.size:
                self._deadlock([it for it in partitions if not it.done])
            number = int(self.random.choice(weights.size, p=weights / weights.sum()))
            if number >= len(ready):
                self._happen(number - len(ready))
                continue
            ready[number].turn.release()
            self._baton.acquire()
            if ready[number].error:
                raise ready[number].error  # type: ignore[misc]

    def _cancel(self, partitions: list[Partition]) -> None:
        running = [it for it in partitions if not it.done]
        self._cancelled = bool(running)
        for partition in running:
            partition.turn.release()
            thread = partition.thread
            if thread and thread.is_alive():
                thread.join(GRACE_SECONDS)
            if thread and thread.is_alive() and thread.ident is not None:
                # It computes without end.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread.ident), ctypes.py_object(_Cancelled)
                )

    # Shared memory.

    def site(self) -> CallSite:
        """Return the learner's line that runs."""
        return self.tracker.sites[self.tracker.sites.current(self.tracker.code)]

    def access(
        self, actor: Actor, how: str, buffer: Buffer, where: np.ndarray, writes: bool
    ) -> None:
        """Check and note an access. Raises Wrong."""
        site = self.site()
        access = Access(actor.number, actor.clock[actor.number], actor.name, how, site, writes)
        try:
            buffer.access(actor, access, where)
        except Conflict as conflict:
            self._conflict(conflict)

    def _conflict(self, conflict: Conflict) -> NoReturn:
        buffer, now, before = conflict.buffer, conflict.now, conflict.before
        name = buffer.name if conflict.slot is None else f"{buffer.name}[{conflict.slot}]"
        if before is None:
            self.fail("nothing-there", now.site, kind="read-too-early", buffer=name, how=now.how,
                      partition=now.partition)  # fmt: skip
        kind = "overwritten-too-early" if now.writes else "read-too-early"
        remedy = "wait-until-free" if now.writes else "wait-until-full"
        self.fail("unordered", now.site, remedy, kind=kind, buffer=name, how=now.how,
                  partition=now.partition, **_seen(before))  # fmt: skip

    # Barriers.

    def arrive(self, barrier: Barrier, actor: Actor, count: int = 1) -> None:
        """Let an actor arrive, with all that it has done until now."""
        barrier.came[actor.name] = self.site()
        barrier.pending -= count
        join(barrier.coming, actor.clock)
        actor.tick()
        self._complete(barrier)

    def copied(self, barrier: Barrier, actor: Actor, size: int) -> None:
        """Let a copy of so many bytes land."""
        barrier.copies -= 1
        barrier.bytes -= size
        join(barrier.coming, actor.clock)
        self._complete(barrier, actor)

    def _complete(self, barrier: Barrier, actor: Actor | None = None) -> None:
        expected = barrier.expected
        if barrier.complete() and barrier.copies and actor is not None:
            site = actor.site  # type: ignore[attr-defined]
            self.fail("fewer-bytes-expected", site, "count-the-bytes", kind="wrong-byte-count",
                      barrier=barrier.name, expected=expected)  # fmt: skip

    def _deadlock(self, partitions: list[Partition]) -> NoReturn:
        waiting = [(it, *it.waits) for it in partitions if it.waits]
        for it, barrier, _, site in waiting:
            if barrier.pending <= 0 and barrier.bytes:
                said = "more-bytes-expected" if barrier.bytes > 0 else "fewer-bytes-expected"
                self.fail(said, site, "count-the-bytes", kind="wrong-byte-count",
                          partition=it.name, barrier=barrier.name, expected=barrier.expected,
                          missing=barrier.bytes)  # fmt: skip
        waits = [
            note("partition-waits", partition=it.name, line=site.line, barrier=barrier.name,
                 parity=parity, phase=barrier.phase, pending=barrier.pending,
                 count=barrier.count, came=list(barrier.came))
            for it, barrier, parity, site in waiting
        ]  # fmt: skip
        self.fail("partitions-wait", waiting[0][3], "arrive-once-a-phase", *waits,
                  kind="barrier-deadlock")  # fmt: skip

    def fail(
        self, id: str, site: CallSite, remedy: str = "", *more: Note, kind: str, **values: Any
    ) -> NoReturn:
        """Raise Wrong at a line."""
        values.setdefault("partition", self.current.name)
        said = (note(id, **values), *more)
        where: dict[str, Any] = {"program": self.tracker.program, "grid": self.tracker.launch.grid}
        raise Wrong(Fault(kind, said, site.place, remedy=note(remedy) if remedy else None, **where))


def _seen(access: Access) -> dict[str, Any]:
    return {"other": access.how, "other_partition": access.partition, "line": access.site.line}
