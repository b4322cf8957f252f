"""One interpreted launch while it runs: each access is checked and noted before it happens."""

from __future__ import annotations

import sys
from types import CodeType

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter

from judge.core.launch import Launch
from judge.core.verdict import Wrong
from judge.memory import coordinates, data_races, out_of_bounds
from judge.memory.addresses import WINDOW_BITS, AddressSpace, Region
from judge.memory.call_sites import is_user_code
from judge.memory.masked_lanes import poisoned
from judge.memory.scheduling import Scheduler
from judge.memory.watch import Watch

# After so many atomics of one line that all gave the same answer, other programs get their turn;
# when all that have not ended wait so, and after so many each, nobody can change it any more.
POLLS_BEFORE_YIELD = 64

POLLS_BEFORE_DEADLOCK = 2048

# A program that loops over a huge result is ended after so many accesses, if only "ends" run.
MAX_ACCESSES_OF_AN_END = 1000

DOES = {"reads": "loads", "writes": "stores", "updates": "updates"}

DID = {"loaded": "loads", "stored": "stores", "updated": "updates"}


class StopProgram(BaseException):
    """Ends a program that was seen long enough."""


class Tracker:
    """One launch while it runs: where its tensors are, which program is on, what it may touch.

    code: of the kernel
    turns: its programs
    """

    def __init__(self, watch: Watch, launch: Launch, code: CodeType):
        self.watch, self.launch, self.code = watch, launch, code
        self.history, self.sites, self.traffic = watch.history, watch.sites, watch.traffic
        self.space = AddressSpace(watch.known)
        self.turns = Scheduler((), lambda number: None)
        self.history.start_launch()
        if self.traffic:
            self.traffic.start_launch(launch)
        self._answer: tuple = (0, 0, None, None)
        self._waited = 0
        self._idle = 0
        self._begun = 0

    def start_program(self, number: int) -> None:
        """From here on this program runs, numbered in the order in which a GPU starts them."""
        self._idle = 0
        self._begun = len(self.history.site)
        self._go_on(number)

    def _go_on(self, number: int) -> None:
        self.number, self.program = number, self._program(number)
        interpreter.interpreter_builder.set_grid_idx(*self.program)
        self.history.start_program(number)

    def _program(self, number: int) -> tuple[int, int, int]:
        width, height, _ = self.launch.grid
        return number % width, number // width % height, number // (width * height)

    def access(
        self, verb: str, pointers: np.ndarray, mask: np.ndarray, size: int, order: str | None = None
    ) -> np.ndarray:
        """Check an access and note it. Returns the lanes' real addresses. Raises Wrong.

        verb: "reads", "writes" or, for an atomic that does both, "updates"
        size: bytes a lane
        order: memory semantics of an atomic, None if other programs do not see it as one
        """
        if (
            self.watch.programs == "ends"
            and len(self.history.site) - self._begun >= MAX_ACCESSES_OF_AN_END
        ):
            raise StopProgram
        site = self.sites.here(self.code)
        real, parts = self._resolve(verb, site, pointers, mask, size)
        if not parts:
            return real
        if verb == "reads" and self.watch.programs == "ends" and self._is_unwritten(parts):
            raise StopProgram
        history = self.history
        number = history.access(site)
        for region, units in parts:
            ledger = region.storage.ledger
            if order is not None:
                conflict = history.update(ledger, units, number, order)
            elif verb == "reads":
                conflict = history.load(ledger, units, number)
            else:
                conflict = history.store(ledger, units, number)
            if conflict:
                raise Wrong(self._race(verb, site, region, units, conflict))
            if self.traffic:
                self.traffic.note(self.number, region, units, verb, site)
        return real

    def _is_unwritten(self, parts: list[tuple[Region, np.ndarray]]) -> bool:
        """Whether programs that were left out should have stored what is loaded here."""
        for region, units in parts:
            ledger = region.storage.ledger
            stored = (ledger.last[kind] for kind in ("stored", "updated") if kind in ledger.last)
            if region.storage.key not in self.watch.given and not any(
                x[units].any() for x in stored
            ):
                return True
        return False

    def _resolve(
        self, verb: str, site: int, pointers: np.ndarray, mask: np.ndarray, size: int
    ) -> tuple[np.ndarray, list[tuple[Region, np.ndarray]]]:
        """Real addresses, and the units of each tensor that the active lanes touch."""
        active = pointers.reshape(-1) if mask.all() else pointers[mask]
        if not active.size:
            return pointers, []
        low = int(active.min())
        region = self.space.windows.get(low >> WINDOW_BITS)
        if (
            region is None
            or not region.dense
            or low < region.virtual
            or int(active.max()) + size > region.end
            or int(np.bitwise_or.reduce(active)) & (size - 1)
        ):
            return self._resolve_lanes(verb, site, pointers, mask, size, active)
        units = region.storage.ledger.units(active - region.origin, size)
        return pointers - region.shift, [(region, units)]

    def _resolve_lanes(
        self,
        verb: str,
        site: int,
        pointers: np.ndarray,
        mask: np.ndarray,
        size: int,
        active: np.ndarray,
    ) -> tuple[np.ndarray, list[tuple[Region, np.ndarray]]]:
        """As `_resolve`, for lanes of several tensors, or of one with gaps; finds those outside."""
        lanes_of = np.flatnonzero(mask)
        real = np.array(pointers, order="C")
        parts = []
        for region, lanes in self.space.split(active):
            good = np.zeros(lanes.size, dtype=bool)
            if region:
                offset = (active[lanes] - np.uint64(region.virtual)).view(np.int64)
                good = region.holds(offset, size)
            if not good.all():
                bad = np.zeros(mask.size, dtype=bool)
                bad[lanes_of[lanes[~good]]] = True
                access = self._describe(verb, site, pointers, mask, size)
                raise Wrong(out_of_bounds.explain(access, region, bad.reshape(mask.shape)))
            real.reshape(-1)[lanes_of[lanes]] -= region.shift
            units = region.storage.ledger.units(active[lanes] - region.origin, size)
            parts.append((region, units))
        return real, parts

    def _describe(
        self, verb: str, site: int, pointers: np.ndarray, mask: np.ndarray, size: int
    ) -> coordinates.Access:
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code is not self.code and not is_user_code(frame.f_code):
            frame = frame.f_back
        return coordinates.Access(
            verb,
            self.sites[site],
            self.program,
            self.launch.grid,
            pointers,
            mask,
            size,
            self.launch.arguments,
            frame.f_locals,
        )

    def _race(
        self, verb: str, site: int, region: Region, units: np.ndarray, conflict: data_races.Conflict
    ) -> str:
        storage = region.storage
        address = int(units[conflict.index]) * storage.ledger.unit + storage.base
        there = self.sites[self.history.site[conflict.access]]
        other = self.history.program[conflict.access]
        shared = [
            view.name
            for view in self.space.windows.values()
            if view.storage is storage and view.holds(np.array([address - view.real]), 1).all()
        ]
        return data_races.explain(
            self.sites[site].describe(*coordinates.ACCESS_CALLS[verb]),
            coordinates.element_text(region, address - region.real),
            (self.program, DOES[verb]),
            (self._program(other), DID[conflict.how], there.place),
            shared,
            self.history.relaxed,
        )

    def fill(self, mask: np.ndarray, dtype: np.dtype, element: tl.dtype) -> np.ndarray:
        """What the masked-off lanes of a load without `other` hold."""
        site = self.sites[self.sites.here(self.code)]
        count = self.watch.loads_without_other
        place = (site.file, site.line)
        count[place] = count.get(place, 0) + int(np.count_nonzero(~mask))
        if self.watch.poison:
            return poisoned(mask, dtype, element)
        return np.zeros(mask.shape, dtype=dtype)

    def settle(self, pointers: np.ndarray, answer: np.ndarray) -> None:
        """After an atomic: if one line gets the same answer again and again, let others run.

        Raises Wrong when all that have not ended wait like this.
        """
        number, site = len(self.history.site) - 1, self.history.site[-1]
        before = self._answer
        self._answer = (number, site, pointers, answer)
        if (
            before[:2] != (number - 1, site)
            or not np.array_equal(answer, before[3])
            or not np.array_equal(pointers, before[2])
        ):
            self._waited = self._idle = 0
            return
        self._waited += 1
        if self._waited % POLLS_BEFORE_YIELD:
            return
        self._idle += POLLS_BEFORE_YIELD
        if self._idle > POLLS_BEFORE_DEADLOCK * (self.turns.waiting + 1):
            raise Wrong(
                f"{self.sites[site].describe(*coordinates.ACCESS_CALLS['updates'])}\n"
                f"program {self.program} waits here for ever: every other program has ended or "
                "waits, and none of them stored what it waits for\n"
                "hint: release a lock after taking it, and let no two programs wait for each other"
            )
        program = self.number
        if self.turns.yield_turn():
            self._go_on(program)
            self._answer = (len(self.history.site) - 1, site, pointers, answer)
            self._waited = 0
