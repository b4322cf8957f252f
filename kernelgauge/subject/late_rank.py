"""A run in which one rank is late, to show where a subject does not wait for it.

On several GPUs the work of two ranks is ordered only where one waits for the other. So one rank
gets its inputs late and starts its launches late, after each meeting anew, and once the subject
has returned, the others overwrite their inputs. A subject that meets where it must is right all the
same.

In the interpreter, where all ranks share the host, the launches of the late rank are put off until
the next meeting: the functions `on` and `meet` of the subject's module, which its stub gives, are
replaced for that. On several GPUs a kernel that spins keeps the late rank's GPU busy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from kernelgauge.core import gpus
from kernelgauge.core.blame import current_place
from kernelgauge.core.functions import launcher_globals
from kernelgauge.core.tensors import storage_of
from kernelgauge.core.verdict import Wrong
from kernelgauge.subject.canaries import Arena
from kernelgauge.words.fault import Fault, note

# Some 20 ms: longer than any call of a test takes.
LATE_CYCLES = 40_000_000


@dataclass(frozen=True)
class Lateness:
    """What is late, and when.

    rank: whose launches are late
    arrives_late: whether its inputs are, too
    overwritten: whether the other ranks' inputs are overwritten once the subject has returned
    """

    rank: int
    arrives_late: bool = True
    overwritten: bool = True


def names_by_rank(tensors: Mapping[str, torch.Tensor]) -> list[list[str]]:
    """Return the names of each rank's tensors: those at its place in a list, as in shards[0]."""
    ranks: dict[int, list[str]] = {}
    for name in tensors:
        if name.endswith("]"):
            ranks.setdefault(int(name.rpartition("[")[2][:-1]), []).append(name)
    return [ranks[rank] for rank in sorted(ranks)]


def has_meetings(subject: Callable) -> bool:
    """Return whether the subject's module has the functions that the stubs give."""
    names = launcher_globals(subject)
    return "on" in names and "meet" in names


@contextlib.contextmanager
def _instead(names: dict[str, Any], name: str, other: Callable) -> Iterator[Callable]:
    """Let calls of a function of the subject's module call another in the body.

    Yields the function as it was. One without free variables is replaced under all its names: it
    may be a default, an attribute, or have an alias.
    """
    function = names.get(name)
    if function is None:
        yield other
        return
    if not isinstance(function, FunctionType) or function.__closure__:
        names[name] = other
        try:
            yield function
        finally:
            names[name] = function
        return
    code, here, ours = function.__code__, function.__globals__, f"_judge_{name}"
    here[ours], function.__code__ = other, _FORWARDING[name]
    try:
        yield FunctionType(code, here, name, function.__defaults__)
    finally:
        function.__code__ = code
        del here[ours]


def _forwarding(name: str) -> CodeType:
    made: dict[str, Any] = {}
    exec(f"def forward(*given, **named):\n    return _judge_{name}(*given, **named)", made)
    return made["forward"].__code__


_FORWARDING = {name: _forwarding(name) for name in ("on", "meet")}


class _Late:
    """What both kinds of runs share: the inputs of each rank, and others to put in their place."""

    def __init__(
        self,
        subject: Callable,
        lateness: Lateness,
        arenas: Mapping[str, Arena],
        original: Mapping[str, torch.Tensor],
    ):
        self.names = launcher_globals(subject)
        self.lateness, self.arenas, self.original = lateness, arenas, original
        self.by_rank = names_by_rank(original)
        # Made now: memory that is asked for later may make a GPU wait.
        self.others = {
            name: 1 - 3 * original[name].flip(tuple(range(original[name].dim())))
            for names in self.by_rank
            for name in names
        }

    def _fill(self, ranks: list[int], contents: Mapping[str, torch.Tensor]) -> None:
        # The guard of the subject must not take it for work of the launcher.
        with _disable_current_modes():
            for rank in ranks:
                for name in self.by_rank[rank]:
                    self.arenas[name].fill(contents[name])


