"""One interpreted launch while it runs: every access is checked and recorded before it happens."""

from __future__ import annotations

import math
from types import CodeType

import numpy as np
import torch
import triton.language as tl
import triton.runtime.interpreter as interpreter

from kernelgauge.core import work
from kernelgauge.core.launch import Launch
from kernelgauge.core.verdict import Wrong
from kernelgauge.memory import data_races, meetings, out_of_bounds, wrong_address
from kernelgauge.memory.address_source import AddressSource
from kernelgauge.memory.addresses import WINDOW_BITS, AddressSpace, Region
from kernelgauge.memory.call_sites import ACCESS_CALLS, Verb, user_frame
from kernelgauge.memory.coordinates import Access, format_element, noun
from kernelgauge.memory.flags import REMEDIES, Flags
from kernelgauge.memory.mask_limits import limits_of, stores_a_sum
from kernelgauge.memory.masked_lanes import poisoned
from kernelgauge.memory.recording import Recording
from kernelgauge.memory.scheduling import Scheduler
from kernelgauge.memory.terms import terms_of
from kernelgauge.memory.thread_races import Unfenced
from kernelgauge.memory.watch import Overwritten, Parts, Watch
from kernelgauge.words.fault import Fault, Note, note

# After this many atomics of one line with the same result, the program yields its turn. Once every
# program that has not ended waits like that, each for so many atomics, they are deadlocked.
POLLS_BEFORE_YIELD = 64

POLLS_BEFORE_DEADLOCK = 2048

# Where others are held back, so many programs wait that each can only wait a little.
POLLS_BEFORE_STARVING = 256

# Where only the "ends" of a launch run, a program that loops over a huge result is stopped here.
MAX_ACCESSES_OF_AN_END = 250
# How two tiles lie is not looked for among more units than these.
MAX_SEARCHED = 2**24


# The records of a `Ledger` of who loaded a unit.
READS = ("reads", "reads before")

# Why two tiles have an element, where the number of one may be meant for its place.
OVERLAPS = ("tiles-overlap", "tile-covers-another")

# Of these, a sum is the same in any order.
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class StopProgram(BaseException):
    """Ends a program that has been watched for long enough."""


class _OutOfBounds(Exception):
    """Lanes outside the elements of a region; of no region at all if it is None."""

    def __init__(self, region: Region | None, lanes: np.ndarray):
        self.region, self.lanes = region, lanes


