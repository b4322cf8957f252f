"""One program of a Gluon kernel while it runs: its shared memory, its barriers, its partitions."""

from __future__ import annotations

import contextvars
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import numpy as np
import triton.language as tl

from kernelgauge.core.verdict import Wrong
from kernelgauge.gluon.clocks import Agent, Clock, Event, Operation
from kernelgauge.gluon.partitions import Partition, Turns, Wait
from kernelgauge.interpreter.arithmetic import numpy_dtype
from kernelgauge.memory.call_sites import CallSite, user_frame
from kernelgauge.memory.excess import unique
from kernelgauge.memory.recording import Moment
from kernelgauge.words.fault import Fault, Note, Place, note


@dataclass
class Barrier:
    """An mbarrier.

    count: the arrivals of a phase
    phase: the number of phases that are complete
    missing: arrivals that the current phase lacks; bytes: bytes that it still expects
    expected, issued: bytes that it was told to expect, and of the copies that were issued to it
    current, complete: what happened before the arrivals of this phase, and of those before it
    arrived: in each phase, by number, the partitions that arrived, with the step and the line in
        which each did so last
    waited: the partitions that waited for each phase
    is_fed: whether it was ever told to expect bytes
    """

    count: int
    phase: int = 0
    missing: int = 0
    bytes: int = 0
    expected: int = 0
    issued: int = 0
    current: Agent = field(default_factory=lambda: Agent("barrier"))
    complete: Agent = field(default_factory=lambda: Agent("barrier"))
    arrived: dict[int, dict[str, tuple[int, int]]] = field(default_factory=dict)
    waited: dict[int, set[str]] = field(default_factory=dict)
    is_fed: bool = False

    def __post_init__(self) -> None:
        self.missing = self.count

    def advance(self) -> None:
        """Begin the next phase if this one is complete."""
        if self.missing == 0 and self.bytes == 0:
            self.complete.follow(self.current)
            self.current = Agent("barrier")
            self.phase, self.missing = self.phase + 1, self.count
            self.expected = self.issued = 0


class Memory:
    """An allocation of shared memory.

    data: the elements; until something is stored they are NaN
    last_write: of each element, the number of the event in the program, 0 if there was none
    reads: the reads that a write may have to wait for, and which elements each touched
    barriers: those that were initialised, by element
    """

    def __init__(self, dtype: tl.dtype, shape: list[int], line: str):
        self.dtype, self.shape, self.line = dtype, shape, line
        held = numpy_dtype(dtype)
        self.data = np.full(math.prod(shape) * held.itemsize, 0xFF, np.uint8).view(held)
        self.last_write = np.zeros(self.data.size, np.int64)
        self.reads: list[tuple[Event, np.ndarray]] = []
        self.barriers: dict[int, Barrier] = {}


