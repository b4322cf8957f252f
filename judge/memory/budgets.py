"""What traffic may cost: each kind of budget, and what a learner reads who is over it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from judge.memory.coordinates import CALLS

if TYPE_CHECKING:
    from judge.memory.traffic import Flow, Moved, Traffic

# Lines of a kernel that a message names.
NAMED = 3

Budget = float | dict[str, float] | None


def over_times(traffic: Traffic, budget: Budget, names: Iterable[str], verb: str) -> list[str]:
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


def _lines(traffic: Traffic, flow: Flow, moved: Moved, verb: str) -> str:
    """Each line's share, the largest first."""
    does = {"read": "reads", "written": "writes"}[verb]
    lines = sorted(flow.lines.items(), key=lambda line: -line[1])
    return ", ".join(
        f"{_call(traffic, site, verb)} {does} it {_above(elements / moved.numel, 0)} times"
        for site, elements in lines[:NAMED]
    )


def _call(traffic: Traffic, site: int, verb: str) -> str:
    calls = CALLS["reads"] if verb == "read" else CALLS["writes"] + CALLS["updates"]
    return f"{traffic.sites[site].short} {traffic.sites[site].call(*calls)}"


def over_sectors(traffic: Traffic, budget: Budget, reads: Budget) -> list[str]:
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


def over_launches(traffic: Traffic, budget: int | None) -> list[str]:
    """More kernels launched than the budget says."""
    if budget is None or traffic.launches <= budget:
        return []
    kernels = ", ".join(traffic.kernels)
    count = "1 kernel is" if traffic.launches == 1 else f"{traffic.launches} kernels are"
    return [f"{count} launched ({kernels}), the budget is {budget}"]


def over_grid(traffic: Traffic, budget: int | None) -> list[str]:
    """A launch of more programs than the budget says."""
    x, y, z = traffic.grid
    if budget is None or x * y * z <= budget:
        return []
    return [f"a launch has {x * y * z} programs, the budget is {budget}"]


def over_total(traffic: Traffic, budget: float | None, verb: str) -> list[str]:
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


def too_large(traffic: Traffic, largest: int | None) -> list[str]:
    """Tensors of more elements than this that are stored to."""
    return [
        f"{_title(name)} of {numel} elements is stored to; "
        f"no tensor of more than {largest} elements may be"
        for name, numel in sorted(traffic.stored_sizes)
        if largest is not None and numel > largest
    ]


def over_dots(traffic: Traffic, budget: float | None) -> list[str]:
    """More multiply-adds through tl.dot than the budget says."""
    if budget is None or not _exceeds(traffic.dot_macs, budget):
        return []
    return [f"tl.dot does {traffic.dot_macs} multiply-adds, the budget is {_number(budget)}"]


def over_scratch(traffic: Traffic, part: float) -> list[str]:
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
