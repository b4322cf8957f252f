"""What the peers took, written down: CSV, JSON, Markdown and pictures."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from judge.speed.roofline import Limits, format_si

SOLUTION, EAGER = "solution", "eager"


@dataclass(frozen=True)
class Row:
    """One contestant at one size. ms is None where it could not be timed; then note says why.

    magnitude: the size as one number, for the axis of a picture
    limit_ms, limit, share: the least time by the GPU's measured limits, which limit that is, and
        the part of it that was reached
    rate: bytes or operations per second, in words, whichever the limit is about
    to_eager, to_best_peer: how many times as fast as the reference, and as the fastest of all but
        the solution
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
    note: str = ""

    def line(self) -> str:
        """The row on a terminal."""
        words = f"{self.puzzle:<30} {self.dtype:<9} {self.size:>16}  {self.contestant:<20}"
        if self.ms is None:
            return f"{words} {self.note}"
        words += f" {self.ms:9.4f} ms"
        words += "" if self.share is None else f" {100 * self.share:4.0f} %"
        return words + ("" if self.to_eager is None else f" {self.to_eager:6.2f}x eager")


def save(rows: list[Row], limits: Limits, folder: Path) -> None:
    """Write peers.csv, peers.json and peers.md, over what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "peers.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    measured = {"limits": asdict(limits), "rows": [asdict(row) for row in rows]}
    (folder / "peers.json").write_text(json.dumps(measured, indent=1) + "\n")
    (folder / "peers.md").write_text(markdown(rows, limits))


def markdown(rows: list[Row], limits: Limits) -> str:
    """A table for each puzzle and dtype: contestants down, sizes across."""
    first = rows[0]
    rates = ", ".join(
        f"{dtype} {format_si(rate, 'FLOP/s')}" for dtype, rate in limits.matmul.items()
    )
    parts = [
        f"# {limits.name}",
        "",
        f"Measured on {first.date} with torch {first.torch} and triton {first.triton} by",
        "`python -m judge.benchmark --out DIR`. Medians in ms, the L2 flushed before each call; in",
        "brackets the part of the limit that was reached.",
        "",
        f"Limits, measured: copy {format_si(limits.copy, 'B/s')}; matmul {rates}.",
    ]
    for title, group in _groups(rows):
        parts += ["", f"## {title}", "", *_table(group)]
        if notes := _notes(group):
            parts += ["", *notes]
    return "\n".join(parts) + "\n"


def draw(rows: list[Row], folder: Path) -> list[Path]:
    """A picture for each puzzle and dtype, time against size. Needs matplotlib, or ImportError."""
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
    lines = [f"| {' | '.join(['', *sizes])} |", f"|{'---|' * (len(sizes) + 1)}"]
    limits = {row.size: row.limit_ms for row in rows}
    for contestant in dict.fromkeys(row.contestant for row in rows):
        cells = {row.size: _cell(row) for row in rows if row.contestant == contestant}
        lines.append(f"| {' | '.join([contestant, *(cells.get(size, '') for size in sizes)])} |")
    if any(limits.values()):
        cells = ["" if limits[size] is None else three_digits(limits[size]) for size in sizes]
        lines.append(f"| {' | '.join([_limit(rows), *cells])} |")
    return lines


def _notes(rows: list[Row]) -> list[str]:
    """Why contestants could not be timed, once each, with the sizes if it is not all of them."""
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


def three_digits(number: float) -> str:
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"
