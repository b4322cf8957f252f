"""Repeat every race of the solutions: does a verdict flip, and how far do the ratios spread?

    python -m tests.gpu.repeat_speed --passes 10 --workers 8      from the root of the repository
    python -m tests.gpu.repeat_speed --passes 1 --workers 0       without workers
    python -m tests.gpu.repeat_speed --seconds 540 --out FILE     as many as fit in, added to FILE

Prints a row for each race: passes, bar, ratio (least, median, largest), median time. Exits with 1
if a verdict differs between two passes, including those in FILE.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

# A row of the table that ends a run: test, yours, reference, speed-up, bar, limit.
ROW = re.compile(r"^(\d\d_\S+ test_\S+)\s+(\S+) ms\s+\S+ ms\s+(\S+)x \[.*?\]\s+(\S+)", re.MULTILINE)
FAILED = re.compile(r"^FAILED puzzles/(\d\d_\w+)/test_(\w+)\.py::(\S+)(?: - (.*))?", re.MULTILINE)


def run(workers: int, timeout: float | None) -> list[dict]:
    """Run all races once, and return a row for each. Raises subprocess.TimeoutExpired."""
    command = [sys.executable, "-m", "pytest", "puzzles", "--solutions", "-k", "speedup", "-q"]
    done = subprocess.run(
        [*command, "-n", str(workers)],
        env=os.environ | {"COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    failed = {
        f"{chapter}/{name} {test}": why for chapter, name, test, why in FAILED.findall(done.stdout)
    }
    rows = [
        {"race": race, "ms": float(ms), "ratio": float(ratio), "bar": float(bar)}
        for race, ms, ratio, bar in ROW.findall(done.stdout)
    ]
    unseen = failed.keys() - {row["race"] for row in rows}
    rows += [{"race": race, "ms": None, "ratio": None, "bar": None} for race in unseen]
    for row in rows:
        row["passed"] = row["race"] not in failed
    reasons = [f"    {race}: {why}" for race, why in failed.items()]
    print(done.stdout.strip().splitlines()[-1], *reasons, sep="\n", flush=True)
    return rows


def main() -> int:
    """Run the command. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.repeat_speed", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--workers", type=int, default=8, help="of pytest-xdist, over all GPUs")
    parser.add_argument(
        "--seconds", type=float, help="stop after so long; an unfinished pass is dropped"
    )
    parser.add_argument("--out", type=Path, help="JSON file that rows are added to")
    options = parser.parse_args()
    rows = json.loads(options.out.read_text()) if options.out and options.out.exists() else []
    began = time.monotonic()
    for _ in range(options.passes):
        left = options.seconds and options.seconds - (time.monotonic() - began)
        try:
            rows += run(options.workers, left)
        except subprocess.TimeoutExpired:
            break
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1))
    return report(rows)


def report(rows: list[dict]) -> int:
    """Print the table. Returns 1 if a verdict flipped or there is no row, else 0."""
    flips = 0
    print("| race | passes | passed | bar | least | median | largest | ms |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for race in sorted({row["race"] for row in rows}):
        mine = [row for row in rows if row["race"] == race]
        passed = sum(row["passed"] for row in mine)
        flips += 0 < passed < len(mine)
        timed = [row for row in mine if row["ratio"] is not None]
        figures = [""] * 5
        if timed:
            ratios = sorted(row["ratio"] for row in timed)
            ms = statistics.median(row["ms"] for row in timed)
            numbers = (timed[0]["bar"], ratios[0], statistics.median(ratios), ratios[-1], ms)
            figures = [f"{number:.4g}" for number in numbers]
        print(f"| {race} | {len(mine)} | {passed} | {' | '.join(figures)} |")
    print(f"{flips} verdicts flipped")
    return 1 if flips or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
