"""Ahead-of-time compilation: does a kernel compile for GPUs that are not there, and fit them?

The compiler rejects much that the interpreter runs, and a kernel that compiles may need more shared
memory than a GPU has. Kernels are compiled for the types, alignments and constexprs of their
launches.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import triton

from kernelgauge import words
from kernelgauge.compilation import errors, process, specialization
from kernelgauge.compilation.advice import advice
from kernelgauge.compilation.occupancy import Occupancy, occupancy
from kernelgauge.compilation.targets import Target, find_target
from kernelgauge.core import rebuilt, timeouts
from kernelgauge.core.launch import Launch
from kernelgauge.core.verdict import NotMeasured, Wrong
from kernelgauge.words.fault import Fault, Note, Place, note

# Bits that stand for an asynchronous copy of a whole tile, by a lane.
WHOLE_TILE = 4096
MAX_SECONDS = 60.0
# How many times over a plain kernel has to fit.
PLAIN_TIMES = 8
MAX_THREADS = 1024
# The compiler must answer this long before the time limit of the test ends.
MARGIN_SECONDS = 2.0
# Within less time than this, many a good kernel does not compile.
MIN_FAIR_SECONDS = 10.0
# Of a fault: a kernel needs more of a GPU than there is, and what is told of one that other targets
# need not be tried for.
MISFIT, OUT_OF_TIME = "does-not-fit", "compiles-too-long"


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
    plain: whether its IR is all of `worker.PLAIN`
    registers: per thread
    spills: bytes per thread
    tensor_cores: instructions by name, such as ("wgmma 64x256x16", 4)
    loads, stores: accesses to global memory by their width in bits per thread, as in (128, 8)
    atomics: how many
    copies: asynchronous copies by name and width, 0 where that is not per thread
    barriers: instructions on mbarriers
    partitions: registers a thread that partitions take for themselves, by setmaxnreg
    serialized: whether the assembler waits for each warpgroup's product before the next
    exponentials: in innermost loops, and how many of them while a product of their warpgroup runs
    occupancy: programs on a multiprocessor at a time
    settings: constexprs and options of the launch, for messages
    file: where the kernel is defined
    listings: the stages of compilation as text, if they were asked for
    """

    kernel: str
    target: str
    num_warps: int
    shared: int
    plain: bool = False
    registers: int | None = None
    spills: int | None = None
    tensor_cores: tuple[tuple[str, int], ...] | None = None
    loads: tuple[tuple[int, int], ...] | None = None
    stores: tuple[tuple[int, int], ...] | None = None
    atomics: int | None = None
    copies: tuple[tuple[str, int, int], ...] | None = None
    barriers: int | None = None
    partitions: tuple[int, ...] | None = None
    serialized: bool | None = None
    exponentials: tuple[int, int] | None = None
    loops: tuple[Loop, ...] | None = None
    occupancy: Occupancy | None = None
    settings: str
    file: str = ""
    listings: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def load_bytes(self) -> float:
        """Bytes of a lane's load from global memory, on average."""
        copies = ((bits or WHOLE_TILE, count) for _, bits, count in self.copies or ())
        return _mean_bytes([*(self.loads or ()), *copies])

    @property
    def store_bytes(self) -> float:
        """Bytes of a lane's store to global memory, on average."""
        return _mean_bytes(self.stores or ())

    @property
    def bytes_in_flight(self) -> float:
        """Bytes that all of a program's loads ask for; 0 where copies are of whole tiles."""
        widths = [*(self.loads or ()), *((bits, count) for _, bits, count in self.copies or ())]
        if not all(bits for bits, _ in widths):
            return 0.0
        return 32 * self.num_warps * sum(bits * count for bits, count in widths) / 8

    def asked_by(self, lanes: int, size: int) -> int:
        """Bytes that a load asks for: in one of fewer lanes than threads, some load the same."""
        return max(lanes, 32 * self.num_warps) * size

    @property
    def has_wgmma(self) -> bool:
        """Whether it multiplies by Hopper's instruction for whole warpgroups."""
        return any(name.startswith("wgmma") for name, _ in self.tensor_cores or ())

    @property
    def factor_bits(self) -> int:
        """Bits of a factor that tensor cores multiply, 32 being tf32; 0 without them."""
        for name, _ in self.tensor_cores or ():
            depth = int(name.rpartition("x")[2]) if "x" in name else 16
            # The older instructions are 16 bytes deep, or 32.
            older = name.startswith("mma") and name != "mma 16x8x8"
            return {4: 32, 8: 16 if older else 32, 32: 8}.get(depth, 16)
        return 0


