"""What the partitions of one program did, one after the other, and what was under way meanwhile.

Time runs downward, a line for each thing that happens. Beside the partitions stand the barriers,
whose colour changes with their phase, and the parts of shared memory, with the copies and products
that touch them until they end.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from course.pictures.layout import legend
from course.pictures.svg import CAPTION_CHARACTERS, LINE, MARGIN, Picture, Svg
from kernelgauge.memory.recording import Moment

# The last lines before the end, or a fault, are drawn.
MAX_ROWS = 44
LANE, COLUMN, GAP = 182, 22, 14
ROW = 15
# Of what is under way, and of phases: even, odd.
COPY, PRODUCT, PHASES = "p0", "p1", ("empty", "p2")
# What takes no line of its own.
SILENT = {"goes on", "completes", "reads", "writes"}


@dataclass
class Bar:
    """Something from one row to another: in a partition's lane, or in a column.

    label: written at its begin
    """

    where: str
    kind: str
    first: int
    last: int
    label: str = ""


def timeline(
    name: str, call: str, program: int, moments: Sequence[Moment], fault: str = ""
) -> Picture | None:
    """Draw what one program of a Gluon kernel did, if it did anything asynchronously.

    name, call: the puzzle and what was called
    fault: what is wrong at the end
    """
    if not any(moment.number for moment in moments):
        return None
    rows, bars = _told(moments)
    first = max(len(rows) - MAX_ROWS, 0)
    bars = [bar for bar in bars if bar.last >= first]
    lanes = list(dict.fromkeys(who for who, _ in rows[first:]))
    columns = sorted({bar.where for bar in bars} - set(lanes))
    title = f"Program {program}: what waits for what"
    caption = (
        "Time runs downward, in the order in which the interpreter ran this program. A line begins "
        "with its number in your file and ends with the phase that is waited for, the bytes "
        "expected, or how many may be left under way. Hatched is a partition that waits. A "
        "barrier's colour changes with each phase, whose number is written in it. A buffer's is "
        "that of what is under way there, and may read or write it at any moment."
    )
    if first:
        caption += f" The first {first} lines are left out."
    if fault:
        caption += " The red line is where it is wrong."
    svg = Svg(title, caption, f"{name} timeline", call)
    top = svg.bottom + 3 * LINE
    height = ROW * (len(rows) - first)
    places = {who: float(MARGIN + LANE * number) for number, who in enumerate(lanes)}
    x = float(MARGIN + LANE * len(lanes))
    for base, parts in itertools.groupby(columns, lambda part: part.partition("[")[0]):
        x += GAP
        svg.text(x, top - 6 - LINE, base, "n")
        begin = x
        for part in parts:
            places[part] = x
            x += COLUMN
        x = max(x, begin + 7 * len(base))
    svg.width = max(svg.width, x + MARGIN)
    for where, x in places.items():
        if where in lanes:
            svg.text(x, top - 6, where, "n")
        elif "[" in where:
            svg.text(x + COLUMN / 2 - 2, top - 6, where.rstrip("]").partition("[")[2], "s m")
        svg.rect(x, top, (LANE if where in lanes else COLUMN) - 4, height, "empty faint")
    for bar in bars:
        begin = max(bar.first, first) - first
        width = (10 if bar.where in lanes else COLUMN) - 4
        size = ROW * (bar.last - first + 1 - begin)
        x, y = places[bar.where], top + ROW * begin
        fill = svg.hatched() if bar.kind == "hatch" else ""
        svg.boxes([(x, y, width, size)], f"{bar.kind} edge", fill, bar.label)
        if bar.label and bar.where not in lanes:
            svg.text(x + width / 2, y + 11, bar.label, "lane on")
    for number, (who, text) in enumerate(rows[first:]):
        svg.text(places[who] + 10, top + ROW * number + 11, text, "c")
    svg.bottom = top + height
    if fault:
        svg.rect(MARGIN, svg.bottom, svg.width - 2 * MARGIN, 3, "out")
        for line in fault.splitlines():
            for part in textwrap.wrap(line, CAPTION_CHARACTERS, subsequent_indent="  "):
                svg.text(MARGIN, svg.bottom + LINE, part, "out")
    kinds = {bar.kind for bar in bars}
    entries = [
        (COPY, "", "a copy is under way"),
        (PRODUCT, "", "a product is under way"),
        (PHASES[0], "", "an even phase of a barrier"),
        (PHASES[1], "", "an odd one"),
    ]
    legend(svg, [entry for entry in entries if entry[0] in kinds])
    return Picture("timeline", "", title, caption, svg.render())


def _told(moments: Sequence[Moment]) -> tuple[list[tuple[str, str]], list[Bar]]:
    """Return the lines, each of a partition, and what lasts from one of them to another."""
    rows: list[tuple[str, str]] = []
    bars: list[Bar] = []
    waiting: dict[str, Bar] = {}
    phases: dict[str, Bar] = {}
    issued: dict[int, tuple[Moment, int]] = {}
    flying: dict[int, list[Bar]] = {}
    for moment in moments:
        if moment.did not in SILENT or (moment.did in ("reads", "writes") and not moment.number):
            rows.append((moment.who, f"{moment.line} {_words(moment, issued)}"))
        row = len(rows) - 1
        if moment.did == "wait":
            waiting[moment.who] = Bar(moment.who, "hatch", row, len(moments))
        elif moment.did == "goes on" and waiting[moment.who].first < row:
            waiting[moment.who].last = row
            bars.append(waiting.pop(moment.who))
        elif moment.did == "goes on":
            del waiting[moment.who]
        elif moment.did == "completes":
            number = moment.phases
            if moment.about in phases:
                phases[moment.about].last = row
            phases[moment.about] = _phase(moment.about, number, row + 1, len(moments))
            bars.append(phases[moment.about])
        elif moment.did == "ends":
            for bar in flying.pop(moment.number, ()):
                bar.last = row
        elif moment.number and moment.about:
            issue, at = issued[moment.number]
            if issue.did == "copy":
                rows[at] = moment.who, f"{rows[at][1]} {moment.about}"
            bar = Bar(moment.about, _paint(issue), row, len(moments))
            bars.append(bar)
            flying.setdefault(moment.number, []).append(bar)
        elif moment.number:
            issued[moment.number] = moment, row
        if moment.did in ("wait", "expect", "arrive") and moment.about not in phases:
            phases[moment.about] = _phase(moment.about, moment.phases, 0, len(moments))
            bars.append(phases[moment.about])
    bars += waiting.values()
    for bar in bars:
        bar.last = min(bar.last, len(rows) - 1)
    return rows, [bar for bar in bars if bar.first <= bar.last]


def _phase(barrier: str, number: int, first: int, last: int) -> Bar:
    return Bar(barrier, PHASES[number % 2], first, last, str(number))


def _paint(moment: Moment) -> str:
    return PRODUCT if moment.did == "product" else COPY


def _words(moment: Moment, issued: dict[int, tuple[Moment, int]]) -> str:
    """Return what a line says."""
    if moment.did == "wait":
        return f"wait {moment.about} {moment.amount}"
    if moment.did == "expect":
        return f"expect {moment.about} {moment.amount}"
    if moment.did.endswith(("_wait", "wait_group")):
        return f"{moment.did}({moment.amount})"
    if moment.did == "ends":
        return f"{issued[moment.number][0].did} ends"
    said = {"reads": "load", "writes": "store", "fence_async_shared": "fence"}
    return f"{said.get(moment.did, moment.did)} {moment.about}".rstrip()
