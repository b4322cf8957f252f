"""The budgets for traffic, and the messages for what exceeds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from judge.core.verdict import Wrong
from judge.memory.call_sites import ACCESS_CALLS
from judge.memory.traffic import Flow, Moved, TrafficMeter

# How many lines of a kernel a message names.
MAX_NAMED_LINES = 3

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

    def check(
        self,
        *,
        reads: Budget = None,
        writes: Budget = None,
        launches: int | None = None,
        sectors: Budget = None,
        grid_at_most: int | None = None,
        total_reads: float | None = None,
        total_writes: float | None = None,
        largest_write: int | None = None,
        dot_macs: float | None = None,
        scratch: float = SCRATCH_SHARE,
    ) -> None:
        """Raise Wrong, with everything that exceeds the budget.

        reads: how many times each tensor may be loaded, by name; one number is for every input
        writes: how many times each may be stored, by name; one number is for every result
        launches: how many kernels may be launched
        sectors: 32-byte sectors over the fewest possible, for the loads and the stores of each
            tensor, by name; one number is for all tensors. If a tensor may be loaded once, loads of
            some of its elements may touch as many sectors as loading all of it
        grid_at_most: how many programs a launch may have
        total_reads, total_writes: how many elements may be loaded or stored in all
        largest_write: how many elements a tensor that is stored to may have
        dot_macs: how many multiply-adds tl.dot may do
        scratch: how many elements may be loaded from and stored to memory that is neither an input
            nor a result, as a share of those of inputs and results
        """
        found = [
            *self._over_launches(launches),
            *self._over_times(reads, self.inputs, "loaded"),
            *self._over_times(writes, self.result_names, "stored"),
            *self._over_sectors(sectors, reads),
            *self._over_grid(grid_at_most),
            *self._over_total(total_reads, "loaded"),
            *self._over_total(total_writes, "stored"),
            *self._too_large(largest_write),
            *self._over_dots(dot_macs),
            *self._over_scratch(scratch),
        ]
        if found:
            raise Wrong("\n".join(found))

    def _over_launches(self, budget: int | None) -> Iterator[str]:
        if budget is not None and self.launches > budget:
            kernels = "1 kernel is" if self.launches == 1 else f"{self.launches} kernels are"
            names = ", ".join(self.kernels)
            yield f"{kernels} launched ({names}), but the budget is {budget}"

    def _over_times(self, budget: Budget, names: Iterable[str], direction: str) -> Iterator[str]:
        """names: the tensors that a budget of one number is for"""
        for name, times in _by_name(budget, names).items():
            moved = self.tensor(name)
            flow = getattr(moved, direction)
            if _exceeds(flow.times, times):
                yield (
                    f"{_title(name)} is {DONE[direction]} {_above(flow.times, times)} times, "
                    f"but the budget is {_number(times)} ({self._lines(moved, flow, direction)})"
                )

    def _lines(self, moved: Moved, flow: Flow, direction: str) -> str:
        """Format each line's share, the largest first."""
        lines = sorted(flow.lines.items(), key=lambda line: -line[1])
        return ", ".join(
            f"{self._call(site, direction)} {DOES[direction]} it "
            f"{_above(elements / moved.numel, 0)} times"
            for site, elements in lines[:MAX_NAMED_LINES]
        )

    def _call(self, site: int, direction: str) -> str:
        return f"{self.sites[site].short} {self.sites[site].call(*CALLS[direction])}"

    def _over_sectors(self, budget: Budget, reads: Budget) -> Iterator[str]:
        """reads: the budget of loads; see `check`"""
        loads = _by_name(reads, self.tensors)
        for name, ratio in _by_name(budget, self.tensors).items():
            moved = self.tensor(name)
            whole = moved.loaded.passes if loads.get(name, 0) >= 1 else moved.loaded.ratio
            for direction, least in (("loaded", whole), ("stored", moved.stored.ratio)):
                flow = getattr(moved, direction)
                if _exceeds(min(least, flow.ratio), ratio):
                    site = max(flow.lines, key=flow.lines.__getitem__)
                    yield (
                        f"{_title(name)} is {DONE[direction]} in sectors of which "
                        f"{100 / flow.ratio:.0f} % is used: {_above(flow.ratio, ratio)} times the "
                        f"minimum of 32-byte sectors, but the budget is {_number(ratio)} "
                        f"({self._call(site, direction)}): "
                        "neighbouring lanes must access neighbouring addresses"
                    )

    def _over_grid(self, budget: int | None) -> Iterator[str]:
        x, y, z = self.grid
        if budget is not None and x * y * z > budget:
            yield f"a launch has {x * y * z} programs, but the budget is {budget}"

    def _over_total(self, budget: float | None, direction: str) -> Iterator[str]:
        moved = {name: getattr(m, direction).elements for name, m in self.tensors.items()}
        total = sum(moved.values())
        if budget is not None and _exceeds(total, budget):
            parts = (f"{_title(name)} {_number(count)}" for name, count in moved.items() if count)
            yield (
                f"{_number(total)} elements are {direction} in all, "
                f"but the budget is {_number(budget)} ({', '.join(parts)})"
            )

    def _too_large(self, largest: int | None) -> Iterator[str]:
        for name, numel in sorted(self.stored_sizes):
            if largest is not None and numel > largest:
                yield (
                    f"{_title(name)} of {numel} elements is stored to, but no tensor of more than "
                    f"{largest} elements may be"
                )

    def _over_dots(self, budget: float | None) -> Iterator[str]:
        if budget is not None and _exceeds(self.dot_macs, budget):
            yield f"tl.dot does {self.dot_macs} multiply-adds, but the budget is {_number(budget)}"

    def _over_scratch(self, share: float) -> Iterator[str]:
        moved = {n: m.loaded.elements + m.stored.elements for n, m in self.tensors.items()}
        scratch = moved.pop("scratch", 0)
        budget = share * sum(moved.values())
        if _exceeds(scratch, budget):
            yield (
                f"{_number(scratch)} elements are stored to or loaded from memory that the "
                f"launcher allocated besides the result, but the budget is {_number(budget)}: "
                "what kernels hand on through memory is traffic too"
            )


def _exceeds(value: float, budget: float) -> bool:
    return value > budget + 1e-9


def _by_name(budget: Budget, names: Iterable[str]) -> dict[str, float]:
    if budget is None:
        return {}
    return budget if isinstance(budget, dict) else dict.fromkeys(names, budget)


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