def _copied(compiled: Compiled, *names: str) -> int:
    return sum(count for name, _, count in compiled.copies or () if name in names)


def _overlaps(compiled: Compiled) -> bool:
    count, under = compiled.exponentials or (0, 0)
    return 2 * under > count


# What machine code can be asked for. Copies of whole tiles are as wide as can be.
ASKED: dict[str, Callable[[Compiled], bool]] = {
    "128-bit loads": lambda it: (
        any(bits >= 128 for bits, _ in it.loads or ())
        or any(bits == 0 or bits >= 128 for _, bits, _ in it.copies or ())
    ),
    "128-bit stores": lambda it: (
        any(bits >= 128 for bits, _ in it.stores or ()) or _copied(it, "TMA stores") > 0
    ),
    "asynchronous copies": lambda it: _copied(it, "cp.async", "TMA loads", "bulk copies") > 0,
    "TMA loads": lambda it: _copied(it, "TMA loads") > 0,
    "mbarriers": lambda it: bool(it.barriers),
    "wgmma": lambda it: it.has_wgmma,
    "wgmma in flight": lambda it: it.has_wgmma and not it.serialized,
    "setmaxnreg": lambda it: bool(it.partitions),
    "overlap of most exponentials with wgmma": _overlaps,
}


class DoesNotFit(Wrong):
    """A kernel compiles, and needs more shared memory or threads than a GPU has."""


def check_compiles(
    launches: Iterable[Launch],
    targets: Sequence[str] = ("sm_80", "sm_90"),
    *,
    subject: Path,
    lowered: bool = True,
    machine_code: bool = True,
    details: bool = False,
    spills: int | None = None,
    div_rn: bool = False,
    asked: Sequence[str] = (),
    beside: tuple[str, bool] | None = None,
    time_limit: float = MAX_SECONDS,
) -> list[Compiled]:
    """Compile each distinct kernel of these launches for each target.

    Launches that Triton would serve with one compiled kernel count once. Raises Wrong for the first
    kernel that does not compile or does not fit, with all targets that reject it alike, and
    ValueError for an unknown target.

    subject: the learner's file, which the compiler's process loads
    lowered: whether to go on to LLVM IR, where there is no machine code. Without it the compiler
        stops once shared memory is laid out, in half of that time, and what only the lowering
        refuses is not seen
    machine_code: whether to go on to machine code. Without it the compiler stops where the kernel
        is LLVM IR, in a third of the time; what only LLVM's back end and ptxas refuse (inline
        assembly, registers that do not suffice) is not seen
    details: whether to find registers, spills and kinds of instructions too
    spills: how many bytes a thread may spill to memory, if that is asked
    div_rn: whether each division of floats must be rounded to nearest
    asked: names of `ASKED`, each of which one of the kernels must have for each target
    beside: another target that these kernels are compiled for, and whether to machine code. A plain
        kernel (`worker.PLAIN`) that fits there many times over is not compiled for others, nor
        returned: on sm_80 those of all solutions take at most four times as much shared memory
        as on sm_90, where a tile changes its layout on another way (Triton 3.7.1)
    time_limit: seconds of processor time for one kernel and target
    """
    launches = list(launches)
    details = details or spills is not None or bool(asked)
    gpus = [find_target(name) for name in targets]
    done: list[Compiled] = []
    seen = set()
    for launch in launches:
        request = _request(launch, subject) | {
            "lowered": lowered,
            "machine_code": machine_code or details or div_rn,
            "details": details,
            "listings": False,
            "div_rn": div_rn,
        }
        if repr(request) in seen:
            continue
        seen.add(repr(request))
        faults: list[Fault] = []
        for gpu in gpus:
            stand_in = _made_beside(launch, request, gpu, *beside, time_limit) if beside else None
            if isinstance(stand_in, Compiled):
                continue
            outcome = stand_in or _compile(launch, request, gpu, time_limit)
            if isinstance(outcome, Compiled) and spills is not None:
                outcome = _spilling(launch, gpu, outcome, spills) or outcome
            if isinstance(outcome, Compiled):
                done.append(outcome)
                continue
            faults.append(outcome)
            if outcome.said[0].id == OUT_OF_TIME:
                break
        if faults:
            raise _wrong(faults)
    for gpu in gpus:
        made = [it for it in done if it.target == gpu.name]
        for name in asked:
            if not any(map(ASKED[name], made)):
                raise Wrong(_lacking(launches[0], gpu, name, made[0]))
    return done


