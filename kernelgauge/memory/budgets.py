"""The budgets for traffic, and what exceeds them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, repeat
from typing import Any, TypeVar

from kernelgauge.core.figure import Figure
from kernelgauge.core.verdict import Wrong
from kernelgauge.memory import excess
from kernelgauge.memory.call_sites import ACCESS_CALLS
from kernelgauge.memory.traffic import Flow, TrafficMeter
from kernelgauge.words.fault import Call, Fault, Note, note

# The kinds of what exceeds a budget, also the ids of what is said of it; the first one counts.
KINDS = ("too-few-programs", "uneven-work", "idle-programs")

T = TypeVar("T")
Budget = float | dict[str, float] | None
# What exceeds its budget, and what is said of it.
Excess = tuple[Figure, Note]

# The budget for memory that is neither input nor result, if a puzzle sets none.
SCRATCH_SHARE = 0.25

# The two flows of a `Moved`: what figures call them, and which calls make them.
DONE: dict[str, str] = {"loaded": "read", "stored": "written"}
CALLS: dict[str, tuple[str, ...]] = {
    "loaded": ACCESS_CALLS["reads"],
    "stored": ACCESS_CALLS["writes"] + ACCESS_CALLS["updates"],
}


class Traffic(TrafficMeter):
    """What one run of a subject moved, to be compared with a budget.

    call: what messages say of the run, where no test's name does
    wrong: raised where the run kept the budget with results that are wrong
    ahead: how often Gluon kernels stored or multiplied while a copy into shared memory was under
        way
    """

    call: Call | None = None
    ahead: int = 0
    wrong: Wrong | None = None

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
        moved = {n: m.loaded.elements + m.stored.elements for n, m in self.tensors.items()}
        own = moved.pop("scratch", 0)
        within = scratch * sum(moved.values()) if own else None
        found = [
            *self._over(
                Figure("launches", self.launches, launches),
                "too-many-launches",
                kernels=self.kernels,
            ),
            *self._over_times(reads, self.inputs, "loaded"),
            *self._over_times(writes, self.result_names, "stored"),
            *self._over_by_launch(reads_by_launch or {}),
            *self._over_sectors(sectors, reads),
            *self._over(
                Figure("programs of a launch", math.prod(self.grid), grid_at_most),
                "grid-too-large",
            ),
            *self._not_spread(programs_at_least, largest_share, idle),
            *self._over_distinct(distinct or {}),
            *self._over_total(total_reads, "loaded"),
            *self._over_total(total_writes, "stored"),
            *self._over_size(largest_write),
            *self._over(
                Figure("multiply-adds of tl.dot", self.dot_macs, dot_macs),
                "too-many-multiply-adds",
            ),
            *self._over(
                Figure("allocated beside the results", self.allocated, allocated, "bytes"),
                "too-much-allocated",
                tensors=self.allocations,
            ),
            *self._over(Figure("scratch moved", own, within, "elements"), "too-much-scratch"),
        ]
        if found:
            said = tuple(self._explained(it for _, it in found))
            ids = {it.id for it in said}
            raise Wrong(
                Fault(
                    next((kind for kind in KINDS if kind in ids), "too-much-traffic"),
                    said,
                    call=self.call,
                    numbers={it.name: [it.measured, it.limit] for it, _ in found},
                    remedy=next(self._remedies(reads, dot_macs), None),
                )
            )
        if self.wrong:
            raise self.wrong

    def _explained(self, said: Iterable[Note]) -> Iterator[Note]:
        """Yield what is said, and below it why; a reason of the same kind only once."""
        told: set[str] = set()
        for it in said:
            if it.id == "too-many-launches":
                told.add("launches-share-elements")
            yield it
            why = self._why(it)
            if why and why.id not in told:
                yield why
                told.add(why.id)

    def _why(self, said: Note) -> Note | None:
        """Return why a budget is exceeded, if what was counted shows it."""
        if said.id == "moved-too-often":
            name, way = said.values["tensor"], said.values["way"]
            limit = said.values["limit"]
            return excess.why(
                self.touched(name, way), self.grids, self.kernels, self._line, way, limit
            )
        if said.id == "too-much-scratch":
            return next(excess.handed_on(self.scratch_flows(), self.kernels, self._line), None)
        if said.id == "idle-programs":
            values = "kernel", "programs", "size", "block", "needed"
            grids = (dict(zip(values, it, strict=True)) for it in self.whole_grids())
            return next((note("grid-counts-blocks", **it) for it in grids), None)
        if said.id == "sectors-mostly-unused":
            return self._row(said.values["tensor"], said.values["way"])
        return None

    def _row(self, name: str, way: str) -> Note | None:
        """Return how few bytes of a row a tile has, on the line that moves most of a tensor."""
        flow: Flow = getattr(self.tensor(name), way)
        site = max(flow.lines, key=flow.lines.__getitem__)
        regions = [
            it.region
            for programs in self.touched(name, way)
            for touched in programs.values()
            for it in touched
            if it.site == site
        ]
        return excess.row_of(self.terms.get(site, []), regions[0]) if regions else None

    def _line(self, site: int) -> str:
        return self.sites[site].short

    def _exceeds(self, figure: Figure) -> bool:
        """Take note of a figure. Returns whether it is beyond its limit."""
        if figure.limit in (None, math.inf):
            return False
        self.figures.append(figure)
        limit = figure.limit or 0.0
        return figure.measured < limit if figure.at_least else _exceeds(figure.measured, limit)

    def _over(self, figure: Figure, id: str, **values: Any) -> list[Excess]:
        """Take note of a figure. Returns it with what is said of it if it exceeds its budget."""
        if not self._exceeds(figure):
            return []
        return [(figure, note(id, measured=figure.measured, limit=figure.limit, **values))]

    def _over_total(self, budget: float | None, direction: str) -> list[Excess]:
        moved = {name: getattr(m, direction).elements for name, m in self.tensors.items()}
        parts = [(name, count) for name, count in moved.items() if count]
        figure = Figure(f"{direction} in all", sum(moved.values()), budget, "elements")
        return self._over(figure, "too-much-in-all", way=direction, parts=parts)

    def _over_distinct(self, budgets: dict[str, float]) -> Iterator[Excess]:
        """Yield what neighbouring programs load twice; see `check`."""
        for name, times in budgets.items():
            which = f"{name} read, each element once a program"
            figure = Figure(which, self.distinct(name), times, "x")
            exceeds = figure.limit is not None and _exceeds(figure.measured, figure.limit)
            overlap = exceeds and self.overlap(name)
            yield from self._over(figure, "programs-load-the-same", tensor=name, overlap=overlap)

    def _over_size(self, largest: int | None) -> Iterator[Excess]:
        """Yield which tensors that are stored to have more elements than one may; see `check`."""
        for name, numel in sorted(self.stored_sizes):
            figure = Figure(f"size of {name}, stored to", numel, largest, "elements")
            yield from self._over(figure, "too-large-a-tensor", tensor=name)

    def _not_spread(
        self, at_least: int | None, share: float | None, idle: int | None
    ) -> Iterator[Excess]:
        """Yield how the work is not spread over programs; see `check`."""
        few = Figure("programs that work", self.programs, at_least, at_least=True)
        yield from self._over(few, "too-few-programs")
        largest = Figure("work of the busiest program", self.largest_share, share, "x the mean")
        yield from self._over(largest, "uneven-work")
        count = sum(map(math.prod, self.grids))
        without = Figure("programs without work", self.idle, idle)
        yield from self._over(without, "idle-programs", of=count)

    def _remedies(self, reads: Budget, dot_macs: float | None) -> Iterator[Note]:
        """Yield which loads could be left out."""
        excess = 0.0 if dot_macs is None else self.dot_macs - dot_macs
        # Of what is multiplied for nothing, one product in three at least has a tile of zeros.
        if 0 < excess < 4 * self.macs_of_zeros:
            yield note("skip-unused-tiles")
        for name, times in _by_name(reads, self.inputs, self.inputs).items():
            moved = self.tensor(name)
            if not _exceeds(moved.loaded.times, times):
                continue
            lines = sorted(moved.loaded.lines.items(), key=lambda line: line[1])
            fewer = moved.loaded.times - moved.loaded.share(lines[0][1])
            if len(lines) > 1 and not _exceeds(fewer, times):
                last = max(site for site, _ in lines)
                yield note("keep-what-was-loaded", call=self._call(last, "loaded"))
            elif len(lines) == 1 and self.dot_macs and self._is_shared(name, moved.loaded.times):
                yield note("larger-tiles", tensor=name)

    def _is_shared(self, name: str, times: float) -> bool:
        """Return whether programs load an input so often because several need the same of it."""
        same = name in self.inputs and not _exceeds(times, self.distinct(name))
        return same and not self.overlap(name)

    def _over_times(self, budget: Budget, names: Iterable[str], direction: str) -> Iterator[Excess]:
        """names: the tensors that a budget of one number is for"""
        for name, times in _by_name(budget, names, self.inputs).items():
            moved = self.tensor(name)
            flow: Flow = getattr(moved, direction)
            lines = sorted(flow.lines.items(), key=lambda line: -line[1])
            yield from self._over(
                Figure(f"{name} {DONE[direction]}", flow.times, times, "x"),
                "moved-too-often",
                tensor=name,
                way=direction,
                lines=[(self._call(site, direction), flow.share(n)) for site, n in lines],
            )

    def _over_by_launch(self, budgets: dict[str, Sequence[float]]) -> Iterator[Excess]:
        """Yield which launch loads an input more often than one may; see `check`."""
        for name, allowed in _each(budgets, self.inputs).items():
            loads = self.loads_by_launch(name)
            most_first = sorted(range(len(loads)), key=lambda launch: -loads[launch])
            most = chain(allowed, repeat(0.0))
            for launch, times in zip(most_first, most, strict=False):
                kernel = self.kernels[launch]
                which = f"{name} read by {kernel}, launch {launch + 1}"
                excess = self._over(
                    Figure(which, loads[launch], times, "x"),
                    "loaded-too-often-by-launch",
                    tensor=name,
                    kernel=kernel,
                    launch=launch + 1,
                    launches=len(loads),
                    allowed=list(allowed),
                )
                if excess:
                    yield from excess
                    break

    def _over_sectors(self, budget: Budget, reads: Budget) -> Iterator[Excess]:
        """reads: the budget of loads; see `check`"""
        loads = _by_name(reads, self.tensors, self.inputs)
        for name, ratio in _by_name(budget, self.tensors, self.inputs).items():
            moved = self.tensor(name)
            whole = moved.loaded.passes if loads.get(name, 0) >= 1 else moved.loaded.ratio
            for direction, least in (("loaded", whole), ("stored", moved.stored.ratio)):
                flow: Flow = getattr(moved, direction)
                if not flow.elements:
                    continue
                which = f"sectors of {name} {DONE[direction]}"
                yield from self._over(
                    Figure(which, min(least, flow.ratio), ratio, "x the fewest"),
                    "sectors-mostly-unused",
                    tensor=name,
                    way=direction,
                    ratio=flow.ratio,
                    run=flow.bytes / flow.runs,
                    scattered=flow.elements < 2 * flow.runs,
                    call=self._call(max(flow.lines, key=flow.lines.__getitem__), direction),
                )

    def _call(self, site: int, direction: str) -> str:
        return f"{self.sites[site].short} {self.sites[site].call(*CALLS[direction])}"


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
