"""A learner's kernel beside our solution: what both move, need and take, and how ours differs.

A group is what one test found, in plain data that xdist can carry: what was measured, and rows of a
label, the learner's figure and ours.
"""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course.paths import SOLUTIONS
from kernelgauge import words
from kernelgauge.words.compiling import times
from kernelgauge.words.tables import aligned

if TYPE_CHECKING:
    # The report is written without Triton, which these import.
    from kernelgauge.compilation.ahead_of_time import Compiled
    from kernelgauge.memory.traffic import TrafficMeter
    from kernelgauge.speed.estimate import Estimate, Gpu
    from kernelgauge.speed.result import RaceResult

Group = dict[str, Any]

# The first line of a solution's docstring ends so; below it stands how it differs.
TITLE = ": one good answer."
# Tokens that are no code.
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
MAX_WIDTH = 100
# Of so many kernels each is shown.
MAX_KERNELS = 4
# Times that a tensor is moved are told apart from this difference on.
MIN_DIFFERENCE = 0.005


def of_traffic(call: str, yours: TrafficMeter, ours: TrafficMeter) -> Group:
    """Compare what two subjects moved in the same call. Tensors are named where they differ."""
    rows = [_row("launches", yours.launches, ours.launches)]
    mine, theirs = yours.tensors, ours.tensors
    for done in ("loaded", "stored"):
        totals = (sum(getattr(it, done).bytes for it in moved.values()) for moved in (mine, theirs))
        rows.append(_row(f"bytes {done}", *totals))
        for name in mine:
            if name in theirs and not name.startswith("scratch"):
                one, other = (getattr(moved[name], done).times for moved in (mine, theirs))
                if abs(one - other) > MIN_DIFFERENCE:
                    rows.append([f"{name} {done}", f"{one:.3g}x", f"{other:.3g}x"])
    return {"of": f"traffic of {call}", "rows": rows}


def of_resources(call: str, yours: Sequence[Compiled], ours: Sequence[Compiled]) -> Group:
    """Compare what two subjects' kernels need: a figure for each kernel, or the most of many."""
    kernels = max(len(yours), len(ours))
    suffix = ", the most" if kernels > MAX_KERNELS else ", by kernel" if kernels > 1 else ""
    rows = []
    for label, name in (
        ("registers a thread", "registers"),
        ("spilled bytes a thread", "spills"),
        ("bytes of shared memory a program", "shared"),
        ("warps a program", "num_warps"),
    ):
        figures = [[getattr(one, name) or 0 for one in side] for side in (yours, ours)]
        if kernels > MAX_KERNELS:
            figures = [[max(side)] for side in figures]
        if name != "spills" or any(map(any, figures)):
            rows.append(
                [label + suffix, *(", ".join(f"{it:,}" for it in side) for side in figures)]
            )
    return {"of": f"compiled for {yours[0].target}, {call}", "rows": rows}


def of_times(call: str, race: RaceResult) -> Group:
    """Compare the times of a race against our solution."""
    interval = race.interval
    rows = [["time", f"{interval.subject_ms:.4g} ms", f"{interval.reference_ms:.4g} ms"]]
    if race.bound:
        shares = (race.bound.ms / ms for ms in (interval.subject_ms, interval.reference_ms))
        rows.append([f"of {race.bound.limit}", *(f"{100 * share:.0f} %" for share in shares)])
    return {"of": f"time of {call}", "rows": rows}


def of_estimates(call: str, found: Sequence[tuple[Gpu, Estimate, Estimate]]) -> Group:
    """Compare about how long two subjects take. found: for each GPU, the learner's time and ours"""
    rows = []
    gpus: dict[str, list[str]] = {}
    for gpu, yours, ours in found:
        name = f"an {gpu.name}" if gpu.is_measured else f"an {gpu.name} (never measured)"
        rows.append([f"about, on {name}", *(f"{it.ms:.2g} ms" for it in (yours, ours))])
        clause = f"{times(ours.ms / yours.ms)} of ours{{}}: {words.say(yours.reason(ours))}"
        gpus.setdefault(clause, []).append(name)
    said = [clause.format(f" on {' and '.join(names)}") for clause, names in gpus.items()]
    of = f"estimate (docs/estimates.md says how far off) of the time of {call}"
    return {"of": of, "rows": rows, "said": "; ".join(said)}


def of_files(yours: Path, puzzle: str) -> Group:
    """Compare the lengths of two files."""
    lines = (lines_of_code(path.read_text()) for path in (yours, SOLUTIONS / f"{puzzle}.py"))
    what = "the file, ours with the checks that production asks for"
    return {"of": what, "rows": [_row("lines of code", *lines)]}


def table(groups: Sequence[Group]) -> list[str]:
    """Return the lines of a table."""
    rows = [[f"    {label}", *sides] for group in groups for label, *sides in group["rows"]]
    head, *rest = aligned([["", "yours", "ours"], *rows])
    left, lines = iter(rest), [head]
    for group in groups:
        lines.append(textwrap.shorten(group["of"], MAX_WIDTH, placeholder=" ..."))
        lines += [next(left) for _ in group["rows"]]
    return lines


def lines_of_code(source: str) -> int:
    """Count the lines that hold code: no blank lines, comments or docstrings."""
    documented = (ast.Module, ast.FunctionDef, ast.ClassDef)
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings)


def difference_of(puzzle: str) -> str:
    """Return what our solution does differently, in a few sentences; "" of the worked example."""
    text = ast.get_docstring(ast.parse((SOLUTIONS / f"{puzzle}.py").read_text())) or ""
    title, _, rest = text.partition("\n")
    return " ".join(rest.split()) if title.endswith(TITLE) else ""


def _row(label: str, yours: int, ours: int) -> list[str]:
    return [label, f"{yours:,}", f"{ours:,}"]
