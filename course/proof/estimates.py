"""How far estimates are from measured times: the table of docs/estimates.md.

python -m course.proof.estimates FILE [NAME ...]    chapters, puzzles or benchmarks; all by default

Estimates the solutions at the sizes of reference/H200.md, without a GPU, in a quarter of an hour.
Left out are times of solutions that changed since, by the history that git has of both.
FILE keeps what each launch does, a line of JSON a size; what it holds already is not run again.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from course.benchmark.peers import Benchmark
    from kernelgauge.kernel import GuardedCall, Kernel

RECORD = "reference/H200.md"
# Benchmarks of this name have the time of a part of a call.
BACKWARD = "backward"
# Tensors of more bytes in all are left out: their ledgers would not fit this machine.
MAX_BYTES = 1.3e9
# Nothing is told of a size that takes so many seconds of processor time.
MAX_SECONDS = 12.0


class Row(NamedTuple):
    """A time that was measured, in milliseconds, and its estimate; None if none is told."""

    chapter: str
    benchmark: str
    measured: float
    estimated: float | None


def main(file: str, *names: str) -> int:
    """Run the command. Returns the exit status."""
    os.environ["TRITON_INTERPRET"] = "1"
    from course import paths
    from kernelgauge import setup
    from kernelgauge.core.settings import settings

    setup.install(targets=["sm_90"])
    settings.subjects = paths.SOLUTIONS
    path = Path(file)
    lines = path.read_text().splitlines() if path.exists() else []
    done = {tuple(json.loads(line)[it] for it in ("benchmark", "dtype", "size")) for line in lines}
    with path.open("a") as kept:
        for found in _collected(list(names), done):
            kept.write(json.dumps(found) + "\n")
            kept.flush()
    print("\n".join(table(rows(path))))
    return 0


def rows(path: Path) -> Iterator[Row]:
    """Yield the sizes that a file of this command holds."""
    from kernelgauge.speed.estimate import H200, Work, estimate

    for line in path.read_text().splitlines():
        found = json.loads(line)
        chapter = found["benchmark"].partition("/")[0]
        told = None
        if found["works"]:
            made = estimate([Work(**_with_numbers(work)) for work in found["works"]], H200)
            told = made.ms if made.is_clear else None
        yield Row(chapter, found["benchmark"], found["ms"], told)


def table(found: Iterable[Row]) -> list[str]:
    """Return Markdown: for each chapter how many were estimated, and how far off."""
    lines = ["| chapter | sizes | told | median | 9 of 10 within |", "|---|---:|---:|---:|---:|"]
    every = list(found)
    for chapter in [*dict.fromkeys(row.chapter for row in every), "all"]:
        own = [row for row in every if chapter in (row.chapter, "all")]
        told = [row for row in own if row.estimated]
        cells = [chapter, str(len(own)), str(len(told))]
        cells += [f"{it:.2f}x" for it in errors(told)] if told else ["-", "-"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def errors(told: Iterable[Row]) -> tuple[float, float]:
    """Return the median and the 90th percentile of how far estimates are off, as factors."""
    off = sorted(abs(math.log((row.estimated or 0) / row.measured)) for row in told)
    return math.exp(statistics.median(off)), math.exp(off[math.ceil(0.9 * len(off)) - 1])


def _collected(names: list[str], done: set[tuple]) -> Iterator[dict[str, Any]]:
    """Yield what each launch does, at each size that is not done. No works: not to be told."""
    import torch

    from course.benchmark.peers import load_benchmarks
    from course.proof import runner
    from kernelgauge.core import timeouts
    from kernelgauge.core.verdict import NotMeasured, Wrong
    from kernelgauge.speed.estimate import H200

    # What most inputs hold does not matter, and drawing them takes long. Sizes of groups are drawn
    # by torch.rand.
    torch.randn = torch.empty  # type: ignore[assignment]
    times = comparable()
    for name, benchmark in load_benchmarks(names).items():
        kernel = runner.module_of(name.partition(":")[0]).puzzle
        if BACKWARD in name.partition(":")[2]:
            continue
        for dtype in benchmark.dtypes:
            if dtype == "float16" and "bfloat16" in benchmark.dtypes:
                # It would count twice what is done.
                continue
            for size in benchmark.sizes:
                key = name, dtype, " x ".join(map(str, size))
                ms = times.get((name.partition("/")[2], *key[1:]))
                least, _ = benchmark.work(size, dtype)
                if ms is None or key in done or (least or 0) > MAX_BYTES:
                    continue
                works = []
                try:
                    torch.manual_seed(0)
                    inputs = benchmark.make(*size, dtype=getattr(torch, dtype))
                    caller = _caller(kernel, benchmark, inputs)
                    with timeouts.time_limit(MAX_SECONDS):
                        works = kernel.works(caller, kernel.subject, kernel.path, H200)
                except (Wrong, NotMeasured, MemoryError, RuntimeError) as error:
                    print(f"{' '.join(key)}: {error}", file=sys.stderr)
                found = dict(zip(("benchmark", "dtype", "size"), key, strict=True))
                yield found | {"ms": ms, "works": [asdict(work) for work in works]}


def _caller(kernel: Kernel, benchmark: Benchmark, inputs: tuple) -> Callable[[], GuardedCall]:
    """Return what makes the call that the record has the time of."""
    from kernelgauge.core.arguments import Arguments

    function = getattr(kernel.subject, "function", kernel.subject)
    timed = benchmark.timed(function)
    arguments = kernel.arguments(inputs, {})
    if timed is function:
        return lambda: kernel.guarded(arguments)
    arguments = Arguments(tuple(inspect.signature(timed).parameters), inputs, {})
    return lambda: kernel.guarded(arguments, other=(timed, kernel.path))


def comparable() -> dict[tuple[str, ...], float]:
    """Return the times of the record whose solution is what was timed.

    That is one whose code is that of the commit that brought the time; the text of a docstring
    does not count.
    """
    from course import paths

    brought: dict[tuple[str, ...], tuple[float, str]] = {}
    for commit in _git("log", "--reverse", "--format=%H", "--", RECORD).split():
        rows = measured(_git("show", f"{commit}:{RECORD}"))
        brought = {
            key: before if (before := brought.get(key)) and before[0] == ms else (ms, commit)
            for key, ms in rows.items()
        }
    files = {path.stem: path for path in paths.SOLUTIONS.glob("*/*.py")}

    @functools.cache
    def is_as_at(commit: str, puzzle: str) -> bool:
        path = files[puzzle]
        then = _git("show", f"{commit}:{path.relative_to(paths.ROOT)}")
        return _code(then) == _code(path.read_text())

    return {
        key: ms for key, (ms, commit) in brought.items() if is_as_at(commit, key[0].split(":")[0])
    }


def measured(record: str) -> dict[tuple[str, ...], float]:
    """Return the times of a record, by the name of the benchmark, dtype and size."""
    times = {}
    for line in record.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) == 9 and cells[3].replace(".", "").isdigit():
            times[tuple(cells[:3])] = float(cells[3])
    return times


def _git(*words: str) -> str:
    """Return what git prints; nothing if it fails, as for a file that was not there yet."""
    from course import paths

    command = ["git", "-C", str(paths.ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _code(source: str) -> str:
    """Return what a file does: its syntax without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node):
            del node.body[0]
    return ast.dump(tree)


def _with_numbers(work: dict[str, Any]) -> dict[str, Any]:
    """Return fields in which the numbers of storages, text in JSON, are numbers again."""
    return {
        name: {int(key): size for key, size in value.items()} if isinstance(value, dict) else value
        for name, value in work.items()
    }


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
