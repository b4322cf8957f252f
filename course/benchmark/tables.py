"""The measured rows, and the files made of them: CSV, JSON, Markdown and pictures."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from kernelgauge.speed.roofline import Limits
from kernelgauge.words.compiling import format_si, three_digits

SOLUTION, EAGER = "solution", "eager"


@dataclass(frozen=True)
class Row:
    """One contestant at one size.

    magnitude: the number of elements or the like, for the axis of a picture
    ms: median time of a call; None if it could not be timed, and then `note` says why
    limit_ms, limit, share: the least time that the GPU's measured limits allow, the limit that sets
        it, and the part of it that was reached
    rate: bytes or operations per second with their unit, whichever the limit is about
    mhz_low, mhz_high, held_back: the GPU's clock beside the times and what held it back; None and
        "" where it could not be read
    to_eager, to_best_peer: how many times as fast as the eager reference, and as the fastest
        contestant other than the solution that does the same work
    other_work: what a peer does that the spec does not ask for, or leaves out; "" if nothing
    """

    date: str
    device: str
    torch: str
    triton: str
    puzzle: str
    size: str
    magnitude: int
    dtype: str
    contestant: str
    ms: float | None = None
    limit_ms: float | None = None
    limit: str | None = None
    share: float | None = None
    rate: str | None = None
    to_eager: float | None = None
    to_best_peer: float | None = None
    mhz_low: int | None = None
    mhz_high: int | None = None
    held_back: str = ""
    other_work: str = ""
    note: str = ""

    def line(self) -> str:
        """Return the row as a line for a terminal."""
        words = f"{self.puzzle:<30} {self.dtype:<9} {self.size:>16}  {self.contestant:<20}"
        if self.ms is None:
            return f"{words} {self.note}"
        words += f" {self.ms:9.4f} ms"
        words += "" if self.share is None else f" {100 * self.share:4.0f} %"
        return words + ("" if self.to_eager is None else f" {self.to_eager:6.2f}x eager")


def save(rows: list[Row], limits: Limits, folder: Path) -> None:
    """Write peers.csv, peers.json and peers.md, overwriting what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "peers.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    measured = {"limits": asdict(limits), "rows": [asdict(row) for row in rows]}
    (folder / "peers.json").write_text(json.dumps(measured, indent=1) + "\n")
    (folder / "peers.md").write_text(markdown(rows, limits))


def markdown(rows: list[Row], limits: Limits) -> str:
    """Return a table for each puzzle and dtype: a line per contestant, a column per size."""
    first = rows[0]
    parts = [
        f"# {limits.name}",
        "",
        f"Measured on {first.date} with torch {first.torch} and triton {first.triton} by",
        "`python -m course.benchmark --out DIR`. Medians in ms, the L2 flushed before each call;",
        "in brackets the part of the limit that was reached.",
        "",
        f"Measured limits: {describe_limits([limits])}.",
    ]
    for title, group in _groups(rows):
        parts += ["", f"## {title}", "", *_table(group)]
        if notes := _notes(group):
            parts += ["", *notes]
    return "\n".join(parts) + "\n"


def describe_limits(runs: list[Limits]) -> str:
    """Format the limits that one run measured, or their range over several runs."""

    def span(rates: list[float], unit: str) -> str:
        return " to ".join(
            dict.fromkeys(format_si(rate, unit) for rate in (min(rates), max(rates)))
        )

    rates: dict[str, list[float]] = {}
    for limits in runs:
        for dtype, rate in limits.matmul.items():
            rates.setdefault(dtype, []).append(rate)
    matmul = ", ".join(f"{dtype} {span(values, 'FLOP/s')}" for dtype, values in rates.items())
    copy = span([limits.copy for limits in runs], "B/s")
    return f"copy {copy} read plus written; matmul {matmul}"


def table_row(cells: Iterable[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def draw(rows: list[Row], folder: Path) -> list[Path]:
    """Plot time against size for each puzzle and dtype. Raises ImportError without matplotlib."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    drawn = []
    for title, group in _groups(rows):
        figure = Figure(figsize=(7, 5), layout="constrained")
        axes = figure.add_subplot(
            xscale="log", yscale="log", title=title, xlabel="size", ylabel="time of a call in ms"
        )
        for contestant in dict.fromkeys(row.contestant for row in group):
            _plot(axes, [row for row in group if row.contestant == contestant], "ms", contestant)
        _plot(axes, group, "limit_ms", _limit(group), "k--")
        sizes = {row.magnitude: row.size for row in group}
        axes.set_xticks(list(sizes), list(sizes.values()), rotation=30, ha="right")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.minorticks_off()
        axes.legend()
        path = folder / f"{re.sub('[/:, ]+', '_', title)}.png"
        figure.savefig(path)
        drawn.append(path)
    return drawn


def _plot(axes, rows: list[Row], field: str, label: str, style: str = "o-") -> None:
    points = {row.magnitude: getattr(row, field) for row in rows if getattr(row, field) is not None}
    if points:
        axes.plot(*zip(*sorted(points.items()), strict=True), style, label=label)


def _groups(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(f"{row.puzzle}, {row.dtype}", []).append(row)
    return list(groups.items())


def _table(rows: list[Row]) -> list[str]:
    sizes = list(dict.fromkeys(row.size for row in rows))
    lines = [table_row(["", *sizes]), f"|{'---|' * (len(sizes) + 1)}"]
    limits = {row.size: row.limit_ms for row in rows}
    for contestant in dict.fromkeys(row.contestant for row in rows):
        cells = {row.size: _cell(row) for row in rows if row.contestant == contestant}
        lines.append(table_row([contestant, *(cells.get(size, "") for size in sizes)]))
    if any(limits.values()):
        cells = ["" if limits[size] is None else three_digits(limits[size]) for size in sizes]
        lines.append(table_row([_limit(rows), *cells]))
    return lines


def _notes(rows: list[Row]) -> list[str]:
    """Return each reason why a contestant could not be timed, with the sizes if not for all."""
    sizes: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.note:
            sizes.setdefault((row.contestant, row.note), []).append(row.size)
    count = len({row.size for row in rows})
    return [
        f"- {name}{'' if len(where) == count else ', ' + ', '.join(where)}: {note}"
        for (name, note), where in sizes.items()
    ]


def _limit(rows: list[Row]) -> str:
    return "limit: " + ", ".join(dict.fromkeys(row.limit for row in rows if row.limit))


def _cell(row: Row) -> str:
    if row.ms is None:
        return "see below"
    share = "" if row.share is None else f" ({100 * row.share:.0f} %)"
    return f"{three_digits(row.ms)}{share}"