class Tracker:
    """One launch while it runs: where its tensors are, which program runs, what it may access.

    code: of the kernel
    turns: the scheduler of its programs
    """

    def __init__(self, watch: Watch, launch: Launch, code: CodeType):
        # Work may be limited before the first program begins.
        self.number, self.program = 0, (0, 0, 0)
        self.watch, self.launch, self.code = watch, launch, code
        self.history, self.sites, self.traffic = watch.history, watch.sites, watch.traffic
        self.space = AddressSpace(watch.known)
        self.turns = Scheduler((), lambda number: None)
        self.unfenced = Unfenced(launch)
        self.lanes_met: Wrong | None = None
        self.history.start_launch()
        watch.begun.append((self.history.launch, launch))
        if self.traffic:
            self.traffic.start_launch(launch)
        if watch.record:
            watch.record.launches.append(launch)
        self.flags = Flags(self.history, self.sites, launch)
        self._last_atomic: tuple = (0, 0, None, None)
        self._releasing: Parts = []
        self._polls = 0
        self._polls_of_all = 0
        self._begun = 0

    def start_program(self, number: int) -> None:
        """Begin a program, numbered in the order in which a GPU starts them (x fastest)."""
        work.spend(work.PROGRAM)
        self._polls_of_all = 0
        self._begun = len(self.history.site)
        self._resume(number)

    def _resume(self, number: int) -> None:
        self.number, self.program = number, self.launch.program(number)
        interpreter.interpreter_builder.set_grid_idx(*self.program)
        self.history.start_program(number)
        self.unfenced.forget()

    def access(
        self,
        verb: Verb,
        pointers: np.ndarray,
        mask: np.ndarray,
        size: int,
        order: str | None = None,
        sums: np.ndarray | None = None,
    ) -> np.ndarray:
        """Check and record an access. Return the lanes' real addresses. Raises Wrong.

        pointers, mask: uint64 and bool, of the same shape
        size: bytes per lane
        order: memory semantics of an atomic, None if other programs do not see it as one
        sums: the active lanes that add what makes a sum depend on the order of its terms
        """
        work.spend(1 + pointers.size / work.LANES)
        ends_only = self.watch.programs == "ends"
        if ends_only and len(self.history.site) - self._begun >= MAX_ACCESSES_OF_AN_END:
            self.watch.stops_at_ends = True
            raise StopProgram
        site = self.sites.current(self.code)
        if self.watch.record:
            real, parts = self._recorded(self.watch.record, verb, site, pointers, mask, size)
        else:
            try:
                real, parts = self._resolve(pointers, mask, size)
            except _OutOfBounds as lanes:
                access = self._described(verb, site, pointers, mask, size)
                raise Wrong(out_of_bounds.explain(access, lanes.region, lanes.lanes)) from None
        if verb == "reads":
            self.watch.loaded = parts
            self.watch.note_scratch(parts)
        if not parts:
            return real
        if verb == "reads" and ends_only and any(self._is_unwritten(*part) for part in parts):
            self.watch.stops_at_ends = True
            raise StopProgram
        if verb != "reads" and ends_only:
            for region, _ in parts:
                key = id(region.storage), self.history.launch, self.number
                self.watch.stored_at_ends[key] += int(mask.sum()) * size
        if verb == "reads" and self.traffic:
            self.traffic.loads[-1][mask.size, size] += 1
        number = self.history.access(site)
        seen: Verb = "updates" if order else "reads" if verb == "reads" else "writes"
        if len(parts) == 1 and not self.watch.record:
            (region, units), what = parts[0], (verb, site, mask, size)
            if sums is not None and sums.any():
                self._check_order(region, units, sums, site)
            self._check_threads(region, units, number, *what)
            if seen == "writes" and not self.watch.overwritten:
                self._note_overwritten(region, units, site)
            if order:
                self.flags.note(number, order, region, units, int(mask.sum()))
        # What an atomic releases is known once it has changed something.
        releases = verb == "updates" and order in data_races.RELEASING
        self._releasing = parts if releases else []
        now = order
        if releases:
            now = "ACQUIRE" if order in data_races.ACQUIRING else None
        for region, units in parts:
            conflict = self.history.note(seen, region.storage.ledger, units, number, now)
            if conflict and not self.watch.record:
                described = self._described(verb, site, pointers, mask, size)
                raise Wrong(self._race(described, site, region, units, conflict))
            if self.traffic:
                self.traffic.note(self.number, region, units, verb, site)
                if site not in self.traffic.terms:
                    access = self._described(verb, site, pointers, mask, size)
                    self.traffic.terms[site] = terms_of(access, region)
        return real

    def _check_order(self, region: Region, units: np.ndarray, sums: np.ndarray, site: int) -> None:
        """Raise Wrong where two programs add to one element in an order that nothing fixes."""
        ledger = region.storage.ledger
        units = units.reshape(sums.size, -1)[sums].reshape(-1)
        if conflict := self.history.conflict(ledger, units, ("updates", "updates before")):
            said = note(
                "sum-in-no-order",
                other=self.launch.program(self.history.program[conflict.access]),
                element=self._element(region, int(units[conflict.index])),
            )
            remedy = note("sum-in-a-fixed-order")
            fault = self._fault("unordered-sum", "updates", site, [said], remedy)
            raise Wrong(fault.but(tensor=region.name))

    def _check_threads(
        self,
        region: Region,
        units: np.ndarray,
        number: int,
        verb: Verb,
        site: int,
        mask: np.ndarray,
        size: int,
    ) -> None:
        """Raise Wrong where other threads of this program stored what is loaded or stored here."""
        if verb == "updates":
            return
        ledger = region.storage.ledger
        if found := self.unfenced.meeting(ledger, units, mask, size):
            index, access = found
            before = self.sites[self.history.site[access]]
            said = note(
                "threads-meet",
                program=self.program,
                verb=verb,
                element=self._element(region, int(units[index])),
                file=before.file,
                line=before.line,
            )
            fault = self._fault("thread-race", verb, site, [said], note("place-a-barrier"))
            raise Wrong(fault.but(tensor=region.name))
        if verb == "writes":
            self.unfenced.note(ledger, units, mask, size, number)

    def _note_overwritten(self, region: Region, units: np.ndarray, site: int) -> None:
        """Take note where this program stored here, in the same line, what nothing loaded yet."""
        storage, ledger = region.storage, region.storage.ledger
        if storage.key in self.watch.given or ledger.touched.get("writes") != self.history.launch:
            return
        before = ledger.last["writes"][units]
        if before.max() < self._begun:
            return
        lost = before >= self._begun
        for kind in ("reads", "updates"):
            if kind in ledger.last:
                lost &= ledger.last[kind][units] < before
        first = int(lost.argmax())
        access, here = int(before[first]), (self.number, site)
        if lost[first] and (self.history.program[access], self.history.site[access]) == here:
            element = self._element(region, int(units[first]))
            line = self.sites[site].place_of(*ACCESS_CALLS["writes"])
            self.watch.overwritten = Overwritten(storage.key, element, self.program, line)

    def check_lanes(
        self, pointers: np.ndarray, mask: np.ndarray, values: np.ndarray, got: np.ndarray
    ) -> None:
        """Keep what is wrong where the store that was just made had two values for one element.

        A launch that ends raises it. What else is wrong comes first, since it tells more: lanes
        that run past a row meet those of the next one, and mostly another program's, too.

        values, got: what the lanes stored, and what is there now, as bits
        """
        lost = np.flatnonzero((values != got) & mask)
        if not lost.size or self.watch.record or self.lanes_met:
            return
        lane = int(lost[0])
        there = pointers.reshape(-1) == pointers.flat[lane]
        stayed = int(np.flatnonzero(there & mask.reshape(-1))[-1])
        region = self.space.windows[int(pointers.flat[lane]) >> WINDOW_BITS]
        offset = int(pointers.flat[lane]) - region.virtual
        lanes = [np.unravel_index(it, mask.shape) for it in (lane, stayed)]
        said = note(
            "lanes-meet",
            program=self.program,
            element=format_element(region, offset),
            lanes=[[int(index) for index in it] for it in lanes],
            count=int(np.count_nonzero(there & mask.reshape(-1))),
        )
        site, remedy = self.history.site[-1], note("one-lane-an-element")
        fault = self._fault("thread-race", "writes", site, [said], remedy)
        self.lanes_met = Wrong(fault.but(tensor=region.name))

    def _element(self, region: Region, unit: int) -> str:
        storage = region.storage
        return format_element(region, unit * storage.ledger.unit + storage.base - region.real)

    def _described(
        self, verb: Verb, site: int, pointers: np.ndarray, mask: np.ndarray, size: int
    ) -> Access:
        """Return an access with the variables of the learner's function that makes it."""
        frame = user_frame(self.code)
        variables = frame.f_locals if frame else {}
        return Access(
            verb, self.sites[site], self.program, self.launch, pointers, mask, size, variables
        )

    def _recorded(
        self,
        record: Recording,
        verb: Verb,
        site: int,
        pointers: np.ndarray,
        mask: np.ndarray,
        size: int,
    ) -> tuple[np.ndarray, Parts]:
        """Do as `_resolve`, record the access, and lead its lanes out of bounds nowhere."""
        if record.is_full:
            raise StopProgram
        outside = np.zeros(mask.shape, dtype=bool)
        while True:
            try:
                real, parts = self._resolve(pointers, mask & ~outside, size)
                break
            except _OutOfBounds as fault:
                outside |= fault.lanes
        access = self._described(verb, site, pointers, mask, size)
        record.note(self.space, self.number, access, outside)
        if outside.any():
            real = np.where(outside, np.uint64(record.nowhere.ctypes.data), real)
        return real, parts

    def _is_unwritten(self, region: Region, units: np.ndarray) -> bool:
        """Return whether programs that did not run should have stored what is loaded here."""
        last = region.storage.ledger.last
        return region.storage.key not in self.watch.given and not any(
            last[kind][units].any() for kind in ("writes", "updates") if kind in last
        )

    def _resolve(
        self, pointers: np.ndarray, mask: np.ndarray, size: int
    ) -> tuple[np.ndarray, Parts]:
        """Return real addresses, and the units of each tensor that the active lanes touch."""
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
            return self._resolve_lanes(pointers, mask, size, active)
        units = region.storage.ledger.units(active - region.origin, size)
        return pointers - region.shift, [(region, units)]

    def _resolve_lanes(
        self, pointers: np.ndarray, mask: np.ndarray, size: int, active: np.ndarray
    ) -> tuple[np.ndarray, Parts]:
        """Do as `_resolve` for lanes in several tensors, between elements or out of bounds."""
        lanes_of = np.flatnonzero(mask)
        real = np.array(pointers, order="C")
        parts: Parts = []
        for region, lanes in self.space.split(active):
            good = np.zeros(lanes.size, dtype=bool)
            if region:
                offset = region.offsets(active[lanes])
                good = region.holds(offset, size)
            if region is None or not good.all():
                bad = np.zeros(mask.size, dtype=bool)
                bad[lanes_of[lanes[~good]]] = True
                raise _OutOfBounds(region, bad.reshape(mask.shape))
            real.reshape(-1)[lanes_of[lanes]] -= region.shift
            units = region.storage.ledger.units(active[lanes] - region.origin, size)
            parts.append((region, units))
        return real, parts

    def _race(
        self,
        access: Access,
        site: int,
        region: Region,
        units: np.ndarray,
        conflict: data_races.Conflict,
    ) -> Fault:
        storage, verb = region.storage, access.verb
        address = int(units[conflict.index]) * storage.ledger.unit + storage.base
        element = format_element(region, address - region.real)
        other = self.launch.program(self.history.program[conflict.access])
        before = self.sites[self.history.site[conflict.access]]
        said = [
            note(
                "race",
                program=self.program,
                verb=verb,
                element=element,
                other=other,
                other_verb=conflict.verb,
                file=before.file,
                line=before.line,
            )
        ]
        shared = [
            view.name
            for view in self.space.windows.values()
            if view.storage is storage and view.holds(np.array([address - view.real]), 1).all()
        ]
        if len(shared) > 1:
            said.append(note("tensors-share-memory", names=shared))
        offset, same = address - region.real, site == self.history.site[conflict.access]
        why = None
        if {verb, conflict.verb} == {"reads", "writes"}:
            why = self.flags.explain(verb, conflict.access)
        why = why or meetings.explain(access, region, offset // region.itemsize, other, same)
        writes = verb == conflict.verb == "writes" and same
        if not why and writes and storage.ledger.last["writes"].size <= MAX_SEARCHED:
            why = _tiles_begin(region, units, conflict.access, (self.program, other))
            if why and why.id == "tile-covers-another":
                why = self._begins_among(region, units, conflict.access) or why
        said += [why] if why else []
        if "reads" in (verb, conflict.verb):
            stores = self.number if verb != "reads" else self.history.program[conflict.access]
            counts = self._is_loaded_by(stores, storage.ledger, int(units[conflict.index]))
        else:
            counts = stores_a_sum(self.sites[site])
        counts = counts and region.tensor.dtype in INTEGERS
        remedy = data_races.remedy(verb, conflict.verb, self.history.relaxed, counts)
        if why and why.id in REMEDIES:
            remedy = note(REMEDIES[why.id])
        if writes:
            if not why or why.id in OVERLAPS or _begin_close(why, self.program, other):
                remedy = _at_tile_numbers(access, other, region, units, conflict.index) or remedy
            if why and why.id == "tiles-begin":
                begin, one = why.values["begin"], why.values["one"]
                remedy = meetings.past_its_part(access, begin, one) or remedy
            remedy = wrong_address.not_transposed(access, limits_of(access)) or remedy
        elif why and why.id == "index-leads-into-another-row":
            remedy = wrong_address.not_transposed(access, limits_of(access)) or remedy
        return self._fault("race", verb, site, said, remedy).but(tensor=region.name)

    def _begins_among(self, region: Region, units: np.ndarray, earlier: int) -> Note | None:
        """Return where a tile begins among several that another program stored in this line."""
        history, last = self.history, region.storage.ledger.last["writes"]
        program, site = history.program[earlier], history.site[earlier]
        its = [
            number
            for number in np.unique(last)
            if number >= history.launch
            and (history.program[number], history.site[number]) == (program, site)
        ]
        stored = np.flatnonzero(np.isin(last, its))
        if not its or len(region.shape) != 1 or not stored[0] < units[0] <= stored[-1]:
            return None
        shift, size = region.storage.base - region.real, region.itemsize
        begin, first, end = (
            int(it * region.storage.ledger.unit + shift) // size
            for it in (units[0], stored[0], stored[-1])
        )
        other = self.launch.program(program)
        elements = {"begin": begin, "first": first, "end": end}
        return note("begins-among", program=self.program, other=other, **elements)

    def _is_loaded_by(self, program: int, ledger: data_races.Ledger, unit: int) -> bool:
        """Return whether a program of this launch was among the last two to load this unit."""
        last = [ledger.last[kind][unit] for kind in READS if kind in ledger.last]
        return any(
            access >= self.history.launch and self.history.program[access] == program
            for access in map(int, last)
        )

    def _fault(self, kind: str, verb: Verb, site: int, said: list[Note], remedy: Note) -> Fault:
        return Fault(
            kind,
            tuple(said),
            place=self.sites[site].place_of(*ACCESS_CALLS[verb]),
            program=self.program,
            grid=self.launch.grid,
            remedy=remedy,
        )

    def fill(self, mask: np.ndarray, dtype: np.dtype, element: tl.dtype) -> np.ndarray:
        """Return the values for masked-off lanes of a load without `other`."""
        site = self.sites[self.sites.current(self.code)]
        count = self.watch.loads_without_other
        place = (site.file, site.line)
        count[place] = count.get(place, 0) + int(np.count_nonzero(~mask))
        if self.watch.poison:
            return poisoned(mask, dtype, element)
        return np.zeros(mask.shape, dtype=dtype)

    def after_atomic(self, pointers: np.ndarray, result: np.ndarray, changed: np.ndarray) -> None:
        """Let other programs run if this one seems to wait: one line, again with the same result.

        Raises Wrong when every program that has not ended waits.

        changed: which active lanes changed what was there: others cannot know of any other
        """
        number, site = len(self.history.site) - 1, self.history.site[-1]
        for region, units in self._releasing:
            its = units
            if len(self._releasing) == 1:
                its = units.reshape(changed.size, -1)[changed].ravel()
            self.history.release(region.storage.ledger, its)
        # An atomic without active lanes touches nothing.
        self._releasing = []
        self.flags.found(number, result, bool(changed.any()))
        before = self._last_atomic
        self._last_atomic = (number, site, pointers, result)
        if (
            before[:2] != (number - 1, site)
            or not np.array_equal(result, before[3])
            or not np.array_equal(pointers, before[2])
        ):
            self._polls = self._polls_of_all = 0
            return
        self._polls += 1
        if self._polls % POLLS_BEFORE_YIELD:
            return
        self._polls_of_all += POLLS_BEFORE_YIELD
        most = POLLS_BEFORE_STARVING if self.turns.held_back else POLLS_BEFORE_DEADLOCK
        if self._polls_of_all > most * (self.turns.waiting + 1):
            said, remedy = note("waits-forever", program=self.program), note("release-every-lock")
            if late := self.turns.held_back:
                remedy = note("wait-for-earlier-programs")
                begun = math.prod(self.launch.grid) - late
                said = note("waits-for-later", program=self.program, begun=begun, late=late)
            raise Wrong(self._fault("deadlock", "updates", site, [said], remedy))
        program = self.number
        if self.turns.yield_turn():
            self._resume(program)
            self._last_atomic = (len(self.history.site) - 1, site, pointers, result)
            self._polls = 0


def _tiles_begin(
    region: Region, units: np.ndarray, earlier: int, programs: tuple[object, object]
) -> Note | None:
    """Return where along a dimension a tile begins into which an earlier one goes on.

    Or that it has all that the earlier one has.

    earlier: the number of the access that made the other one, and still has what it alone has
    programs: of this tile, and of the other one
    """
    ledger = region.storage.ledger
    ranges = []
    for its in (units, np.flatnonzero(ledger.last["writes"] == earlier)):
        if not len(its):
            return note("tile-covers-another", program=programs[0], other=programs[1])
        elements = its * ledger.unit + region.storage.base - region.real
        if ((elements < 0) | (elements >= region.extent)).any():
            return None
        found = region.coordinates(elements // region.itemsize)
        ranges.append([np.zeros(1, int) if it is None else np.unique(it) for it in found])
    apart = [dim for dim, (own, its) in enumerate(zip(*ranges, strict=True)) if own[0] != its[0]]
    if len(apart) != 1:
        return None
    (dim,) = apart
    own, its = (found[dim] for found in ranges)
    if its[0] > own[0] or any(it[-1] - it[0] >= len(it) for it in (own, its)):
        return None
    return note(
        "tiles-begin",
        begin=int(own[0]),
        program=programs[0],
        other_begin=int(its[0]),
        other=programs[1],
        one=noun(region.shape, dim, 1),
    )


def _begin_close(why: Note, *programs: tuple[int, int, int]) -> bool:
    """Return whether tiles begin no further apart than their programs' numbers."""
    if why.id != "tiles-begin":
        return False
    apart = why.values["begin"] - why.values["other_begin"]
    return apart <= sum(abs(one - other) for one, other in zip(*programs, strict=True))


def _at_tile_numbers(
    access: Access, other: tuple[int, int, int], region: Region, units: np.ndarray, first: int
) -> Note | None:
    """Say so if one of two tiles that overlap begins near the start, where its number may be meant.

    other: the other program
    first: the position among the units of this tile of the first one that the other has, too
    """
    elements = units * region.storage.ledger.unit + region.storage.base - region.real
    apart = (axis for axis in range(3) if access.program[axis] != other[axis])
    factors = [it for axis in apart for it in AddressSource(access).factors_of_program(axis)]
    sizes = [access.launch.arguments.get(name) for name in factors]
    for dim, index in enumerate(region.coordinates(elements // region.itemsize)):
        if index is None:
            continue
        length = int(index.max() - index.min()) + 1
        begin = max(int(index.min()), int(index[first]))
        # What is multiplied by the length of a tile is not taken for an index.
        if length & (length - 1) == 0 and 0 < 2 * begin < length and length not in sizes:
            return note(
                "tile-number-is-not-first-index",
                length=length,
                many=noun(region.shape, dim),
                begin=begin,
                one=noun(region.shape, dim, 1),
            )
    return None
