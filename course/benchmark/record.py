"""Write the record of the solutions on a GPU from what `python -m course.benchmark` saved.

python -m course.benchmark.record DIR                       reference/GPU.md of the GPU of DIR
python -m course.benchmark.record --beside FILE FILE        print records beside each other

Several folders make one record; if two measured the same benchmark, the later one in the list
counts. The text of the file above the line `MARK` is kept.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable
from itertools import chain, groupby
from pathlib import Path

from course.benchmark.tables import SOLUTION, Row, describe_limits, table_row
from course.paths import ROOT
from kernelgauge.speed.roofline import Limits
from kernelgauge.words.compiling import three_digits

# From this part of the best peer's speed on, a solution counts as being as fast.
AS_FAST = 0.98
MARK = "<!-- The rest is written by python -m course.benchmark.record: edits are lost. -->"
HEADER = "| puzzle | dtype | size | ms | rate | of the limit | x eager | x best peer | best peer |"


def read(folder: Path) -> tuple[list[Row], Limits]:
    """Read what `tables.save` wrote. Raises OSError, or ValueError if another version wrote it."""
    saved = json.loads((folder / "peers.json").read_text())
    try:
        return [Row(**row) for row in saved["rows"]], Limits(**saved["limits"])
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{folder / 'peers.json'} was written by another version: {error}"
        ) from error


def merge(runs: Iterable[list[Row]]) -> list[Row]:
    """Merge runs, sorted by chapter; a later run replaces the benchmarks that it repeats."""
    benchmarks: dict[tuple[str, str], list[Row]] = {}
    for rows in runs:
        run: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            run.setdefault((row.puzzle, row.dtype), []).append(row)
        benchmarks |= run
    merged = [row for benchmark in benchmarks.values() for row in benchmark]
    return sorted(merged, key=lambda row: row.puzzle.partition("/")[0])


def summarize(rows: list[Row], limits: list[Limits]) -> str:
    """Return Markdown: the dates, versions and limits, and a row per solution, dtype and size."""
    solutions = [row for row in rows if row.contestant == SOLUTION]
    dates = sorted({row.date for row in rows})
    parts = [
        f"Measured on {' and '.join(dates)} by `python -m course.benchmark`: "
        f"{_names(rows, 'device')}, torch {_names(rows, 'torch')}, "
        f"triton {_names(rows, 'triton')}.",
        f"Limits of that GPU, measured in the same runs: {describe_limits(limits)}.",
        *_clocks(solutions),
        *_other_work(rows),
        *_as_fast(solutions, rows),
    ]
    for chapter, group in groupby(solutions, key=lambda row: row.puzzle.partition("/")[0]):
        parts += ["", f"## {chapter}", "", HEADER, "|---|---|---|---:|---|---|---:|---:|---|"]
        parts += [_line(row, best_peer(row, rows)) for row in group]
    return "\n".join(parts) + "\n"


def best_peer(solution: Row, rows: list[Row]) -> Row | None:
    """Return the row of the fastest other contestant that does the same work, at the same size."""
    same = (solution.puzzle, solution.dtype, solution.size)
    others = [
        row
        for row in rows
        if (row.puzzle, row.dtype, row.size) == same
        and row.contestant != SOLUTION
        and row.ms
        and not row.other_work
    ]
    return min(others, key=lambda row: row.ms, default=None)


def insert(text: str, summary: str) -> str:
    """Replace what follows the mark with the summary; the mark is added if it is missing."""
    return f"{text.partition(MARK)[0].rstrip()}\n\n{MARK}\n\n{summary}".lstrip()


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m course.benchmark.record", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("folders", nargs="*", type=Path, metavar="DIR", help="--out of course.benchmark")
    add("--into", type=Path, metavar="FILE", help="what to write (default: reference/GPU.md)")
    add("--beside", nargs="+", type=Path, metavar="FILE", help="records to print, and no DIR")
    options = parser.parse_args(arguments)
    if bool(options.folders) == bool(options.beside):
        parser.error("name folders to write the record of a GPU, or records with --beside")
    try:
        if options.beside:
            print(beside({file.stem: file.read_text() for file in options.beside}), end="")
            return 0
        runs = [read(folder) for folder in options.folders]
    except (OSError, ValueError) as error:
        parser.error(str(error))
    rows = merge(rows for rows, _ in runs)
    if not rows:
        parser.error("no rows: nothing was measured")
    if len(names := {limits.name for _, limits in runs}) > 1:
        parser.error(f"a record is of one GPU, and these are of {', '.join(sorted(names))}")
    into = options.into or ROOT / "reference" / f"{short_name(*names)}.md"
    before = into.read_text() if into.exists() else f"# Solutions on {short_name(*names)}\n"
    into.write_text(insert(before, summarize(rows, [limits for _, limits in runs])))
    print(f"{sum(row.contestant == SOLUTION for row in rows)} rows in {into}")
    return 0


def short_name(device: str) -> str:
    """Return the name of a GPU's record: H100 of "NVIDIA H100 80GB HBM3"."""
    words = re.sub(r"\b(NVIDIA|AMD|GeForce|Tesla|Quadro)\b", "", device).split()
    model = [word for word in words if not re.fullmatch(r"\d+GB|HBM\w+|PCIe|SXM\d?", word)]
    return "-".join(re.sub(r"\W+", "-", word) for word in model) or "GPU"


