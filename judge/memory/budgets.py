"""What traffic may cost: each kind of budget, and what a learner reads who is over it."""

from __future__ import annotations

from collections.abc import Iterable

from judge.core.verdict import Wrong
from judge.memory.coordinates import ACCESS_CALLS
from judge.memory.traffic import Flow, Moved, TrafficMeter

# Lines of a kernel that a message names.
MAX_NAMED_LINES = 3

Budget = float | dict[str, float] | None

# What passes through memory beside inputs and results, where a puzzle does not say otherwise.
SCRATCH_SHARE = 0.25


class Traffic(TrafficMeter):
    """What one run of a subject moved, and whether a budget allows it."""

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
        """Hold the traffic to a budget. Raises Wrong, with everything that is over it.

        reads: how many times each tensor may be loaded, by name; one number is for every input
        writes: how many times each may be stored, by name; one number is for every result
        launches: how many kernels may be launched
        sectors: 32-byte sectors over the least possible, of the loads and of the stores of each
            tensor, by name; one number is for all tensors. Where a tensor may be loaded once, loads
            of some of its elements may touch as many sectors as a load of all
        grid_at_most: how many programs a launch may have
        total_reads, total_writes: elements that may be loaded or stored in all
        largest_write: no tensor of more elements may be stored to
        dot_macs: multiply-adds through tl.dot
        scratch: elements loaded from and stored to memory that is neither an input nor a result, as
            a part of those of inputs and results
        """
        found = [
            *over_launches(self, launches),
            *over_times(self, reads, self.inputs, "read"),
            *over_times(self, writes, self.result_names(), "written"),
            *over_sectors(self, sectors, reads),
            *over_grid(self, grid_at_most),
            *over_total(self, total_reads, "loaded"),
            *over_total(self, total_writes, "stored"),
            *too_large(self, largest_write),
            *over_dots(self, dot_macs),
            *over_scratch(self, scratch),
        ]
        if found:
            raise Wrong("\n".join(found))


def over_times(traffic: TrafficMeter, budget: Budget, names: Iterable[str], verb: str) -> list[str]:
    """Tensors that are "read" or "written" more often than the budget says.

    names: of the tensors that a budget of one number is for
    """
    found = []
    for name, times in _by_name(budget, names).items():
        moved = traffic.tensor(name)
        flow = moved.loaded if verb == "read" else moved.stored
        if _exceeds(flow.times, times):
            found.append(
                f"{_title(name)} is {verb} {_above(flow.times, times)} times, "
                f"the budget is {_number(times)} ({_lines(traffic, flow, moved, verb)})"
            )
    return found


def _lines(traffic: TrafficMeter, flow: Flow, moved: Moved, verb: str) -> str:
    """Each line's share, the largest first."""
    does = {"read": "reads", "written": "writes"}[verb]
    lines = sorted(flow.lines.items(), key=lambda line: -line[1])
    return ", ".join(
        f"{_call(traffic, site, verb)} {does} it {_above(elements / moved.numel, 0)} times"
        for site, elements in lines[:MAX_NAMED_LINES]
    )


def _call(traffic: TrafficMeter, site: int, verb: str) -> str:
    calls = (
        ACCESS_CALLS["reads"]
        if verb == "read"
        else ACCESS_CALLS["writes"] + ACCESS_CALLS["updates"]
    )
    return f"{traffic.sites[site].short} {traffic.sites[site].call(*calls)}"


def over_sectors(traffic: TrafficMeter, budget: Budget, reads: Budget) -> list[str]:
    """Tensors of which too many sectors are touched for the bytes that are wanted.

    reads: the budget of loads; see Traffic.check
    """
    found = []
    loads = _by_name(reads, traffic.tensors)
    for name, ratio in _by_name(budget, traffic.tensors).items():
        moved = traffic.tensor(name)
        for flow, verb in ((moved.loaded, "read"), (moved.stored, "written")):
            least = flow.ratio
            if verb == "read" and loads.get(name, 0) >= 1:
                least = min(least, flow.passes)
            if _exceeds(least, ratio):
                site = max(flow.lines, key=flow.lines.__getitem__)
                found.append(
                    f"{_title(name)} is {verb} in sectors of which {100 / flow.ratio:.0f} % is "
                    f"used: {_above(flow.ratio, ratio)} times the minimum of 32-byte sectors, "
                    f"the budget is {_number(ratio)} ({_call(traffic, site, verb)}): "
                    "neighbouring lanes must touch neighbouring addresses"
                )
    return found


def over_launches(traffic: TrafficMeter, budget: int | None) -> list[str]:
    """More kernels launched than the budget says."""
    if budget is None or traffic.launches <= budget:
        return []
    kernels = ", ".join(traffic.kernels)
    count = "1 kernel is" if traffic.launches == 1 else f"{traffic.launches} kernels are"
    return [f"{count} launched ({kernels}), the budget is {budget}"]


def over_grid(traffic: TrafficMeter, budget: int | None) -> list[str]:
    """A launch of more programs than the budget says."""
    x, y, z = traffic.grid
    if budget is None or x * y * z <= budget:
        return []
    return [f"a launch has {x * y * z} programs, the budget is {budget}"]


def over_total(traffic: TrafficMeter, budget: float | None, verb: str) -> list[str]:
    """More elements "loaded" or "stored", of all tensors together, than the budget says."""
    flows = {
        name: moved.loaded if verb == "loaded" else moved.stored
        for name, moved in traffic.tensors.items()
    }
    total = sum(flow.elements for flow in flows.values())
    if budget is None or not _exceeds(total, budget):
        return []
    parts = (f"{_title(n)} {_number(flow.elements)}" for n, flow in flows.items() if flow.elements)
    return [
        f"{_number(total)} elements are {verb} in all, the budget is {_number(budget)} "
        f"({', '.join(parts)})"
    ]


def too_large(traffic: TrafficMeter, largest: int | None) -> list[str]:
    """Tensors of more elements than this that are stored to."""
    return [
        f"{_title(name)} of {numel} elements is stored to; "
        f"no tensor of more than {largest} elements may be"
        for name, numel in sorted(traffic.stored_sizes)
        if largest is not None and numel > largest
    ]


def over_dots(traffic: TrafficMeter, budget: float | None) -> list[str]:
    """More multiply-adds through tl.dot than the budget says."""
    if budget is None or not _exceeds(traffic.dot_macs, budget):
        return []
    return [f"tl.dot does {traffic.dot_macs} multiply-adds, the budget is {_number(budget)}"]


def over_scratch(traffic: TrafficMeter, part: float) -> list[str]:
    """More traffic with memory of the subject's own than this part of that with the others."""
    moved = {n: m.loaded.elements + m.stored.elements for n, m in traffic.tensors.items()}
    own = moved.pop("scratch", 0)
    most = part * sum(moved.values())
    if not _exceeds(own, most):
        return []
    return [
        f"{_number(own)} elements are stored to or loaded from memory that the launcher allocated "
        f"beside the result, the budget is {_number(most)}: what passes through memory between "
        "kernels is traffic too"
    ]


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
    """A number with as many decimals as it takes to see it above the budget, one at least."""
    for decimals in range(1, 6):
        text = f"{value:.{decimals}f}"
        if float(text) > budget:
            break
    return text