class LateLaunches(_Late):
    """The run in the interpreter.

    rank_of: returns the rank of a tensor by its storage and the ranks of the inputs by theirs, None
        where nothing tells it
    """

    def __init__(self, *arguments: Any, rank_of: Callable[[int, Mapping[int, int]], int | None]):
        super().__init__(*arguments)
        self._rank_of = rank_of
        self._ranks_that_launched: set[int] = set()
        self._launches = 0
        self._owner = {
            storage_of(self.arenas[name].tensor): rank
            for rank, names in enumerate(self.by_rank)
            for name in names
        }
        # The rank of each `with on(...)` that is open.
        self._open: list[int] = []
        self._put_off: list[Callable[[], None]] = []
        self._arrived = not self.lateness.arrives_late

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let the rank be late in the body, and what it has not launched by then run afterwards."""
        if self.lateness.arrives_late:
            self._fill([self.lateness.rank], self.others)
        names = self.names
        with _instead(names, "on", self._on), _instead(names, "meet", self._meet):
            yield
            self._check_every_rank_launched()
            if self.lateness.overwritten and self._put_off:
                others = set(range(len(self.by_rank))) - {self.lateness.rank}
                self._fill(sorted(others), self.others)
            self._catch_up()

    def puts_off(self, launch: Callable[[], None]) -> bool:
        """Return whether a launch is one of the late rank, and then keep it. Raises Wrong."""
        if not self._open:
            said, remedy = note("launch-outside-on"), note("launch-on-the-ranks-gpu")
            raise Wrong(Fault("wrong-gpu", (said,), current_place(), remedy=remedy))
        self._launches += 1
        self._ranks_that_launched.add(self._open[-1])
        is_late = self._open[-1] == self.lateness.rank
        if is_late:
            self._put_off.append(launch)
        return is_late

    @contextlib.contextmanager
    def _on(self, x: torch.Tensor) -> Iterator[None]:
        rank = self._find_rank(x)
        if rank is None:
            said, remedy = note("on-of-no-rank"), note("launch-on-the-ranks-gpu")
            raise Wrong(Fault("wrong-gpu", (said,), current_place(), remedy=remedy))
        self._open.append(rank)
        try:
            yield
        finally:
            self._open.pop()

    def _find_rank(self, x: torch.Tensor) -> int | None:
        return self._rank_of(storage_of(x), self._owner)

    def _check_every_rank_launched(self) -> None:
        """Raise Wrong if there is a launch for each rank, but none on the GPU of one of them."""
        idle = {*range(len(self.by_rank))} - self._ranks_that_launched
        if idle and self._launches >= len(self.by_rank):
            said, remedy = (
                note("no-launch-on-rank", rank=min(idle)),
                note("launch-on-the-ranks-gpu"),
            )
            raise Wrong(Fault("wrong-gpu", (said,), remedy=remedy))

    def _meet(self, tensors: Iterable[torch.Tensor]) -> None:
        # Of a tensor that is no input nothing tells the rank: it may be any.
        met = {self._find_rank(x) for x in tensors}
        if None in met or (self.lateness.rank in met and len(met) > 1):
            self._catch_up()

    def _catch_up(self) -> None:
        if not self._arrived:
            self._arrived = True
            self._fill([self.lateness.rank], self.original)
        launches, self._put_off = self._put_off, []
        for launch in launches:
            launch()


class LateGpu(_Late):
    """The run on several GPUs, where a rank shares its GPU with others if there are more ranks."""

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let the rank's GPU be late in the body, and wait for all GPUs afterwards."""
        device = self.arenas[self.by_rank[self.lateness.rank][0]].tensor.device
        by_rank = [self.arenas[names[0]].tensor.device for names in self.by_rank]
        here = [rank for rank, place in enumerate(by_rank) if place == device]
        others = [rank for rank, place in enumerate(by_rank) if place != device]

        def delay() -> None:
            with torch.cuda.device(device):
                torch.cuda._sleep(LATE_CYCLES)

        def meet_and_delay(tensors: object) -> None:
            meet(tensors)
            delay()

        if self.lateness.arrives_late:
            self._fill(here, self.others)
        gpus.synchronize()
        with _instead(self.names, "meet", meet_and_delay) as meet:
            delay()
            if self.lateness.arrives_late:
                self._fill(here, self.original)
            yield
            if self.lateness.overwritten:
                self._fill(others, self.others)
            gpus.synchronize()
