"""What was made of a kernel, as a table to read: a line for each figure, a column for each GPU."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterable, Sequence

from kernelgauge.compilation.ahead_of_time import Compiled, DoesNotFit, Loop
from kernelgauge.compilation.targets import find_target
from kernelgauge.core.verdict import Wrong
from kernelgauge.words.tables import aligned

# So that with two GPUs a line has 80 characters, if nothing takes more.
TITLE_WIDTH, COLUMN_WIDTH = 30, 25
MAX_COLUMNS = 3
# Loops that are named; the others are counted.
MAX_LOOPS = 4


def sheet(outcomes: dict[str, Compiled | Wrong]) -> list[str]:
    """Return the table of one kernel. outcomes: what was made of it, by target"""
    names = list(outcomes)
    parts = [names[start : start + MAX_COLUMNS] for start in range(0, len(names), MAX_COLUMNS)]
    return [line for part in parts for line in _columns({name: outcomes[name] for name in part})]


def _columns(outcomes: dict[str, Compiled | Wrong]) -> list[str]:
    made = {name: one for name, one in outcomes.items() if isinstance(one, Compiled)}
    rows = [("", {name: str(find_target(name)) for name in outcomes})]
    rows += [(title, {name: cell(one) for name, one in made.items()}) for title, cell in CELLS]
    rare = [(title, {name: cell(one) for name, one in made.items()}) for title, cell in RARE]
    rows += [row for row in rare if any(row[1].values())]
    rows += _loops(made)
    rows[1][1].update({name: why_not(one) for name, one in outcomes.items() if name not in made})
    least = [TITLE_WIDTH - 1] + [COLUMN_WIDTH - 1] * len(outcomes)
    cells = [[title, *(row.get(name, "") for name in outcomes)] for title, row in rows]
    return aligned(cells, gap=1, least=least)


def why_not(fault: Compiled | Wrong) -> str:
    """Say in a few words why there is no kernel."""
    return "does not fit" if isinstance(fault, DoesNotFit) else "does not compile"


def programs(one: Compiled) -> str:
    """Say how many programs a multiprocessor holds at a time."""
    assert one.occupancy
    most = find_target(one.target).warps
    return f"{one.occupancy.programs} ({one.occupancy.programs * one.num_warps} of {most} warps)"


def limits(one: Compiled) -> str:
    """Say what limits that."""
    assert one.occupancy
    return ", ".join(one.occupancy.limits)


def size(number: int) -> str:
    """Return a number of bytes to read: 96 bytes, 72 KB."""
    return f"{number / 1024:.4g} KB" if number >= 1024 else f"{number} bytes" if number else "0"


def _shared(one: Compiled) -> str:
    return f"{size(one.shared)} of {find_target(one.target).shared // 1024} KB"


def _widths(counts: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"{count} x {bits}-bit" for bits, count in counts)


def _loads(one: Compiled) -> str:
    return _widths(one.loads or ()) or ("only the copies below" if one.copies else "none")


def _products(one: Compiled) -> str:
    return ", ".join(f"{count} {name}" for name, count in one.tensor_cores or ()) or "none"


def _copies(one: Compiled) -> str:
    parts: dict[str, list[str]] = {}
    for name, bits, count in one.copies or ():
        parts.setdefault(name, []).append(f"{count} x {bits}-bit" if bits else str(count))
    return ", ".join(f"{name}: {', '.join(counts)}" for name, counts in parts.items()) or "none"


def _under_products(one: Compiled) -> str:
    count, under = one.exponentials or (0, 0)
    return f"{under} of {count} in loops" if count and one.has_wgmma else ""


CELLS = (
    ("registers a thread", lambda one: str(one.registers)),
    ("spilled, bytes a thread", lambda one: f"{one.spills:,}"),
    ("shared memory a program", _shared),
    ("programs a multiprocessor", programs),
    ("  limited by", limits),
    ("tensor-core instructions", _products),
    ("global loads", _loads),
    ("global stores", lambda one: _widths(one.stores or ()) or "none"),
    ("global atomics", lambda one: str(one.atomics) if one.atomics else "none"),
    ("asynchronous copies", _copies),
)
# What only few kernels have.
RARE = (
    ("instructions on mbarriers", lambda one: str(one.barriers or "")),
    ("setmaxnreg", lambda one: ", ".join(map(str, one.partitions or ()))),
    ("products one by one", lambda one: "serialized by the assembler" if one.serialized else ""),
    ("exponentials under wgmma", _under_products),
)


def _loops(made: dict[str, Compiled]) -> list[tuple[str, dict[str, str]]]:
    """Return rows for the innermost loops: those of the same lines are one."""
    loops: dict[str, list[tuple[str, list[Loop]]]] = {}
    for name, one in made.items():
        by_lines: dict[str, list[Loop]] = {}
        for loop in one.loops or ():
            by_lines.setdefault(_lines(loop, one), []).append(loop)
        loops[name] = list(by_lines.items())
    most = max(map(len, loops.values()), default=0)
    if not most:
        return [("innermost loops", dict.fromkeys(made, "none"))]
    rows = []
    for number in range(min(most, MAX_LOOPS)):
        at = {name: parts[number] for name, parts in loops.items() if number < len(parts)}
        rows.append(("innermost loop", {name: _sizes(same) for name, (_, same) in at.items()}))
        rows.append(("  of lines", {name: lines for name, (lines, _) in at.items()}))
        if any(loop.tensor_cores for _, same in at.values() for loop in same):
            products = {
                name: _range(loop.tensor_cores for loop in same) for name, (_, same) in at.items()
            }
            rows.append(("  for tensor cores", products))
    if most > MAX_LOOPS:
        rows.append((f"and {most - MAX_LOOPS} loops more", {}))
    return rows


def _lines(loop: Loop, kernel: Compiled) -> str:
    """Return the lines of the `for` or `while` that most of a loop is from.

    What it calls may stand elsewhere, and the compiler may compute in it what stands before it.
    """
    own = [(line, count) for file, line, count in loop.lines if file == kernel.file]
    inside = {
        (start, end): sum(count for line, count in own if start <= line <= end)
        for start, end in _loops_of(kernel.file)
    }
    if most := max(inside.values(), default=0):
        likely = [span for span, count in inside.items() if 2 * count >= most]
        shortest = min(likely, key=lambda span: span[1] - span[0])
        return _range(shortest)
    return _range((own[0][0], own[-1][0])) if own else "-"


@functools.cache
def _loops_of(file: str) -> list[tuple[int, int]]:
    """Return the first and the last line of each loop of a file."""
    tree = ast.parse("".join(linecache.getlines(file)))
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
    return [(node.lineno, node.end_lineno or node.lineno) for node in loops]


def _sizes(loops: Sequence[Loop]) -> str:
    many = f"{len(loops)} x " if len(loops) > 1 else ""
    return f"{many}{_range(loop.instructions for loop in loops)} instructions"


def _range(numbers: Iterable[int]) -> str:
    ordered = sorted(set(numbers))
    return f"{ordered[0]}-{ordered[-1]}" if len(ordered) > 1 else str(ordered[0])
