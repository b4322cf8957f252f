"""The budgets for traffic, and the messages for what exceeds them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, repeat
from typing import TypeVar

from kernelgauge.core.figure import Figure
from kernelgauge.core.verdict import Wrong
from kernelgauge.memory.call_sites import ACCESS_CALLS
from kernelgauge.memory.traffic import Flow, TrafficMeter

# How many lines of a kernel a message names.
MAX_NAMED_LINES = 3

# How many tensors that a launcher allocated a message names, the largest first.
MAX_NAMED_TENSORS = 4

T = TypeVar("T")
Budget = float | dict[str, float] | None

# The budget for memory that is neither input nor result, if a puzzle sets none.
SCRATCH_SHARE = 0.25

# The two flows of a `Moved`: what was done to the tensor, what a line does, and by which calls.
DONE: dict[str, str] = {"loaded": "read", "stored": "written"}
DOES: dict[str, str] = {"loaded": "reads", "stored": "writes"}
CALLS: dict[str, tuple[str, ...]] = {
    "loaded": ACCESS_CALLS["reads"],
    "stored": ACCESS_CALLS["writes"] + ACCESS_CALLS["updates"],
}


class Traffic(TrafficMeter):
    """What one run of a subject moved, to be compared with a budget."""

    @cached_property
    def figures(self) -> list[Figure]:
        """What `check` has compared so far."""
        return []

    def check(
        self,
        *,
        reads: Budget = None,
        writes: Budget = None,
        reads_by_launch: dict[str, Sequence[float]] | None = None,
        launches: int | None = None,
        sectors: Budget = None,
        grid_at_most: int | None = None,
        programs_at_least: int | None = None,
        largest_share: float | None = None,
        idle: int | None = None,
        distinct: dict[str, float] | None = None,
        total_reads: float | None = None,
        total_writes: float | None = None,
        largest_write: int | None = None,
        dot_macs: float | None = None,
        allocated: int | None = None,
        scratch: float = SCRATCH_SHARE,
    ) -> None:
        """Raise Wrong, with everything that exceeds the budget.

        reads: how many times each tensor may be loaded, by name; one number is for every input.
            The name of a list of tensors is for each of them
        writes: how many times each may be stored, by name; one number is for every result
        reads_by_launch: how many times each launch may load an input, by name: the launch that
            loads it most often first, whatever the order of the launches, and any after the last
            named not at all
        launches: how many kernels may be launched
        sectors: 32-byte sectors over the fewest possible, for the loads and the stores of each
            tensor, by name; one number is for all tensors. If a tensor may be loaded once, loads of
            some of its elements may touch as many sectors as loading all of it
        grid_at_most: how many programs a launch may have
        programs_at_least: how many programs the launch must have that does the most multiply-adds
            in tl.dot, or the largest launch if none does any
        largest_share: the multiply-adds of the busiest program over the mean of its launch
        idle: how many programs may neither load nor store anything
        distinct: how many times an input may be moved, by name, if each program moves each of its
            bytes once: what neighbours load twice because their tiles overlap
        total_reads, total_writes: how many elements may be loaded or stored in all
        largest_write: how many elements a tensor that is stored to may have
        dot_macs: how many multiply-adds tl.dot may do
        allocated: how many bytes the launcher may allocate beside the results, freed or not
        scratch: how many elements may be loaded from and stored to memory that is neither an input
            nor a result, as a share of those of inputs and results
        """
        tensors = self.tensors
        launched = "1 kernel is" if self.launches == 1 else f"{self.launches} kernels are"
        programs = math.prod(self.grid)
        moved = {n: m.loaded.elements + m.stored.elements for n, m in tensors.items()}
        own = moved.pop("scratch", 0)
        found = [
            *self._over(
                Figure("launches", self.launches, launches),
                f"{launched} launched ({', '.join(self.kernels)})",
            ),
            *self._over_times(reads, self.inputs, "loaded"),
            *self._over_times(writes, self.result_names, "stored"),
            *self._over_by_launch(reads_by_launch or {}),
            *self._over_sectors(sectors, reads),
            *self._over(
                Figure("programs of a launch", programs, grid_at_most),
                f"a launch has {programs} programs",
            ),
            *self._not_spread(programs_at_least, largest_share, idle),
            *self._over_distinct(distinct or {}),
            *self._over_total(total_reads, "loaded"),
            *self._over_total(total_writes, "stored"),
            *self._over_size(largest_write),
            *self._over(
                Figure("multiply-adds of tl.dot", self.dot_macs, dot_macs),
                f"tl.dot does {self.dot_macs} multiply-adds",
            ),
            *self._over(
                Figure("allocated beside the results", self.allocated, allocated, "bytes"),
                f"the launcher allocates {self.allocated} bytes beside what it returns",
                f" ({_listed(self.allocations)})",
            ),
            *self._over(
                Figure(
                    "scratch moved", own, scratch * sum(moved.values()) if own else None, "elements"
                ),
                f"{_number(own)} elements are stored to or loaded from memory that the launcher "
                "allocated besides the result",
                ": what kernels hand on through memory is traffic too",
            ),
        ]
        if found:
            hints = (f"hint: {hint}" for hint in self._hints(reads, dot_macs))
            raise Wrong("\n".join([*found, *list(hints)[:1]]))

    def _exceeds(self, figure: Figure) -> bool:
        """Take note of a figure. Returns whether it is beyond its limit."""
        if figure.limit in (None, math.inf):
            return False
        self.figures.append(figure)
        limit = figure.limit or 0.0
        return figure.measured < limit if figure.at_least else _exceeds(figure.measured, limit)

    def _over(self, figure: Figure, what: str, more: str = "") -> list[str]:
        """Take note of a figure. Returns a message if it exceeds its budget."""
        if not self._exceeds(figure):
            return []
        return [f"{what}, but the budget is {_number(figure.limit or 0)}{more}"]

    def _over_total(self, budget: float | None, direction: str) -> list[str]:
        moved = {name: getattr(m, direction).elements for name, m in self.tensors.items()}
        parts = ", ".join(
            f"{_title(name)} {_number(count)}" for name, count in moved.items() if count
        )
        figure = Figure(f"{direction} in all", sum(moved.values()), budget, "elements")
        what = f"{_number(figure.measured)} elements are {direction} in all"
        return self._over(figure, what, f" ({parts})")

    def _over_distinct(self, budgets: dict[str, float]) -> Iterator[str]:
        """Say what neighbouring programs load twice; see `check`."""
        for name, times in budgets.items():
            found = self.distinct(name)
            yield from self._over(
                Figure(f"{name} read, each element once a program", found, times, "x"),
                f"the programs together load {name} {_above(found, times)} times, each element "
                "once a program",
                ": longer tiles overlap less",
            )

    def _over_size(self, largest: int | None) -> Iterator[str]:
        """Say which tensors that are stored to have more elements than one may; see `check`."""
        for name, numel in sorted(self.stored_sizes):
            if self._exceeds(Figure(f"size of {name}, stored to", numel, largest, "elements")):
                yield (
                    f"{_title(name)} of {numel} elements is stored to, but no tensor of more than "
                    f"{largest} elements may be"
                )

    def _not_spread(
        self, at_least: int | None, share: float | None, idle: int | None
    ) -> Iterator[str]:
        """Say how the work is not spread over programs; see `check`."""
        if self._exceeds(Figure("programs that work", self.programs, at_least, at_least=True)):
            many = "1 program does" if self.programs == 1 else f"{self.programs} programs do"
            yield f"{many} the work, but the spec asks for at least {at_least} programs"
        largest = Figure("work of the busiest program", self.largest_share, share, "x the mean")
        if self._exceeds(largest):
            yield (
                f"the busiest program does {_above(self.largest_share, share or 0)} times as many "
                f"multiply-adds as the mean, at most {_number(share or 0)} are allowed"
            )
        if self._exceeds(Figure("programs without work", self.idle, idle)):
            yield (
                f"{self.idle} of {sum(map(math.prod, self.grids))} programs neither load nor store "
                f"anything, at most {idle} may be without work"
            )

    def _hints(self, reads: Budget, dot_macs: float | None) -> Iterator[str]:
        """Say which loads could be left out."""
        if dot_macs is not None and _exceeds(self.dot_macs, dot_macs):
            yield (
                "whole tiles are loaded and multiplied of which nothing is used: let the loop "
                "begin and end where the mask does"
            )
        for name, times in _by_name(reads, self.inputs, self.inputs).items():
            moved = self.tensor(name)
            if not _exceeds(moved.loaded.times, times):
                continue
            lines = sorted(moved.loaded.lines.items(), key=lambda line: line[1])
            fewer = moved.loaded.times - lines[0][1] / moved.numel
            if len(lines) > 1 and not _exceeds(fewer, times):
                last = max(site for site, _ in lines)
                yield (
                    f"{self._call(last, 'loaded')} loads what was loaded before: keep it, or do "
                    "in one pass what takes two"
                )
            elif len(lines) == 1 and self.dot_macs:
                yield (
                    f"every tile of the result that needs {name} loads it again: larger tiles of "
                    "the result share more of it"
                )

    def _over_times(self, budget: Budget, names: Iterable[str], direction: str) -> Iterator[str]:
        """names: the tensors that a budget of one number is for"""
        for name, times in _by_name(budget, names, self.inputs).items():
            moved = self.tensor(name)
            flow: Flow = getattr(moved, direction)
            if not self._exceeds(Figure(f"{name} {DONE[direction]}", flow.times, times, "x")):
                continue
            lines = sorted(flow.lines.items(), key=lambda line: -line[1])
            shares = ", ".join(
                f"{self._call(site, direction)} {DOES[direction]} it "
                f"{_above(elements / moved.numel, 0)} times"
                for site, elements in lines[:MAX_NAMED_LINES]
            )
            yield (
                f"{_title(name)} is {DONE[direction]} {_above(flow.times, times)} times, "
                f"but the budget is {_number(times)} ({shares})"
            )

    def _over_by_launch(self, budgets: dict[str, Sequence[float]]) -> Iterator[str]:
        """Say which launch loads an input more often than one may; see `check`."""
        for name, allowed in _each(budgets, self.inputs).items():
            loads = self.loads_by_launch(name)
            most_first = sorted(range(len(loads)), key=lambda launch: -loads[launch])
            most = chain(allowed, repeat(0.0))
            for launch, times in zip(most_first, most, strict=False):
                which = f"{name} read by {self.kernels[launch]}, launch {launch + 1}"
                if not self._exceeds(Figure(which, loads[launch], times, "x")):
                    continue
                yield (
                    f"{name} is read {_above(loads[launch], times)} times by one launch "
                    f"({self.kernels[launch]}, launch {launch + 1} of {len(loads)}), but the "
                    f"budget is {_number(times)}: by launch {name} may be read "
                    f"{', '.join(map(_number, allowed))} times, in any order"
                )
                break

    def _over_sectors(self, budget: Budget, reads: Budget) -> Iterator[str]:
        """reads: the budget of loads; see `check`"""
        loads = _by_name(reads, self.tensors, self.inputs)
        for name, ratio in _by_name(budget, self.tensors, self.inputs).items():
            moved = self.tensor(name)
            whole = moved.loaded.passes if loads.get(name, 0) >= 1 else moved.loaded.ratio
            for direction, least in (("loaded", whole), ("stored", moved.stored.ratio)):
                flow: Flow = getattr(moved, direction)
                if not flow.elements:
                    continue
                figure = Figure(
                    f"sectors of {name} {DONE[direction]}",
                    min(least, flow.ratio),
                    ratio,
                    "x the fewest",
                )
                if not self._exceeds(figure):
                    continue
                site = max(flow.lines, key=flow.lines.__getitem__)
                yield (
                    f"{_title(name)} is {DONE[direction]} in sectors of which "
                    f"{100 / flow.ratio:.0f} % is used: {_above(flow.ratio, ratio)} times the "
                    f"minimum of 32-byte sectors, but the budget is {_number(ratio)} "
                    f"({self._call(site, direction)}): "
                    "neighbouring lanes must access neighbouring addresses"
                )

    def _call(self, site: int, direction: str) -> str:
        return f"{self.sites[site].short} {self.sites[site].call(*CALLS[direction])}"


def _listed(items: list[str]) -> str:
    """Name the first few, and count the others."""
    more = len(items) - MAX_NAMED_TENSORS
    return ", ".join(items[:MAX_NAMED_TENSORS]) + (f" and {more} more" if more > 0 else "")


def _exceeds(value: float, budget: float) -> bool:
    return value > budget + 1e-9


def _by_name(budget: Budget, names: Iterable[str], inputs: Iterable[str]) -> dict[str, float]:
    """Return the budget of each tensor; a list among the inputs is each tensor of it."""
    if budget is None:
        return {}
    return _each(budget, inputs) if isinstance(budget, dict) else dict.fromkeys(names, budget)


def _each(budgets: dict[str, T], inputs: Iterable[str]) -> dict[str, T]:
    """Return the same budgets, with the tensors of a list in place of its name."""
    expanded = {}
    for name, value in budgets.items():
        listed = [each for each in inputs if each.startswith(f"{name}[")]
        expanded.update(dict.fromkeys(listed or [name], value))
    return expanded


def _title(name: str) -> str:
    return f"the {name}" if name == "result" else name


def _number(value: float) -> str:
    return f"{value:.10g}"


def _above(value: float, budget: float) -> str:
    """Format a number with as many decimals as show it to be above the budget, at least one."""
    for decimals in range(1, 6):
        text = f"{value:.{decimals}f}"
        if float(text) > budget:
            break
    return text
