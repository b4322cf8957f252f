"""Time all contestants of a puzzle at one size with one timer."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from importlib import metadata

import torch

from course import loader
from course.benchmark.peers import Benchmark, Size, load_benchmarks
from course.benchmark.tables import EAGER, SOLUTION, Row
from kernelgauge.core.tensors import tensors
from kernelgauge.speed import clocks
from kernelgauge.speed.buffers import Buffers, snapshot
from kernelgauge.speed.roofline import Limits
from kernelgauge.speed.timer import CudaTimer
from kernelgauge.words.compiling import format_si

WARMUP_ROUNDS, MIN_ROUNDS, MAX_ROUNDS = 2, 12, 200

# Another order of summation, or tf32, stays far below this relative error; a wrong result does not.
MAX_ERROR = 0.02


@dataclass(frozen=True)
class Contestant:
    """The solution, the eager reference or a peer.

    function: what to time; None if it cannot be timed, and then `note` says why
    other_work: as of `Peer`
    """

    name: str
    function: Callable | None
    note: str = ""
    other_work: str = ""


def compare(
    puzzle: str,
    benchmark: Benchmark,
    size: Size,
    dtype: str,
    limits: Limits,
    timer: CudaTimer,
    *,
    device: str = "cuda",
    seconds: float = 0.3,
) -> list[Row]:
    """Return a row for each contestant at one size, including those that cannot be timed."""
    # Graphs compiled for other sizes count against dynamo's recompilation limit.
    torch.compiler.reset()
    contestants = load_contestants(puzzle, benchmark)
    times: dict[str, float] = {}
    clock = None
    try:
        buffers = Buffers(benchmark.inputs(size, dtype, device), timer.free_bytes())
        contestants = admit(contestants, buffers, by_value=benchmark.baseline is None)
        if running := [contestant for contestant in contestants if contestant.function]:
            times, clock = time_in_turn(running, buffers, timer, seconds)
    except Exception as error:
        contestants = [c if c.note else replace(c, note=_reason(error)) for c in contestants]
    bound = limits.bound(*benchmark.work(size, dtype))
    count = torch.cuda.device_count() if benchmark.ranks else 1
    rivals = {one.name for one in contestants if one.name != SOLUTION and not one.other_work}
    best = min((ms for name, ms in times.items() if name in rivals), default=None)
    rows = []
    for contestant in contestants:
        ms = times.get(contestant.name)
        row = Row(
            date=date.today().isoformat(),
            device=f"{count} x {limits.name}" if count > 1 else limits.name,
            torch=torch.__version__,
            triton=metadata.version("triton"),
            puzzle=puzzle,
            size=" x ".join(map(str, size)),
            magnitude=math.prod(size),
            dtype=dtype,
            contestant=contestant.name,
            ms=ms,
            limit_ms=bound.ms if bound else None,
            limit=bound.limit if bound else None,
            share=bound.ms / ms if bound and ms else None,
            rate=format_si(1e3 * bound.amount / ms, f"{bound.unit}/s") if bound and ms else None,
            to_eager=times[EAGER] / ms if ms and EAGER in times else None,
            to_best_peer=best / ms if ms and best else None,
            mhz_low=clock.low if clock else None,
            mhz_high=clock.high if clock else None,
            held_back=", ".join(clock.held_back) if clock else "",
            other_work=contestant.other_work,
            note=contestant.note,
        )
        rows.append(row)
    return rows


def time_peers(
    puzzle: str,
    inputs: tuple | Callable[[int], tuple],
    timer: CudaTimer,
    adapt: Callable[[Callable], Callable],
    *,
    seconds: float = 0.3,
) -> dict[str, float]:
    """Return the median milliseconds of those peers of a puzzle that give its result here.

    inputs: tensors, as `Buffers` takes them
    adapt: makes of a function with the signature of the puzzle's one that takes these
    """
    benchmark = load_benchmarks([]).get(puzzle)
    if benchmark is None or benchmark.ranks:
        return {}
    torch.compiler.reset()
    contestants = [
        replace(contestant, function=adapt(contestant.function))
        for contestant in load_contestants(puzzle, benchmark)
        if contestant.function and contestant.name != SOLUTION
    ]
    buffers = Buffers(inputs, timer.free_bytes())
    admitted = admit(contestants, buffers, by_value=benchmark.baseline is None)
    times, _ = time_in_turn([one for one in admitted if one.function], buffers, timer, seconds)
    return {name: ms for name, ms in times.items() if name != EAGER}


def load_contestants(puzzle: str, benchmark: Benchmark) -> list[Contestant]:
    """Load the solution, the eager reference and the peers. One that fails to load has a note."""
    chapter, file = puzzle.partition(":")[0].split("/")
    reference = loader.load_reference(chapter, benchmark.baseline or benchmark.function)
    loads = {
        SOLUTION: lambda: loader.load_subject(chapter, file, benchmark.function),
        EAGER: lambda: reference,
        **{peer.name: lambda peer=peer: peer.ready(reference) for peer in benchmark.peers},
    }
    other_work = {
        EAGER: benchmark.eager_other_work,
        **{peer.name: peer.other_work for peer in benchmark.peers},
    }
    contestants = []
    for name, load in loads.items():
        other = other_work.get(name, "")
        try:
            contestants.append(Contestant(name, benchmark.timed(load()), other_work=other))
        except Exception as error:
            contestants.append(Contestant(name, None, _reason(error), other))
    return contestants


def admit(contestants: list[Contestant], buffers: Buffers, *, by_value: bool) -> list[Contestant]:
    """Call each contestant once; one whose results differ from the eager ones loses its function.

    by_value: whether values must agree, and not only shapes
    """
    expected = None
    admitted = {}
    for contestant in sorted(contestants, key=lambda contestant: contestant.name != EAGER):
        admitted[contestant.name] = contestant
        if contestant.function is None:
            continue
        try:
            arguments = buffers.fill(0, 0)
            returned = contestant.function(*arguments)
            results = tensors(arguments if returned is None else returned)
            if contestant.name == EAGER:
                expected = snapshot(results)
            note = _difference(results, expected, by_value) if expected else ""
        except Exception as error:
            note = _reason(error)
        if note:
            admitted[contestant.name] = replace(contestant, function=None, note=note)
    return [admitted[contestant.name] for contestant in contestants]


def time_in_turn(
    contestants: list[Contestant], buffers: Buffers, timer: CudaTimer, seconds: float
) -> tuple[dict[str, float], clocks.Clocks | None]:
    """Return the median milliseconds by name of contestants that have a function, and the clock.

    Each round calls all of them on the same contents. Every second round reverses the order, and
    after it another contestant comes first.
    """
    times: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    readings = []
    began, rounds = time.monotonic(), 0
    while rounds < MIN_ROUNDS or (rounds < MAX_ROUNDS and time.monotonic() - began < seconds):
        first = rounds // 2 % len(contestants)
        order = contestants[first:] + contestants[:first]
        for contestant in reversed(order) if rounds % 2 else order:
            arguments = buffers.fill(rounds, rounds % len(buffers.contents))
            ms, _ = timer.time(lambda c=contestant, a=arguments: c.function(*a))
            times[contestant.name].append(ms)
        readings.append(clocks.read())
        rounds += 1
    medians = {name: statistics.median(values[WARMUP_ROUNDS:]) for name, values in times.items()}
    return medians, clocks.joined(readings)


def _difference(results: list[torch.Tensor], expected: list[torch.Tensor], by_value: bool) -> str:
    """Return what is wrong with the results, "" if nothing. Trailing ones may be missing."""
    if not results:
        return "returned no tensor"
    for result, right in zip(results, expected, strict=False):
        if result.shape != right.shape:
            return f"wrong shape: {tuple(result.shape)}, not {tuple(right.shape)}"
        if not by_value:
            continue
        if right.itemsize == 1:
            # torch subtracts no 8-bit floats, and a difference of int8 wraps around.
            result, right = result.float(), right.float()
        size = torch.linalg.vector_norm(right.abs().float())
        error = torch.linalg.vector_norm((result.to(right.dtype) - right).abs().float())
        if not error <= MAX_ERROR * size:
            return f"wrong result: relative error {float(error / size):.2g}"
    return ""


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:200]
