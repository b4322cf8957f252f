"""Why flags do not order two programs: who raised which one when, and who looked at which one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelgauge.core.launch import Launch
from kernelgauge.memory.addresses import Region
from kernelgauge.memory.call_sites import CallSites, Verb
from kernelgauge.memory.coordinates import format_element
from kernelgauge.memory.data_races import ACQUIRING, RELEASING, History
from kernelgauge.words.fault import Note, note

# Of launches with more atomics nothing is told.
MAX_NOTED = 2**14

REMEDIES = {
    "flag-of-another": "wait-for-its-flag",
    "flag-before-the-store": "wait-for-all-flags",
    "flag-raised-too-early": "raise-it-after-the-store",
    "flag-set-from-the-start": "zero-flags-each-time",
    "flag-not-awaited": "wait-in-a-loop",
    "flag-ignored": "wait-for-its-flag",
}


@dataclass
class Atomic:
    """An atomic on one element: the number of its access, its program, and what it found there.

    changed: whether it left something else there; an atomic store may have
    """

    number: int
    program: int
    order: str
    element: str
    found: complex | None = None
    changed: bool = True

    def is_repeated_by(self, other: Atomic) -> bool:
        """Return whether it only waits, and another goes on with that."""
        return not self.changed and (self.program, self.order, self.element, self.found) == (
            other.program,
            other.order,
            other.element,
            other.found,
        )


class Flags:
    """The atomics on single elements of one launch that order something, as they were made."""

    def __init__(self, history: History, sites: CallSites, launch: Launch) -> None:
        self._history, self._sites, self._launch = history, sites, launch
        self._noted: list[Atomic] = []
        self._are_all_noted = True

    def note(self, number: int, order: str, region: Region, units: np.ndarray, lanes: int) -> None:
        """Take note of an atomic before it happens.

        units, lanes: what it touches, and in how many lanes
        """
        storage = region.storage
        is_flag = lanes == 1 and storage.ledger.touched.get("writes") != self._history.launch
        if not is_flag or order == "RELAXED" or len(self._noted) > MAX_NOTED:
            self._are_all_noted = False
            return
        unit = int(units[0])
        element = format_element(region, unit * storage.ledger.unit + storage.base - region.real)
        self._noted.append(Atomic(number, self._history.current, order, element))

    def found(self, number: int, result: np.ndarray, changed: bool) -> None:
        """Take note of what the atomic of this access found. Of those that wait one stays."""
        if not self._noted or self._noted[-1].number != number:
            return
        last = self._noted[-1]
        last.found, last.changed = result.flat[-1].item(), changed
        if len(self._noted) > 1 and self._noted[-2].is_repeated_by(last):
            del self._noted[-2]

    def explain(self, verb: Verb, earlier: int) -> Note | None:
        """Return why no flag orders an access and an earlier one, one a load and one a store.

        verb: of the access that is made now
        earlier: the number of the other one
        """
        now = len(self._history.site) - 1
        load, store = (now, earlier) if verb == "reads" else (earlier, now)
        reader, writer = (self._history.program[it] for it in (load, store))
        if not self._are_all_noted:
            return None
        looked = [it for it in self._noted if it.program == reader and it.number < load]
        changes = [it for it in self._noted if it.changed]
        raised = [it for it in changes if it.program == writer and it.order in RELEASING]
        programs = {"reader": self._launch.program(reader), "writer": self._launch.program(writer)}
        at = {it.element for it in looked}
        early = [it for it in raised if it.number < store and it.element in at]
        after = [it for it in raised if it.number > store]
        if not looked and after:
            line = self._line(after[0])
            return note("flag-ignored", element=after[0].element, line=line, **programs)
        if not looked or not all(it.order in ACQUIRING for it in looked):
            return None
        if early and not after:
            line = self._line(early[-1])
            return note("flag-raised-too-early", element=early[-1].element, line=line, **programs)
        last = looked[-1]
        if len(at) > 1 or any(it.element in at for it in after):
            return None
        others = [it for it in changes if it.element == last.element and it.number < last.number]
        said: dict[str, object] = {"element": last.element, "line": self._line(last), **programs}
        if not others:
            kind = "flag-set-from-the-start" if last.found else "flag-not-awaited"
            return note(kind, found=last.found, **said)
        by = others[-1].program
        if by in (writer, reader):
            return None
        said["by"] = self._launch.program(by)
        if verb == "writes":
            return note("flag-before-the-store", found=last.found, **said)
        return note("flag-of-another", own=after[-1].element, **said) if after else None

    def _line(self, atomic: Atomic) -> int:
        return self._sites[self._history.site[atomic.number]].line
