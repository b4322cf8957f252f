"""Ahead-of-time compilation: does a kernel compile for GPUs that are not there, and fit them?

The compiler rejects much that the interpreter runs, and a kernel that compiles may need more shared
memory than a GPU has. Kernels are compiled for the types, alignments and constexprs of their
launches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import triton

from kernelgauge.compilation import errors, process, specialization
from kernelgauge.compilation.advice import advice
from kernelgauge.compilation.occupancy import Occupancy, occupancy
from kernelgauge.compilation.targets import Target, find_target
from kernelgauge.core import timeouts
from kernelgauge.core.launch import Launch
from kernelgauge.core.paths import display_path
from kernelgauge.core.verdict import Wrong

MAX_SECONDS = 60.0
MAX_THREADS = 1024
# The compiler must answer this long before the time limit of the test ends.
MARGIN_SECONDS = 2.0
# Within less time than this, many a good kernel does not compile.
MIN_FAIR_SECONDS = 10.0


class Loop(NamedTuple):
    """An innermost loop: its instructions, and those for tensor cores.

    lines: file and number of each line of source, and how many instructions are from there
    """

    instructions: int
    tensor_cores: int
    lines: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A kernel as compiled for one target. What is not found without details is None.

    shared: bytes of shared memory per program
    registers: per thread
    spills: bytes per thread
    tensor_cores: instructions by name, such as ("wgmma 64x256x16", 4)
    loads, stores: accesses to global memory by their width in bits per thread, as in (128, 8)
    atomics: how many
    copies: asynchronous copies by name and width, 0 where that is not per thread
    occupancy: programs on a multiprocessor at a time
    settings: constexprs and options of the launch, for messages
    file: where the kernel is defined
    listings: the stages of compilation as text, if they were asked for
    """

    kernel: str
    target: str
    num_warps: int
    shared: int
    registers: int | None = None
    spills: int | None = None
    tensor_cores: tuple[tuple[str, int], ...] | None = None
    loads: tuple[tuple[int, int], ...] | None = None
    stores: tuple[tuple[int, int], ...] | None = None
    atomics: int | None = None
    copies: tuple[tuple[str, int, int], ...] | None = None
    loops: tuple[Loop, ...] | None = None
    occupancy: Occupancy | None = None
    settings: str
    file: str = ""
    listings: dict[str, str] = field(default_factory=dict, compare=False)


# What a fault says of a kernel that needs more of a GPU than there is.
MISFIT = "does not fit"


class DoesNotFit(Wrong):
    """A kernel compiles, and needs more shared memory or threads than a GPU has."""


