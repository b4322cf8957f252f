"""What happened before what: vector clocks of partitions and of asynchronous operations."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kernelgauge.words.fault import Place

_numbers = itertools.count(1)


class Clock(dict[int, int]):
    """For each agent, up to which of its steps everything is known to be done."""

    def join(self, other: Clock) -> None:
        """Know what the other knows, too."""
        for agent, step in other.items():
            if self.get(agent, 0) < step:
                self[agent] = step


@dataclass
class Agent:
    """What accesses shared memory: a partition, or an operation that it left to the hardware.

    name: what it is called
    seen: what happened before its next step
    fenced: that part of it which asynchronous operations see, too
    awaited: the barrier that it waited for last, or whoever issued it, the number of the phase and
        the line
    """

    name: str
    seen: Clock = field(default_factory=Clock)
    fenced: Clock = field(default_factory=Clock)
    number: int = field(default_factory=lambda: next(_numbers))
    awaited: tuple[Any, int, int] | None = None

    def step(self) -> int:
        """Begin the next step and return its number."""
        self.seen[self.number] = self.seen.get(self.number, 0) + 1
        return self.seen[self.number]

    def follow(self, other: Agent) -> None:
        """Go on after all that the other has done."""
        self.seen.join(other.seen)
        self.fenced.join(other.fenced)


@dataclass
class Operation(Agent):
    """Something asynchronous: it happens at any moment between its issue and a wait for it.

    finish: does what happens then
    after: the operation that has to finish first
    place, partition: where it was issued, and by whom
    fetches: whether it copies into shared memory
    late: returns what is wrong if it is still to happen and should not be
    """

    finish: Callable[[], None] = lambda: None
    place: Place | None = None
    partition: Agent | None = None
    late: Callable[[], Exception | None] = lambda: None
    after: Operation | None = None
    fetches: bool = False
    done: bool = False

    @property
    def may_finish(self) -> bool:
        """Whether nothing has to finish before it."""
        return not self.done and (self.after is None or self.after.done)

    def complete(self) -> None:
        """Finish it, and before it what has to finish first."""
        if self.after and not self.after.done:
            self.after.complete()
        if not self.done:
            self.done, self.after = True, None
            self.finish()


@dataclass(frozen=True)
class Event:
    """An access to shared memory.

    verb: "writes" or "reads"
    file, line: of the learner's code
    generic: whether the partition made it itself, not an asynchronous operation
    """

    agent: Agent
    step: int
    verb: str
    file: str
    line: int
    generic: bool

    def is_before(self, clock: Clock) -> bool:
        """Return whether this is known to be done by a clock."""
        return clock.get(self.agent.number, 0) >= self.step