def beside(records: dict[str, str]) -> str:
    """Return Markdown: the per cent of each GPU's limits at each size, a line a puzzle and dtype.

    records: the texts of records by name; a "-" stands where one has no such size
    """
    shares: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for name, text in records.items():
        for line in text.partition(HEADER)[2].splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            share = re.match(r"\d+", cells[5]) if len(cells) == 9 else None
            if share:
                sizes = shares.setdefault((cells[0], cells[1]), {}).setdefault(cells[2], {})
                sizes[name] = share[0]
    lines = [table_row(["puzzle", "dtype", "sizes", *(f"% of {name}" for name in records)])]
    lines.append("|---|---|---|" + "---|" * len(records))
    for (puzzle, dtype), sizes in shares.items():
        columns = [", ".join(found.get(name, "-") for found in sizes.values()) for name in records]
        lines.append(table_row([puzzle, dtype, ", ".join(sizes), *columns]))
    return "\n".join(lines) + "\n"


def _line(row: Row, best: Row | None) -> str:
    words = [row.puzzle.partition("/")[2], row.dtype, row.size]
    if row.ms is None:
        return table_row([*words, row.note, "", "", "", "", ""])
    share = "" if row.share is None else f"{100 * row.share:.0f} % of {row.limit}"
    eager = "" if row.to_eager is None else f"{row.to_eager:.2f}"
    peer = ["", ""] if best is None else [f"{best.ms / row.ms:.2f}", best.contestant]
    return table_row([*words, three_digits(row.ms), row.rate or "", share, eager, *peer])


def _clocks(rows: list[Row]) -> list[str]:
    read = [row for row in rows if row.mhz_low is not None and row.mhz_high is not None]
    if not read:
        return []
    low, high = min(row.mhz_low for row in read), max(row.mhz_high for row in read)
    text = f"Clock of its multiprocessors, read between the calls: {low} to {high} MHz"
    for reason in dict.fromkeys(row.held_back for row in read if row.held_back):
        count = sum(row.held_back == reason for row in read)
        text += f"; held back by {reason} beside {count} of {len(read)} rows"
    return [f"{text}."]


def _other_work(rows: list[Row]) -> list[str]:
    found = {
        (row.puzzle.partition("/")[2], row.contestant): row.other_work
        for row in rows
        if row.other_work
    }
    if not found:
        return []
    named = "; ".join(f"{name} of {puzzle} {what}" for (puzzle, name), what in found.items())
    return [f"Peers that do other work do not count: {named}."]


def _as_fast(solutions: list[Row], rows: list[Row]) -> list[str]:
    chapters: dict[str, list[bool]] = {}
    for row in solutions:
        best = best_peer(row, rows)
        if row.ms and best:
            chapters.setdefault(row.puzzle[:2], []).append(round(best.ms / row.ms, 2) >= AS_FAST)
    if not chapters:
        return []
    each = ", ".join(f"{sum(it)} of {len(it)} in {chapter}" for chapter, it in chapters.items())
    every = list(chain.from_iterable(chapters.values()))
    told = f"{sum(every)} of {len(every)} ({each})"
    return [f"Rows at {AS_FAST} times the best peer's speed or more: {told}."]


def _names(rows: list[Row], field: str) -> str:
    return ", ".join(dict.fromkeys(getattr(row, field) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