@dataclass(frozen=True)
class Fault:
    """Why one target rejects a kernel. The message reads: place, kernel, what, target, body.

    final: whether to skip the other targets
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
    machine_code: bool = True,
    details: bool = False,
    spills: int | None = None,
    time_limit: float = MAX_SECONDS,
) -> list[Compiled]:
    """Compile each distinct kernel of these launches for each target.

    Launches that Triton would serve with one compiled kernel count once. Raises Wrong for the first
    kernel that does not compile or does not fit, with all targets that reject it, and ValueError
    for an unknown target.

    subject: the learner's file, which the compiler's process loads
    machine_code: whether to go on to machine code. Without it the compiler stops where the kernel
        is LLVM IR and its shared memory is known, in a third of the time; what only LLVM's back
        end and ptxas refuse (inline assembly, registers that do not suffice) is not seen
    details: whether to find registers, spills and kinds of instructions too
    spills: how many bytes a thread may spill to memory, if that is asked
    time_limit: seconds of processor time for one kernel and target
    """
    details = details or spills is not None
    gpus = [find_target(name) for name in targets]
    done: list[Compiled] = []
    seen = set()
    for launch in launches:
        request = _request(launch, subject) | {
            "machine_code": machine_code or details,
            "details": details,
            "listings": False,
        }
        if repr(request) in seen:
            continue
        seen.add(repr(request))
        faults: dict[Fault, list[Target]] = {}
        for gpu in gpus:
            outcome = _compile(launch, request, gpu, time_limit)
            if isinstance(outcome, Compiled) and spills is not None:
                outcome = _spilling(launch, outcome, spills) or outcome
            if isinstance(outcome, Compiled):
                done.append(outcome)
                continue
            faults.setdefault(outcome, []).append(gpu)
            if outcome.final:
                break
        if faults:
            kind = DoesNotFit if all(fault.what == MISFIT for fault in faults) else Wrong
            raise kind("\n".join(_message(launch, *fault) for fault in faults.items()))
    return done


def compile_each(
    launches: Iterable[Launch], targets: Sequence[str], *, subject: Path, listings: bool = False
) -> list[dict[str, Compiled | Wrong]]:
    """Compile each distinct kernel of these launches, with details, and go on where one fails.

    Returns for each kernel what was made of it, or the message of why not, by target.

    subject: as in `check_compiles`
    listings: whether to keep the stages of compilation as text
    """
    gpus = {name: find_target(name) for name in targets}
    found: dict[str, dict[str, Compiled | Wrong]] = {}
    for launch in launches:
        request = _request(launch, subject)
        request |= {"machine_code": True, "details": True, "listings": listings}
        if repr(request) in found:
            continue
        outcomes = found[repr(request)] = {}
        for name, gpu in gpus.items():
            outcome = _compile(launch, request, gpu, MAX_SECONDS)
            if isinstance(outcome, Fault):
                kind = DoesNotFit if outcome.what == MISFIT else Wrong
                outcome = kind(_message(launch, outcome, [gpu]))
            outcomes[name] = outcome
    return list(found.values())


def _request(launch: Launch, subject: Path) -> dict:
    """Return what worker.answer needs to know of a launch."""
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


def _compile(launch: Launch, request: dict, gpu: Target, time_limit: float) -> Compiled | Fault:
    place, settings = _place(launch), specialization.settings(launch)
    launched = f"launched with {settings}" if settings else ""
    num_warps = launch.options.get("num_warps", 4)
    if isinstance(num_warps, int) and (fault := _too_many_threads(place, num_warps, gpu)):
        return fault
    request = request | {"target": (gpu.backend, gpu.arch, gpu.warp_size)}
    try:
        answer, printed = process.compile_kernel(request, time_limit, _time_left())
    except process.TimedOut as error:
        return _timed_out(place, error.limit, time_limit, launched)
    except process.Crashed as error:
        return _crash(place, error.how, error.printed, launched)
    if "error" in answer:
        return _rejection(launch, place, answer["error"], printed, launched)
    if fault := _too_many_threads(place, answer["num_warps"], gpu):
        return fault
    if answer["shared"] > gpu.shared:
        needs = f"it needs {answer['shared']:,} bytes of shared memory per program"
        hint = "hint: use smaller tiles or fewer num_stages"
        body = _lines(f"{needs}, {gpu} has {gpu.shared:,}", launched, hint)
        return Fault(place, MISFIT, body)
    # The process keeps its answers.
    used = dict(answer)
    if lines := used.pop("early_release", None):
        return _early_release(launch, *lines)
    if request["details"]:
        used["loops"] = tuple(Loop(*loop) for loop in used["loops"])
        used["file"] = launch.kernel.__code__.co_filename
        used["occupancy"] = occupancy(
            gpu, registers=used["registers"], num_warps=used["num_warps"], shared=used["shared"]
        )
    kernel = launch.kernel.__name__
    return Compiled(kernel=kernel, target=gpu.name, settings=settings, **used)


def _early_release(launch: Launch, store: int, atomic: int) -> Fault:
    """Return the fault of a kernel whose atomic hands on what may not be stored yet."""
    file = display_path(Path(launch.kernel.__code__.co_filename))
    body = (
        "one thread does this atomic for its program, and other threads may still be at the "
        f"tl.store in line {store}: whoever acquires it may load what is not there yet\n"
        "hint: tl.debug_barrier() before the atomic lets all threads of the program store first"
    )
    return Fault(f"{file}:{atomic}", "lets others load what it may still be storing", body)


def _spilling(launch: Launch, compiled: Compiled, budget: int) -> Fault | None:
    """Return the fault of a kernel that spills more bytes a thread than the budget allows."""
    if compiled.spills is None or compiled.spills <= budget:
        return None
    body = _lines(
        f"{compiled.spills:,} bytes per thread go out to memory and come back, but the budget is "
        f"{budget}: with num_warps={compiled.num_warps} a thread holds more values than registers",
        f"launched with {compiled.settings}" if compiled.settings else "",
        "hint: a program keeps its tile in registers: spread it over more warps, or take a "
        "smaller one",
    )
    return Fault(_place(launch), "spills registers to memory", body)


def _time_left() -> float:
    """Return the seconds until the time limit of the test, less the margin."""
    return max(timeouts.seconds_left() - MARGIN_SECONDS, 1.0)


def _too_many_threads(place: str, num_warps: int, gpu: Target) -> Fault | None:
    threads = num_warps * gpu.warp_size
    if threads <= MAX_THREADS:
        return None
    body = (
        f"num_warps={num_warps} makes {threads:,} threads per program, {gpu} has {MAX_THREADS:,}\n"
        f"hint: num_warps can be at most {MAX_THREADS // gpu.warp_size}"
    )
    return Fault(place, MISFIT, body)


def _timed_out(place: str, limit: float, time_limit: float, launched: str) -> Fault:
    hints = []
    if limit >= min(MIN_FAIR_SECONDS, time_limit):
        hints.append(
            "hint: unrolled code grows with the tile: use smaller tiles, avoid a long "
            'tl.static_range, and avoid input_precision="ieee" in the tl.dot of large float32 tiles'
        )
    if limit < time_limit:
        hints.append("hint: the test had no more time left: --time-limit SECONDS allows more")
    what = f"did not finish compiling within {limit:.0f} s"
    return Fault(place, what, _lines(launched, *hints), final=True)


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
    remedy = advice(printed) or (
        "write the kernel in another way, in smaller steps, until it compiles"
    )
    hint = f"hint: this is a bug in Triton {triton.__version__}: {remedy}"
    return Fault(place, what, _lines(errors.crash(printed), launched, hint))


def _message(launch: Launch, fault: Fault, gpus: list[Target]) -> str:
    names = ", ".join(gpu.name for gpu in gpus)
    return f"{fault.place}  {launch.kernel.__name__} {fault.what} for {names}\n{fault.body}"


def _place(launch: Launch) -> str:
    file, line = errors.definition(launch.kernel.__code__)
    return f"{display_path(file)}:{line}"


def _lines(*lines: str) -> str:
    return "\n".join(line for line in lines if line)
