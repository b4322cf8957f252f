"""Write the record of the solutions on a GPU from what `python -m course.benchmark` saved.

python -m course.benchmark.record DIR --into reference/H200.md

Several folders make one record; if two measured the same benchmark, the later one in the list
counts. The text of the file above the line `MARK` is kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from course.benchmark.tables import SOLUTION, Row, describe_limits, table_row
from kernelgauge.speed.roofline import Limits
from kernelgauge.words.compiling import three_digits

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
    ]
    for chapter, group in groupby(solutions, key=lambda row: row.puzzle.partition("/")[0]):
        parts += ["", f"## {chapter}", "", HEADER, "|---|---|---|---:|---|---|---:|---:|---|"]
        parts += [_line(row, best_peer(row, rows)) for row in group]
    return "\n".join(parts) + "\n"


def best_peer(solution: Row, rows: list[Row]) -> Row | None:
    """Return the fastest other contestant's row for the same puzzle, dtype and size."""
    same = (solution.puzzle, solution.dtype, solution.size)
    others = [
        row
        for row in rows
        if (row.puzzle, row.dtype, row.size) == same and row.contestant != SOLUTION and row.ms
    ]
    return min(others, key=lambda row: row.ms, default=None)


def insert(text: str, summary: str) -> str:
    """Replace what follows the mark with the summary; the mark is added if it is missing."""
    return f"{text.partition(MARK)[0].rstrip()}\n\n{MARK}\n\n{summary}".lstrip()


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m course.benchmark.record", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR", help="--out of course.benchmark"
    )
    parser.add_argument("--into", type=Path, required=True, metavar="FILE", help="what to write")
    options = parser.parse_args(arguments)
    try:
        runs = [read(folder) for folder in options.folders]
    except (OSError, ValueError) as error:
        parser.error(str(error))
    rows = merge(rows for rows, _ in runs)
    if not rows:
        parser.error("no rows: nothing was measured")
    before = options.into.read_text() if options.into.exists() else ""
    options.into.write_text(insert(before, summarize(rows, [limits for _, limits in runs])))
    print(f"{sum(row.contestant == SOLUTION for row in rows)} rows in {options.into}")
    return 0


def _line(row: Row, best: Row | None) -> str:
    words = [row.puzzle.partition("/")[2], row.dtype, row.size]
    if row.ms is None:
        return table_row([*words, row.note, "", "", "", "", ""])
    share = "" if row.share is None else f"{100 * row.share:.0f} % of {row.limit}"
    eager = "" if row.to_eager is None else f"{row.to_eager:.2f}"
    peer = ["", ""] if best is None else [f"{best.ms / row.ms:.2f}", best.contestant]
    return table_row([*words, three_digits(row.ms), row.rate or "", share, eager, *peer])


def _names(rows: list[Row], field: str) -> str:
    return ", ".join(dict.fromkeys(getattr(row, field) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