def compile_each(
    launches: Iterable[Launch], targets: Sequence[str], *, subject: Path, listings: bool = False
) -> list[dict[str, Compiled | Wrong]]:
    """Compile each distinct kernel of these launches, with details, and go on where one fails.

    Returns for each kernel what was made of it, or why not, by target.

    subject: as in `check_compiles`
    listings: whether to keep the stages of compilation as text
    """
    gpus = {name: find_target(name) for name in targets}
    found: dict[str, dict[str, Compiled | Wrong]] = {}
    for launch in launches:
        request = _request(launch, subject)
        request |= {
            "lowered": True,
            "machine_code": True,
            "details": True,
            "listings": listings,
            "div_rn": False,
        }
        if repr(request) in found:
            continue
        outcomes = found[repr(request)] = {}
        for name, gpu in gpus.items():
            outcome = _compile(launch, request, gpu, MAX_SECONDS)
            outcomes[name] = _wrong([outcome]) if isinstance(outcome, Fault) else outcome
    return list(found.values())


def _request(launch: Launch, subject: Path) -> dict:
    """Return what worker.answer needs to know of a launch."""
    code = launch.kernel.__code__
    if not os.path.isfile(code.co_filename):
        raise NotMeasured(words.say(note("kernel-of-no-file", kernel=launch.kernel.__name__)))
    try:
        arguments = specialization.arguments(launch)
    except specialization.CannotPass as error:
        what = note("cannot-take-argument", kernel=launch.kernel.__name__, why=error.why)
        fault = Fault("not-compiled", (what,), _place(launch), remedy=error.remedy)
        raise Wrong(fault) from None
    return {
        "subject": str(subject.resolve()),
        "module": _module_of(subject),
        "file": code.co_filename,
        "kernel": launch.kernel.__name__,
        "line": code.co_firstlineno,
        "arguments": arguments,
        "options": dict(launch.options),
        "sealed": getattr(launch.kernel, rebuilt.NEEDED, None),
    }


def _module_of(file: Path) -> str:
    """Return what a file can be imported as, "" where it was loaded by its path or is a script."""
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        if spec and getattr(module, "__file__", "") == str(file):
            return spec.name if all(map(str.isidentifier, spec.name.split("."))) else ""
    return ""


def _compile(launch: Launch, request: dict, gpu: Target, time_limit: float) -> Compiled | Fault:
    num_warps = launch.options.get("num_warps", 4)
    if isinstance(num_warps, int) and (fault := _too_many_threads(launch, num_warps, gpu)):
        return fault
    request = request | {"target": (gpu.backend, gpu.arch, gpu.warp_size)}
    try:
        answer, printed = process.compile_kernel(request, time_limit, _time_left())
    except process.TimedOut as error:
        return _timed_out(launch, gpu, error.limit, time_limit)
    except process.Crashed as error:
        return _crash(launch, gpu, error.how, error.printed)
    if "error" in answer:
        return _rejection(launch, gpu, answer["error"], printed)
    if fault := _too_many_threads(launch, answer["num_warps"], gpu):
        return fault
    if answer["shared"] > gpu.shared:
        return _too_much_shared_memory(launch, answer["shared"], gpu)
    # The process keeps its answers.
    used = dict(answer)
    if stale := used.pop("stale_bound"):
        return _stale_bound(launch, gpu, *stale)
    if lines := used.pop("early_release", None):
        return _early_release(launch, gpu, *lines)
    if division := used.pop("inexact_division", None):
        return _inexact_division(launch, gpu, *division)
    if request["details"]:
        used["loops"] = tuple(Loop(*loop) for loop in used["loops"])
        used["file"] = launch.kernel.__code__.co_filename
        used["occupancy"] = occupancy(
            gpu, registers=used["registers"], num_warps=used["num_warps"], shared=used["shared"]
        )
    settings = specialization.settings(launch)
    return Compiled(kernel=launch.kernel.__name__, target=gpu.name, settings=settings, **used)