class Block:
    """One program.

    random: decides the order in which partitions and asynchronous operations go on
    code: of the kernel
    moments: where to note what happens, for a picture
    counted: whether `ahead` is asked for, which other orders than an even one may leave at 0
    ahead: how often a partition stored or multiplied while a copy into shared memory was under way
    """

    def __init__(
        self,
        random: np.random.Generator,
        code: CodeType,
        warps: int,
        moments: list[Moment] | None = None,
        counted: bool = False,
    ):
        self.code, self.moments = code, moments
        self.main = Partition("the kernel", warps=warps)
        self.turns = Turns(random, self.main, self._deadlock, evenly=counted)
        self.events: list[Event | None] = [None]
        self.operations: list[Operation] = []
        self.ahead = 0
        self._fetching: list[Operation] = []
        self._barriers: dict[int, tuple[Any, Barrier]] = {}
        self._waits: dict[int, list[int]] = {}
        self._kernel: FrameType | None = None

    # Accesses

    def read(self, view: Any, agent: Agent) -> None:
        """Record that all of a view is read. Raises Wrong if that comes too early."""
        self.tell("reads", agent, view)
        event, touched = self._event("reads", agent), view.ids.ravel()
        for number in unique(view.memory.last_write[touched]):
            before = self.events[number]
            if before is None:
                said = note("reads-unset-shared", buffer=self.name(view), reader=agent.name)
                why = self._of_an_open_wait(agent)
                raise self._wrong("early-read", [said, *why], note("wait-before-reading"))
            values = {"buffer": self.name(view), "reader": agent.name} | _told(before)
            if not before.is_before(agent.seen):
                writer = before.agent
                late = writer.late() if isinstance(writer, Operation) and not writer.done else None
                if late:
                    raise late
                why = _of_groups(agent, writer) or self._of_an_open_wait(agent)
                why = why or self._of_arrivals(agent, writer, event.step)
                what = note("reads-before-write", **values)
                raise self._wrong("early-read", [what, *why], note("wait-before-reading"))
            if before.generic and not event.generic and not before.is_before(agent.fenced):
                said = note("reads-without-fence", **values)
                raise self._wrong("missing-fence", [said], note("fence-after-store"))
        self._clear(view.memory, touched, lambda read: read.agent is agent)
        mask = np.zeros(view.memory.data.size, bool)
        mask[touched] = True
        view.memory.reads.append((event, mask))

    def write(self, view: Any, agent: Agent) -> None:
        """Record that all of a view is written. Raises Wrong if that comes too early."""
        self.tell("writes", agent, view)
        event, touched = self._event("writes", agent), view.ids.ravel()
        memory = view.memory
        before = [self.events[number] for number in unique(memory.last_write[touched])]
        before += [read for read, mask in memory.reads if mask[touched].any()]
        for other in before:
            if other and not other.is_before(agent.seen):
                values = {"buffer": self.name(view), "writer": agent.name} | _told(other)
                why = self._of_arrivals(other.agent, agent, other.step)
                what = note("writes-too-early", **values)
                raise self._wrong("early-overwrite", [what, *why], note("wait-before-overwriting"))
        self._clear(memory, touched, lambda read: True)
        memory.last_write[touched] = len(self.events)
        self.events.append(event)

    def _of_an_open_wait(self, reader: Agent) -> list[Note]:
        """Return that the last wait was for copies, and for a phase before the first one.

        Of barriers on which nothing lands such a wait may be meant.
        """
        if (awaited := reader.awaited) is None:
            return []
        view, phase, line = awaited
        if phase >= 0 or not any(it.is_fed for it in view.memory.barriers.values()):
            return []
        return [note("wait-is-open", barrier=self.name(view), line=line)]

    def _of_arrivals(self, reader: Agent, writer: Agent, step: int) -> list[Note]:
        """Return how the phase that the writer waited for could be over before the reader was.

        It arrived before this step, in which it reads. Or it did not arrive: only where both the
        reader and those that did waited for one phase of another barrier, as they read in the same
        round.
        """
        if (awaited := writer.awaited) is None:
            return []
        view, phase, _ = awaited
        barrier, one = self.barrier(view), _partition(reader).name
        arrived = barrier.arrived.get(phase, {})
        names, another = {*arrived}, _partition(writer).name
        if one in arrived and isinstance(reader, Partition):
            at, line = arrived[one]
            # After another wait it would read in a later round, and that phase would be too old.
            if at < step and not any(at < it < step for it in self._waits.get(reader.number, ())):
                values = {
                    "reader": one,
                    "barrier": self.name(view),
                    "line": line,
                    "writer": another,
                }
                return [note("arrives-before-reading", **values)]
        if not names or {one, another} & names:
            return []
        for other, its in self._barriers.values():
            if any({one, *names} <= waited for waited in its.waited.values()):
                return [
                    note(
                        "phase-without-reader",
                        barrier=self.name(view),
                        count=barrier.count,
                        names=tuple(sorted(names)),
                        reader=one,
                        other=self.name(other),
                    )
                ]
        return []

    def _clear(self, memory: Memory, touched: np.ndarray, is_over: Any) -> None:
        for read, mask in memory.reads:
            if is_over(read):
                mask[touched] = False
        memory.reads = [pair for pair in memory.reads if pair[1].any()]

    def _event(self, verb: str, agent: Agent) -> Event:
        frame = user_frame(self.code)
        where = (frame.f_code.co_filename, frame.f_lineno) if frame else ("", 0)
        return Event(agent, agent.step(), verb, *where, not isinstance(agent, Operation))

    # Asynchronous operations

    def operation(
        self,
        name: str,
        partition: Partition,
        finish: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> Operation:
        """Return an operation that a partition issues now; `turns.issue` sends it off."""
        partition.step()
        frame = user_frame(self.code)

        def end() -> None:
            self.tell("ends", operation)
            finish()

        told = f"{name} that {partition.name} issued in line {frame.f_lineno}" if frame else name
        operation = Operation(
            told, Clock(partition.seen), Clock(partition.fenced), finish=end, **options
        )
        operation.place, operation.partition = _place(frame), partition
        operation.awaited = partition.awaited
        operation.seen[operation.number] = 1
        self.operations.append(operation)
        self.tell(name.removeprefix("the "), operation)
        if operation.fetches:
            self._fetching.append(operation)
        return operation

    def use(self, product: Operation, partition: Partition) -> None:
        """Raise Wrong if a partition has not waited for the product whose result it uses."""
        if product.number not in partition.seen:
            said = note("uses-before-wait", user=partition.name, product=product.name)
            raise self._wrong("early-read", [said], note("wait-for-the-product"))

    def works(self, partition: Partition) -> None:
        """Note that a partition stores or multiplies, for `ahead`."""
        self._fetching = [it for it in self._fetching if it.number not in partition.seen]
        self.ahead += bool(self._fetching)

    def end(self) -> None:
        """Raise Wrong if the program ends before its asynchronous operations are waited for."""
        for operation in self.operations:
            if operation.number not in self.main.seen:
                said = note("ends-before", operation=operation.name)
                hint = note("wait-before-the-end")
                raise self._wrong("left-in-flight", [said], hint, operation.place)

    # Barriers

    def barrier(self, view: Any) -> Barrier:
        """Return the barrier of a view. Raises Wrong if it is not initialised."""
        barrier = view.memory.barriers.get(int(view.ids.ravel()[0]))
        if barrier is None:
            said = note("barrier-without-init", barrier=self.name(view))
            raise self._wrong("barrier-misuse", [said], note("init-every-barrier"))
        self._barriers.setdefault(id(barrier), (view, barrier))
        return barrier

    def arrive(self, view: Any, agent: Agent, count: int, expected: int = 0) -> None:
        """Arrive so many times. Raises Wrong if the phase lacks fewer arrivals."""
        self.tell("expect" if expected else "arrive", agent, view, expected)
        barrier = self.barrier(view)
        barrier.is_fed |= expected > 0
        if count > barrier.missing:
            said = note(
                "arrives-too-often",
                barrier=self.name(view), count=barrier.count, missing=barrier.missing, more=count,
            )  # fmt: skip
            in_flight = expected and barrier.issued and barrier.bytes > 0
            hint = note("refill-after-the-readers" if in_flight else "count-the-arrivals")
            raise self._wrong("barrier-misuse", [said], hint)
        step = agent.step()
        if isinstance(agent, Partition):
            frame = user_frame(self.code)
            line = frame.f_lineno if frame else 0
            barrier.arrived.setdefault(barrier.phase, {})[agent.name] = step, line
        barrier.current.follow(agent)
        barrier.missing -= count
        self._advance(view, barrier)

    def land(self, view: Any, operation: Operation, phase: int, size: int) -> None:
        """Let a copy of so many bytes, which was issued in a phase of a barrier, be done."""
        barrier = self.barrier(view)
        if phase != barrier.phase:
            raise self.late(view, phase, size, operation.place)
        barrier.bytes -= size
        barrier.current.follow(operation)
        self._advance(view, barrier, operation.place)

    def late(self, view: Any, phase: int, size: int, place: Place | None) -> Wrong:
        """Return that a copy of so many bytes comes after the phase that it was issued in."""
        said = note("copy-after-its-phase", barrier=self.name(view), bytes=size, phase=phase)
        return self._wrong("wrong-bytes", [said], note("expect-all-bytes"), place)

    def _advance(self, view: Any, barrier: Barrier, place: Place | None = None) -> None:
        # Bytes that come after the phase that they were to end would end the next one too early.
        short = barrier.bytes < 0 or (barrier.bytes == 0 and barrier.issued > barrier.expected)
        if barrier.missing == 0 and short:
            hint = note("expect-all-bytes")
            raise self._wrong("wrong-bytes", [self._bytes(view)], hint, place)
        before = barrier.phase
        barrier.advance()
        if barrier.phase > before:
            self.tell("completes", self.main, view)

    def _bytes(self, view: Any) -> Note:
        barrier = self.barrier(view)
        return note(
            "bytes-do-not-match",
            barrier=self.name(view), expected=barrier.expected, issued=barrier.issued,
        )  # fmt: skip

    def wait(self, view: Any, parity: int, partition: Partition) -> None:
        """Wait for the phase of this parity. Raises Wrong if that never ends."""
        barrier = self.barrier(view)
        frame = user_frame(self.code)
        where = _place(frame)

        def told() -> dict[str, Any]:
            return {
                "view": view,
                "place": where,
                "values": (
                    partition.name, where.line if where else 0, self.name(view), parity,
                    barrier.phase, barrier.missing, barrier.count, barrier.bytes,
                ),
            }  # fmt: skip

        self.tell("wait", partition, view, parity)
        self.turns.switch(partition, Wait(lambda: barrier.phase % 2 != parity, told))
        self.tell("goes on", partition, view)
        partition.awaited = view, barrier.phase - 1, where.line if where else 0
        barrier.waited.setdefault(barrier.phase - 1, set()).add(partition.name)
        partition.follow(barrier.complete)
        self._waits.setdefault(partition.number, []).append(partition.step())

    def _deadlock(self) -> Wrong:
        waits = [it.waits.told() for it in self.turns.partitions if it.waits]
        for it in waits:
            barrier = self.barrier(it["view"])
            if barrier.missing == 0:
                return self._wrong(
                    "wrong-bytes", [self._bytes(it["view"])], note("expect-all-bytes"), it["place"]
                )
        ended = tuple(it.name for it in self.turns.partitions if it.has_ended)
        said = note("partitions-wait", waits=tuple(it["values"] for it in waits), ended=ended)
        return self._wrong("deadlock", [said], note("arrive-once-a-phase"), waits[0]["place"])

    # What is said

    def tell(self, did: str, agent: Agent, view: Any = None, amount: int = 0) -> None:
        """Note a moment: what an agent does to a buffer or a barrier."""
        if self.moments is None:
            return
        frame = user_frame(self.code)
        line, partition, number = frame.f_lineno if frame else 0, agent, 0
        if isinstance(agent, Operation) and agent.partition:
            line, number = agent.place.line if agent.place else 0, agent.number
            partition = agent.partition
        about = self.name(view) if view else ""
        barrier = view.memory.barriers.get(int(view.ids.ravel()[0])) if view else None
        phases = barrier.phase if barrier else 0
        self.moments.append(Moment(did, partition.name, line, about, number, amount, phases))

    @property
    def line(self) -> int:
        """The line of the learner's code that runs."""
        frame = user_frame(self.code)
        return frame.f_lineno if frame else 0

    def enter(self) -> None:
        """Note the frame of the kernel, whose names for buffers are used for all partitions."""
        self._kernel = self._kernel or user_frame(self.code)

    def name(self, view: Any) -> str:
        """Return what the learner calls a buffer or a barrier, with its index: full[1]."""
        memory: Memory = view.memory
        frame, frames = user_frame(self.code), [self._kernel]
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        names = (
            name
            for frame in frames
            if frame
            for name, value in frame.f_locals.items()
            if getattr(value, "memory", None) is memory and value.ids.size == memory.data.size
        )
        assigned = re.match(r"(\w+)\s*=", memory.line)
        name = next(names, assigned[1] if assigned else "a buffer")
        rows = memory.shape[0]
        first = int(view.ids.ravel()[0]) // (memory.data.size // rows)
        is_part = view.ids.size < memory.data.size
        return f"{name}[{first}]" if is_part and len(memory.shape) > 1 else name

    def _wrong(
        self, kind: str, said: list[Note], remedy: Note, place: Place | None = None
    ) -> Wrong:
        place = place or _place(user_frame(self.code))
        return Wrong(Fault(kind, tuple(said), place=place, remedy=remedy))


def _place(frame: FrameType | None) -> Place | None:
    return CallSite(frame.f_code.co_filename, frame.f_lineno, "").place if frame else None


def _partition(agent: Agent) -> Agent:
    """Return the partition that issued an operation, or the partition itself."""
    return agent.partition or agent if isinstance(agent, Operation) else agent


def _of_groups(reader: Agent, copy: Agent) -> list[Note]:
    """Return how a wait for groups of cp.async could leave a copy under way."""
    partition = _partition(copy)
    if not isinstance(partition, Partition) or partition is not _partition(reader):
        return []
    for later, group in enumerate(reversed(partition.groups)):
        if copy in group:
            left, line = partition.waited
            return [note("wait-leaves-group", later=later, left=left, line=line)]
    return []


def _told(event: Event) -> dict[str, Any]:
    return {"other": event.agent.name, "verb": event.verb, "file": event.file, "line": event.line}


# The program that runs, and its partition.
BLOCK: contextvars.ContextVar[Block] = contextvars.ContextVar("block")
PARTITION: contextvars.ContextVar[Partition] = contextvars.ContextVar("partition")
