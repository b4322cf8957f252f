"""Time every contestant of a puzzle at one size, by one timer."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from importlib import metadata

import torch

from judge.benchmark.peers import Benchmark, Size, magnitude
from judge.benchmark.tables import EAGER, SOLUTION, Row
from judge.core.tensors import tensors
from judge.speed import roofline
from judge.speed.buffers import Buffers, snapshot
from judge.speed.roofline import Bound, Limits
from judge.speed.timer import CudaTimer
from judge.subject import loader

WARMUP_ROUNDS, MIN_ROUNDS, MAX_ROUNDS = 2, 12, 200

# Another order of sums, or tf32, stays far under this; another function does not.
MAX_ERROR = 0.02

COPY = "copy bandwidth"


@dataclass(frozen=True)
class Contestant:
    """Who runs: what to call, or None and a note that says why it cannot run."""

    name: str
    function: Callable | None
    note: str = ""

    @classmethod
    def ready(cls, name: str, get: Callable[[], Callable]) -> Contestant:
        """A contestant whose function is got by a call that may fail."""
        try:
            return cls(name, get())
        except Exception as error:
            return cls(name, None, _reason(error))


def time_in_turn(
    contestants: list[Contestant], buffers: Buffers, timer: CudaTimer, seconds: float
) -> dict[str, float]:
    """Median milliseconds of each contestant, by name. All of them can run.

    Each round calls all of them on the same contents. Every second round turns the order about, and
    then another begins.
    """
    times: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    began, rounds = time.monotonic(), 0
    while rounds < MIN_ROUNDS or (rounds < MAX_ROUNDS and time.monotonic() - began < seconds):
        first = rounds // 2 % len(contestants)
        order = contestants[first:] + contestants[:first]
        for contestant in reversed(order) if rounds % 2 else order:
            arguments = buffers.fill(rounds, rounds % len(buffers.contents))
            ms, _ = timer.time(lambda c=contestant, a=arguments: c.function(*a))
            times[contestant.name].append(ms)
        rounds += 1
    return {name: statistics.median(values[WARMUP_ROUNDS:]) for name, values in times.items()}


def compare(
    puzzle: str,
    benchmark: Benchmark,
    size: Size,
    dtype: str,
    measured: Limits,
    timer: CudaTimer,
    *,
    device: str = "cuda",
    seconds: float = 0.3,
) -> list[Row]:
    """A row for each contestant at one size, also for those that cannot run."""
    # A graph that was compiled for other sizes counts against dynamo's limit of recompilations.
    torch.compiler.reset()
    contestants = _line_up(puzzle, benchmark)
    times: dict[str, float] = {}
    try:
        buffers = Buffers(benchmark.inputs(size, dtype, device), timer.free_bytes())
        contestants = _admit(contestants, buffers, compared=benchmark.baseline is None)
        if running := [contestant for contestant in contestants if contestant.function]:
            times = time_in_turn(running, buffers, timer, seconds)
    except Exception as error:
        contestants = [
            contestant if contestant.note else replace(contestant, note=_reason(error))
            for contestant in contestants
        ]
    work = benchmark.work(size, dtype)
    bound = measured.bound(*work)
    best = min((ms for name, ms in times.items() if name != SOLUTION), default=None)
    rows = []
    for contestant in contestants:
        ms = times.get(contestant.name)
        row = Row(
            date=date.today().isoformat(),
            device=measured.name,
            torch=torch.__version__,
            triton=metadata.version("triton"),
            puzzle=puzzle,
            size=" x ".join(map(str, size)),
            magnitude=magnitude(size),
            dtype=dtype,
            contestant=contestant.name,
            ms=ms,
            limit_ms=bound.ms if bound else None,
            limit=bound.limit if bound else None,
            share=bound.ms / ms if bound and ms else None,
            rate=_rate(work, bound, ms) if bound and ms else None,
            to_eager=times[EAGER] / ms if ms and EAGER in times else None,
            to_best_peer=best / ms if ms and best else None,
            note=contestant.note,
        )
        rows.append(row)
    return rows


def _line_up(puzzle: str, benchmark: Benchmark) -> list[Contestant]:
    chapter, name = puzzle.partition(":")[0].split("/")
    reference = loader.load_reference(chapter, benchmark.baseline or benchmark.function)

    def contestant(name: str, get: Callable[[], Callable]) -> Contestant:
        return Contestant.ready(name, lambda: benchmark.timed(get()))

    return [
        contestant(SOLUTION, lambda: loader.load_subject(chapter, name, benchmark.function)),
        contestant(EAGER, lambda: reference),
        *(contestant(peer.name, lambda p=peer: p.ready(reference)) for peer in benchmark.peers),
    ]


def _rate(work: tuple, bound: Bound, ms: float) -> str:
    moved, operations = work
    if bound.limit == COPY:
        return roofline.format_si(1e3 * moved / ms, "B/s")
    return roofline.format_si(1e3 * operations[0] / ms, "FLOP/s")


def _admit(
    contestants: list[Contestant], buffers: Buffers, *, compared: bool = True
) -> list[Contestant]:
    """The contestants, those without their function that do not return what the reference does.

    compared: whether the numbers must agree, and not only the shapes
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
            result = arguments if returned is None else returned
            if contestant.name == EAGER:
                expected = tensors(snapshot(result))
            note = _difference(tensors(result), expected, compared) if expected else ""
        except Exception as error:
            note = _reason(error)
        if note:
            admitted[contestant.name] = Contestant(contestant.name, None, note)
    return [admitted[contestant.name] for contestant in contestants]


def _difference(results: list[torch.Tensor], expected: list[torch.Tensor], compared: bool) -> str:
    """What is wrong with a result, "" if nothing. A peer may return the first results only."""
    if not results:
        return "returned no tensor"
    for result, right in zip(results, expected, strict=False):
        if result.shape != right.shape:
            return f"wrong shape: {tuple(result.shape)}, not {tuple(right.shape)}"
        if not compared:
            continue
        size = torch.linalg.vector_norm(right.abs().float())
        error = torch.linalg.vector_norm((result.to(right.dtype) - right).abs().float())
        if not error <= MAX_ERROR * size:
            return f"wrong result: relative error {float(error / size):.2g}"
    return ""


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:200]