def _made_beside(
    launch: Launch, request: dict, gpu: Target, name: str, machine_code: bool, time_limit: float
) -> Compiled | Fault | None:
    """Return what another GPU makes of a kernel, None where this one has to be asked, too.

    Returns a Fault if nothing was made in time.
    """
    other = find_target(name)
    if request["machine_code"] or gpu is other or not gpu.is_alike(other):
        return None
    request = request | {"lowered": True, "machine_code": machine_code}
    made = _compile(launch, request, other, time_limit)
    if isinstance(made, Fault):
        return made if made.said[0].id == OUT_OF_TIME else None
    return made if made.plain and PLAIN_TIMES * made.shared <= gpu.shared else None


def _wrong(faults: list[Fault]) -> Wrong:
    """Return the fault that several targets find in a kernel. What does not fit comes last."""
    first = min(faults, key=lambda fault: fault.kind == MISFIT)
    alike = [it for it in faults if (it.place, it.said[0].id) == (first.place, first.said[0].id)]
    head = first.said[0]
    targets = [target for fault in alike for target in fault.said[0].values["targets"]]
    rows = zip_longest(*(fault.said[1:] for fault in alike))
    said = {repr(it): it for row in rows for it in row if it}
    fault = first.but(said=(note(head.id, **{**head.values, "targets": targets}), *said.values()))
    return DoesNotFit(fault) if first.kind == MISFIT else Wrong(fault)


def _head(id: str, launch: Launch, gpu: Target, **values: Any) -> Note:
    """Return the first line about a kernel that a target rejects."""
    return note(id, kernel=launch.kernel.__name__, targets=[str(gpu)], **values)


def _launched(launch: Launch) -> list[Note]:
    settings = specialization.settings(launch)
    return [note("launched-with", settings=settings)] if settings else []


def _early_release(launch: Launch, gpu: Target, store: int, atomic: int) -> Fault:
    """Return the fault of a kernel whose atomic hands on what may not be stored yet."""
    said = _head("hands-on-too-early", launch, gpu), note("atomic-before-stores", store=store)
    place = Place(launch.kernel.__code__.co_filename, atomic)
    return Fault("early-release", said, place, remedy=note("barrier-before-atomic"))


def _stale_bound(launch: Launch, gpu: Target, variable: str, line: int) -> Fault:
    """Return the fault of a kernel with a loop that Triton ends by the first value of a bound."""
    said = (
        _head("runs-otherwise", launch, gpu),
        note("keeps-first-value", version=triton.__version__, variable=variable),
    )
    place = Place(launch.kernel.__code__.co_filename, line) if line else _place(launch)
    return Fault("stale-bound", said, place, remedy=note("bound-of-counter"))


def _inexact_division(launch: Launch, gpu: Target, instruction: str, line: int) -> Fault:
    """Return the fault of a kernel with a division that is not rounded to nearest."""
    said = _head("rounds-divisions-otherwise", launch, gpu), note("division-is", ptx=instruction)
    place = Place(launch.kernel.__code__.co_filename, line) if line else _place(launch)
    return Fault("own-rule", said, place, remedy=note("use-div-rn"))


def _lacking(launch: Launch, gpu: Target, name: str, compiled: Compiled) -> Fault:
    """Return the fault of a kernel whose machine code lacks what was asked for."""
    found = {
        "loads": compiled.loads, "stores": compiled.stores, "copies": compiled.copies,
        "products": compiled.tensor_cores, "serialized": compiled.serialized,
        "exponentials": compiled.exponentials,
    }  # fmt: skip
    said = _head("lacks-in-machine-code", launch, gpu, asked=name), note("found-there", **found)
    remedy = note("to-have-in-machine-code", asked=name)
    return Fault("own-rule", (*said, *_launched(launch)), _place(launch), remedy=remedy)


