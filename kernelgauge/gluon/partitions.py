"""The partitions of one program: threads, of which one runs at a time, in an order by chance.

At each synchronising operation any other partition may go on, and any asynchronous operation that
is under way may finish. How likely each is differs from program to program, so that in some of
them copies are late, or one partition runs far ahead.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch.utils._python_dispatch import _disable_current_modes

from kernelgauge.gluon.clocks import Agent, Operation

# How long to wait for a cancelled thread to end, in seconds.
GRACE_SECONDS = 1.0


class Cancelled(BaseException):
    """Ends the thread of a partition that need not go on."""


@dataclass
class Wait:
    """What a partition waits for.

    is_over: whether it may go on
    told: what to say of it: the barrier, the phase and what is missing
    """

    is_over: Callable[[], bool]
    told: Callable[[], dict[str, Any]]


def _taken() -> threading.Lock:
    """Return a lock that another thread is to release; a semaphore would take longer."""
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass
class Partition(Agent):
    """A partition, or the whole kernel before it is divided.

    warps: of how many warps it is
    waits: what it waits for, if it does
    products, stores, copies: its warpgroup_mma, its copies to global memory, and its groups of
        cp.async, in order; the last group is open
    waited, groups: how many groups its last wait_group leaves and in which line, and those that
        were committed by then and not known to be done
    """

    warps: int = 4
    waits: Wait | None = None
    has_ended: bool = False
    products: list[Operation] = field(default_factory=list)
    stores: list[Operation] = field(default_factory=list)
    copies: list[list[Operation]] = field(default_factory=lambda: [[]])
    waited: tuple[int, int] = 0, 0
    groups: list[list[Operation]] = field(default_factory=list)
    baton: threading.Lock = field(default_factory=_taken)


class Turns:
    """Whose turn it is among the partitions and the asynchronous operations of a program.

    random: chooses
    on_deadlock: returns the error to raise when nobody can go on
    evenly: whether partitions are equally fast, and operations late
    """

    def __init__(
        self,
        random: np.random.Generator,
        main: Partition,
        on_deadlock: Callable[[], BaseException],
        evenly: bool = False,
    ):
        self._random, self._main, self._on_deadlock = random, main, on_deadlock
        self._spread = 0.0 if evenly else 1.5
        self.partitions = [main]
        self.flying: list[Operation] = []
        self._of_operations = float(random.choice([0.05] if evenly else [0.05, 0.5, 5.0]))
        self._weights = {main.number: 1.0}
        self._error: BaseException | None = None
        self._cancelled = False

    def issue(self, operation: Operation) -> None:
        """Let an operation finish at some time from now on."""
        self._weights[operation.number] = self._of_operations * self._random.exponential()
        self.flying.append(operation)

    def switch(self, current: Partition, wait: Wait | None = None) -> None:
        """Let others go on, until it is this partition's turn again and its wait is over."""
        current.waits = wait
        if (following := self._next()) is not current:
            _wake(following)
            self._sleep(current)
        current.waits = None

    def run(self, bodies: Sequence[tuple[Partition, Callable[[], Any]]]) -> Any:
        """Run partitions side by side, each to its end. Return what the first one returns.

        Raises what the first one to fail raises.
        """
        results: list[Any] = []
        first = bodies[0][0]
        threads: list[threading.Thread] = []

        def run(partition: Partition, body: Callable[[], Any]) -> None:
            try:
                self._sleep(partition)
                result = body()
                if partition is first:
                    results.append(result)
                partition.has_ended = True
                self._main.waits = None
                following = self._main
                if not all(it.has_ended for it, _ in bodies):
                    following = self._next()
                _wake(following)
            except Cancelled:
                pass
            except BaseException as error:
                self._error = error
                _wake(self._main)

        for partition, body in bodies:
            self._weights[partition.number] = float(np.exp(self._random.normal(0, self._spread)))
            context = contextvars.copy_context()
            threads.append(
                threading.Thread(target=context.run, args=(run, partition, body), daemon=True)
            )
        self.partitions = [partition for partition, _ in bodies]
        try:
            # The guard's ban on threads is for the subject, not for these.
            with _disable_current_modes():
                for thread in threads:
                    thread.start()
            _wake(self._next())
            self._main.baton.acquire()
        except BaseException:
            for thread in threads:
                if thread.is_alive() and thread.ident is not None:
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(thread.ident), ctypes.py_object(Cancelled)
                    )
            raise
        finally:
            self._cancelled = True
            for partition in self.partitions:
                _wake(partition)
            for thread in threads:
                thread.join(GRACE_SECONDS)
            self._cancelled = False
            self.partitions = [self._main]
        if self._error:
            raise self._error
        return results[0]

    def _sleep(self, partition: Partition) -> None:
        partition.baton.acquire()
        if self._cancelled or self._error:
            raise Cancelled

    def _next(self) -> Partition:
        """Finish operations by chance, and return the partition that goes on."""
        while True:
            self.flying = [it for it in self.flying if not it.done]
            ready: list[Any] = [
                it
                for it in self.partitions
                if not it.has_ended and (it.waits is None or it.waits.is_over())
            ]
            ready += [it for it in self.flying if it.may_finish]
            if not ready:
                raise self._on_deadlock()
            chosen = ready[self._chosen([self._weights[it.number] for it in ready])]
            if isinstance(chosen, Partition):
                return chosen
            chosen.complete()

    def _chosen(self, weights: list[float]) -> int:
        """Return a place in the list by chance: that of `choice`, which takes twice as long."""
        drawn = self._random.random()
        if len(weights) == 1:
            return 0
        shares = np.array(weights) + 1e-9
        shares /= shares.sum()
        bounds = shares.cumsum()
        bounds /= bounds[-1]
        return int(bounds.searchsorted(drawn, side="right"))


def _wake(partition: Partition) -> None:
    """Let the thread of a partition go on that sleeps, or at once where it goes to sleep."""
    with contextlib.suppress(RuntimeError):
        partition.baton.release()
