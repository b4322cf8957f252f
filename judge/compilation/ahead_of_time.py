"""Ahead-of-time compilation: does a kernel compile for GPUs that are not there, and fit them?

What the interpreter runs, the compiler may reject, and what compiles may need more shared memory
than a GPU has. Kernels are compiled with the types, alignments and constexprs of their launches.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import triton

from judge.compilation import errors, process, specialization
from judge.compilation.process import Crashed, TimedOut
from judge.compilation.targets import Target, find_target
from judge.core.launch import Launch
from judge.core.paths import display_path
from judge.core.verdict import Wrong

MAX_SECONDS = 60.0
MAX_THREADS = 1024
# Seconds before the end of a test's time limit by which the compiler must have answered.
MARGIN_SECONDS = 2.0
# With less time than this, many kernels do not compile that are none the worse for it.
MIN_FAIR_SECONDS = 10.0
SLOW = (
    "hint: code that is unrolled grows with the tile: take smaller tiles, no long tl.static_range, "
    'and no input_precision="ieee" for the tl.dot of large float32 tiles'
)


@dataclass(frozen=True)
class Compiled:
    """A kernel as compiled for one target.

    settings: constexprs and options of its launch
    shared: bytes of shared memory a program
    The rest is None without details. registers: a thread; spills: bytes a thread; tensor_cores:
    instructions, such as wgmma.mma_async; loads, stores: widths of accesses of global memory, bits
    a thread; copies: asynchronous copies to shared memory, "cp.async" or "TMA".
    """

    target: str
    kernel: str
    settings: str
    shared: int
    num_warps: int
    registers: int | None = None
    spills: int | None = None
    tensor_cores: tuple[str, ...] | None = None
    loads: tuple[int, ...] | None = None
    stores: tuple[int, ...] | None = None
    copies: tuple[str, ...] | None = None


# Headings of the table, and the fields below them.
COLUMNS = {
    "kernel": "kernel",
    "target": "target",
    "warps": "num_warps",
    "shared": "shared",
    "registers": "registers",
    "spills": "spills",
    "tensor cores": "tensor_cores",
    "loads": "loads",
    "stores": "stores",
    "copies": "copies",
    "launched with": "settings",
}


# What a fault says of a kernel that needs more of a GPU than there is.
MISFIT = "does not fit"


class DoesNotFit(Wrong):
    """A kernel compiles, and needs more shared memory or threads than a GPU has."""


@dataclass(frozen=True)
class Fault:
    """Why one target rejects a kernel. The message reads: place, kernel, what, target, body.

    final: the other targets need not be tried
    """

    place: str
    what: str
    body: str
    final: bool = False


def check_compiles(
    launches: Iterable[Launch],
    targets: Sequence[str] = ("sm_80", "sm_90"),
    *,
    subject: Path,
    details: bool = False,
    time_limit: float = MAX_SECONDS,
) -> list[Compiled]:
    """Compile each distinct kernel of these launches for each target.

    subject: the learner's file, which the compiler's process loads
    details: find registers, spills and kinds of instructions too
    time_limit: seconds for one kernel and target

    Launches that Triton would serve by one compiled kernel count once. Raises Wrong for the first
    kernel that does not compile or does not fit, with all its targets, and ValueError for an
    unknown target.
    """
    gpus = [find_target(name) for name in targets]
    done: list[Compiled] = []
    seen = set()
    for launch in launches:
        request = _request(launch, subject) | {"details": details}
        if (key := repr(request)) in seen:
            continue
        seen.add(key)
        faults: dict[Fault, list[Target]] = {}
        for gpu in gpus:
            made = _compiled(launch, request, gpu, time_limit)
            if isinstance(made, Compiled):
                done.append(made)
                continue
            faults.setdefault(made, []).append(gpu)
            if made.final:
                break
        if faults:
            kind = DoesNotFit if all(fault.what == MISFIT for fault in faults) else Wrong
            raise kind("\n".join(_message(launch, *fault) for fault in faults.items()))
    return done


def table(compiled: Sequence[Compiled]) -> str:
    """A line for each compiled kernel and target. Columns that nobody fills are left out."""
    columns = {
        heading: [heading, *(_cell(getattr(one, field)) for one in compiled)]
        for heading, field in COLUMNS.items()
    }
    kept = [cells for cells in columns.values() if any(cells[1:])]
    widths = [max(map(len, cells)) for cells in kept]
    rows = zip(*kept, strict=True)
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "-"
    return f"{value:,}" if isinstance(value, int) else value or ""


def _request(launch: Launch, subject: Path) -> dict:
    code = launch.kernel.__code__
    try:
        arguments = specialization.arguments(launch)
    except specialization.CannotPass as error:
        raise Wrong(f"{_place(launch)}  {launch.kernel.__name__}: {error}") from None
    return {
        "subject": str(subject.resolve()),
        "file": code.co_filename,
        "kernel": launch.kernel.__name__,
        "line": code.co_firstlineno,
        "arguments": arguments,
        "options": dict(launch.options),
    }


def _compiled(launch: Launch, request: dict, gpu: Target, time_limit: float) -> Compiled | Fault:
    place, settings = _place(launch), specialization.settings(launch)
    launched = f"launched with {settings}" if settings else ""
    if fault := _too_many_threads(place, launch.options.get("num_warps", 4), gpu):
        return fault
    limit = min(time_limit, _time_left())
    try:
        answer, printed = process.compiled(
            request | {"target": (gpu.backend, gpu.arch, gpu.warp_size)}, limit
        )
    except TimedOut as error:
        what = f"did not finish compiling within {error.limit:.0f} s"
        hints = [SLOW] if error.limit >= min(MIN_FAIR_SECONDS, time_limit) else []
        if error.limit < time_limit:
            hints.append(
                "hint: no more of the test's time was left: --time-limit SECONDS gives more"
            )
        return Fault(place, what, _lines(launched, *hints), final=True)
    except Crashed as error:
        return _crash(place, error.how, error.printed, launched)
    if "error" in answer:
        return _rejection(launch, place, answer["error"], printed, launched)
    if fault := _too_many_threads(place, answer["num_warps"], gpu):
        return fault
    if answer["shared"] > gpu.shared:
        needs = f"it needs {answer['shared']:,} bytes of shared memory a program"
        has = f"{gpu} has {gpu.shared:,}"
        hint = "hint: use smaller tiles or fewer num_stages"
        return Fault(place, MISFIT, _lines(f"{needs}, {has}", launched, hint))
    return Compiled(gpu.name, launch.kernel.__name__, settings, **answer)


def _time_left() -> float:
    """Seconds until the time limit of the whole test (faults.time_limit), without the margin."""
    left = signal.getitimer(signal.ITIMER_REAL)[0]
    return max(left - MARGIN_SECONDS, 1.0) if left else math.inf


def _too_many_threads(place: str, num_warps: int, gpu: Target) -> Fault | None:
    threads = num_warps * gpu.warp_size
    if threads <= MAX_THREADS:
        return None
    makes = f"num_warps={num_warps} makes {threads:,} threads a program, {gpu} has {MAX_THREADS:,}"
    hint = f"hint: num_warps can be {MAX_THREADS // gpu.warp_size} at most"
    return Fault(place, MISFIT, _lines(makes, hint))


def _rejection(launch: Launch, place: str, error: dict, printed: str, launched: str) -> Fault:
    if error["kind"] == "NoSuchKernel":
        hint = "hint: define it at the top level of the file, under @triton.jit"
        found = f"importing the file did not define {error['message']}"
        return Fault(place, "cannot be compiled", _lines(found, hint))
    if process.caught_crash(printed):
        return _crash(place, "", printed, launched)
    kernel = errors.definition(launch.kernel.__code__)
    where, body = errors.rejection(error, printed, kernel, launched)
    what = "does not compile"
    if "importing" in error:
        what = f"cannot be compiled: the import without TRITON_INTERPRET raised {error['kind']}"
    return Fault(where, what, body)


def _crash(place: str, how: str, printed: str, launched: str) -> Fault:
    what = f"crashed the compiler itself ({how})" if how else "crashed the compiler itself"
    hint = (
        f"hint: this is a fault of Triton {triton.__version__}: write the kernel another way, "
        "in smaller steps, until it compiles"
    )
    return Fault(place, what, _lines(errors.crash(printed), launched, hint))


def _message(launch: Launch, fault: Fault, gpus: list[Target]) -> str:
    names = ", ".join(gpu.name for gpu in gpus)
    return f"{fault.place}  {launch.kernel.__name__} {fault.what} for {names}\n{fault.body}"


def _place(launch: Launch) -> str:
    file, line = errors.definition(launch.kernel.__code__)
    return f"{display_path(file)}:{line}"


def _lines(*lines: str) -> str:
    return "\n".join(line for line in lines if line)