def _spilling(launch: Launch, gpu: Target, compiled: Compiled, budget: int) -> Fault | None:
    """Return the fault of a kernel that spills more bytes a thread than the budget allows."""
    spilled = compiled.spills
    if spilled is None or spilled <= budget:
        return None
    what = note("bytes-spilled", spilled=spilled, budget=budget, num_warps=compiled.num_warps)
    return Fault(
        "register-spills",
        (_head("spills-registers", launch, gpu), what, *_launched(launch)),
        _place(launch),
        numbers={"spilled": spilled, "budget": budget},
        remedy=note("spread-over-warps"),
    )


def _mean_bytes(widths: Sequence[tuple[int, int]]) -> float:
    """Return the mean of accesses by their width in bits and their number, 16 without any."""
    count = sum(number for _, number in widths)
    return sum(bits * number for bits, number in widths) / 8 / count if count else 16.0


def _time_left() -> float:
    """Return the seconds until the time limit of the test, less the margin."""
    return max(timeouts.seconds_left() - MARGIN_SECONDS, 1.0)


def _too_much_shared_memory(launch: Launch, needed: int, gpu: Target) -> Fault:
    what = note("shared-memory-needed", needed=needed, gpu=str(gpu), limit=gpu.shared)
    return Fault(
        MISFIT,
        (_head("does-not-fit-gpu", launch, gpu), what, *_launched(launch)),
        _place(launch),
        numbers={"shared": needed, "limit": gpu.shared},
        remedy=note("smaller-tiles-or-stages"),
    )


def _too_many_threads(launch: Launch, num_warps: int, gpu: Target) -> Fault | None:
    threads = num_warps * gpu.warp_size
    if threads <= MAX_THREADS:
        return None
    numbers = {"threads": threads, "limit": MAX_THREADS}
    what = note("threads-needed", num_warps=num_warps, gpu=str(gpu), **numbers)
    remedy = note("fewer-warps", most=MAX_THREADS // gpu.warp_size)
    said = _head("does-not-fit-gpu", launch, gpu), what
    return Fault(MISFIT, said, _place(launch), numbers=numbers, remedy=remedy)


def _timed_out(launch: Launch, gpu: Target, limit: float, time_limit: float) -> Fault:
    said = [_head(OUT_OF_TIME, launch, gpu, seconds=limit), *_launched(launch)]
    longer = [note("longer-time-limit")] if limit < time_limit else []
    remedy = longer[0] if longer else None
    if limit >= min(MIN_FAIR_SECONDS, time_limit):
        said, remedy = said + longer, note("less-unrolled-code")
    numbers = {"seconds": limit}
    return Fault("not-compiled", tuple(said), _place(launch), numbers=numbers, remedy=remedy)


def _rejection(launch: Launch, gpu: Target, error: dict, printed: str) -> Fault:
    kernel = launch.kernel.__name__
    if error["kind"] == "NoSuchKernel":
        what = note("import-defines-no-kernel", kernel=kernel)
        said = _head("kernel-not-defined", launch, gpu), what
        return Fault("not-compiled", said, _place(launch), remedy=note("define-at-top-level"))
    if process.caught_crash(printed):
        return _crash(launch, gpu, "", printed)
    head = _head("does-not-compile", launch, gpu)
    if "importing" in error:
        head = _head("import-raises", launch, gpu, error=error["kind"])
    definition = errors.definition(launch.kernel.__code__)
    return errors.rejection(error, printed, definition, head, *_launched(launch))


def _crash(launch: Launch, gpu: Target, how: str, printed: str) -> Fault:
    part = errors.crash(printed)
    said = [_head("compiler-crashed", launch, gpu, how=how)]
    said += [note("compiler-said", text=part)] if part else []
    remedy = advice(printed) or note("smaller-steps")
    if "Cannot select: intrinsic" in printed:
        remedy = note("no-such-instruction")
    else:
        remedy = note("bug-in-triton", version=triton.__version__, remedy=remedy)
    return Fault("not-compiled", (*said, *_launched(launch)), _place(launch), remedy=remedy)


def _place(launch: Launch) -> Place:
    return Place(*errors.definition(launch.kernel.__code__))
