"""Time the solutions beside their peers, at every size, with one timer.

python -m course.benchmark --out DIR                        all puzzles; needs a GPU
python -m course.benchmark --out DIR --puzzle 04_softmax    one chapter, or one puzzle
python -m course.benchmark --out DIR --record               and write reference/GPU.md of this GPU
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import torch

from course import paths
from course.benchmark import record, tables
from course.benchmark.peers import load_benchmarks
from course.benchmark.tables import Row
from course.benchmark.timing import compare
from kernelgauge.core import gpus
from kernelgauge.core.settings import settings
from kernelgauge.speed import gpu_lock, roofline
from kernelgauge.speed.timer import CudaTimer


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m course.benchmark", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="where to save tables and pictures")
    add(
        "--puzzle",
        action="append",
        default=[],
        metavar="NAME",
        help="chapter or puzzle; repeatable",
    )
    add("--subject", type=Path, metavar="DIR", help="kernels to time (default: the solutions)")
    add("--seconds", type=float, default=0.3, help="timing per size (default: 0.3)")
    add("--record", action="store_true", help="write the record of this GPU, reference/GPU.md")
    options = parser.parse_args(arguments)
    if options.record and options.puzzle:
        parser.error("--record writes the record of all puzzles: leave out --puzzle")
    if (options.out / "peers.json").exists():
        parser.error(f"--out {options.out} holds an earlier run: give another folder")
    if not torch.cuda.is_available():
        parser.error("timing needs a CUDA device, and torch finds none")
    if os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes", "y"):
        parser.error("TRITON_INTERPRET is set, but timing needs compiled kernels")
    settings.subjects = (options.subject or paths.SOLUTIONS).resolve()
    if not settings.subjects.is_dir():
        parser.error(f"--subject {options.subject}: there is no such folder")
    try:
        benchmarks = load_benchmarks(options.puzzle)
    except LookupError as error:
        parser.error(str(error))
    rows: list[Row] = []
    several = any(benchmark.ranks for benchmark in benchmarks.values())
    selected = gpu_lock.select_gpu()
    with gpu_lock.hold(*(gpu_lock.all_gpus() if several else [selected])):
        limits = roofline.measure()
        timer = CudaTimer()
        timer_of_ranks = CudaTimer(gpus.connect()[1:]) if several else timer
        for puzzle, benchmark in benchmarks.items():
            began = time.monotonic()
            for dtype in benchmark.dtypes:
                for size in benchmark.sizes:
                    found = compare(
                        puzzle,
                        benchmark,
                        size,
                        dtype,
                        limits,
                        timer_of_ranks if benchmark.ranks else timer,
                        seconds=options.seconds,
                    )
                    print(*(row.line() for row in found), sep="\n", flush=True)
                    rows += found
                    # Saved now, in case the process ends before the next size does.
                    tables.save(rows, limits, options.out)
                    torch.cuda.empty_cache()
            print(f"{puzzle}: {time.monotonic() - began:.0f} s", flush=True)
    try:
        drawn = tables.draw(rows, options.out)
    except ImportError:
        print("no pictures: matplotlib is not installed")
    else:
        print(f"{len(drawn)} pictures in {options.out}")
    print(f"{len(rows)} rows in {options.out / 'peers.csv'}")
    return record.main([str(options.out)]) if options.record else 0


if __name__ == "__main__":
    sys.exit(main())
