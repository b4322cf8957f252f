"""Run a subject under guard, and check what must hold whatever values its results have."""

from __future__ import annotations

import bdb
import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes
from triton.compiler.errors import CompilationError

from kernelgauge import words
from kernelgauge.compilation import errors
from kernelgauge.core import blame, crash_notes, gpus, timeouts
from kernelgauge.core.arguments import Arguments, describe_value
from kernelgauge.core.dtypes import rounds
from kernelgauge.core.functions import launcher_name
from kernelgauge.core.launch import Launch, LaunchLog
from kernelgauge.core.paths import display_path
from kernelgauge.core.settings import settings
from kernelgauge.core.tensors import flat, put, share_elements, storage_of, tensors
from kernelgauge.core.verdict import NotMeasured, Unsolved, Verdict, Wrong
from kernelgauge.memory.executor import KernelError, at_ends, region_name
from kernelgauge.memory.recording import Recording
from kernelgauge.memory.watch import Programs, Watch
from kernelgauge.subject import tamper, unwritten
from kernelgauge.subject.audit import REMEDY
from kernelgauge.subject.autotuning import ConfigSweep
from kernelgauge.subject.canaries import Arena, is_huge
from kernelgauge.subject.guard import MAX_SCALARS_READ, Guard
from kernelgauge.subject.hidden import Hidden
from kernelgauge.subject.late_rank import LateGpu, LateLaunches, Lateness, names_by_rank
from kernelgauge.subject.launch_recorder import Recorder
from kernelgauge.words.fault import Call, Fault, Note, note


@dataclass
class Outcome:
    """The outcome of one run.

    results: the returned tensors, or the inputs that the subject changed in place
    watch: what was observed in the interpreter; None on a GPU
    configs: how many configs an autotuner could choose from, 1 without an autotuner
    config: the config that was used, for messages; "" without an autotuner
    zeroed: the kernels' parameters that `reset_to_zero` of an autotuner names
    declared: how many different configs each autotuned kernel had before pruning
    """

    results: tuple[torch.Tensor, ...]
    launches: list[Launch]
    watch: Watch | None
    configs: int
    config: str
    zeroed: Sequence[str] = ()
    declared: Mapping[Callable, int] = field(default_factory=dict)


class GuardedCall:
    """A subject and its arguments in guarded memory, to be run several times.

    path: the learner's file
    in_place: names of the parameters that the subject changes
    readable: how many scalars the launcher may read back; None if any number
    interpreted: whether kernels run in the interpreter, under a Watch
    strict: whether kernels of its own must do all the work, for graded people: see `Kernel`
    named: what messages call a result, by its number and the number of results
    fixed_order: whether kernels must add floats in an order that something fixes
    case: the test's name, as `Watch` takes it
    explains: whether it looks for why something was not stored, which takes another run
    """

    def __init__(
        self,
        subject: Callable,
        path: Path,
        arguments: Arguments,
        *,
        in_place: tuple[str, ...] = (),
        readable: int | None = MAX_SCALARS_READ,
        interpreted: bool,
        strict: bool = True,
        named: Callable[[int, int], str] | None = None,
        fixed_order: bool = False,
        case: str = "",
    ):
        self.fixed_order, self.case, self.explains = fixed_order, case, True
        self.named = named or name_of
        self.subject, self.path, self.in_place = subject, path, in_place
        self.readable, self.interpreted, self.strict = readable, interpreted, strict
        # A huge storage is not copied: the subject changes that tensor itself.
        self.original = arguments.map(
            lambda name, x: x.clone() if name in in_place and is_huge(x) else x
        )
        self.arenas: dict[str, Arena] = {}
        self._earlier: list[torch.Tensor] = []
        self._sweep: ConfigSweep | None = None
        # The ranks of allocations, by their numbers, as the last run returned them.
        self._ranks: dict[int, int] = {}
        self.arguments = arguments.map(self._place)

    def _place(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if is_huge(tensor):
            return tensor
        self.arenas[name] = Arena.like(tensor, name)
        return self.arenas[name].tensor

    def fill_with_decoys(self) -> None:
        """Put other values into the same memory, to expose subjects that reuse earlier results."""
        for name, arena in self.arenas.items():
            tensor = self.original.tensors[name]
            if rounds(tensor.dtype) and tensor.itemsize > 1:
                tensor = -tensor.flip(tuple(range(tensor.dim())))
            arena.fill(tensor)

    def restore(self) -> None:
        """Put the original values back into the same memory."""
        for name, tensor in self.original.tensors.items():
            if name in self.arenas:
                self.arenas[name].fill(tensor)
            elif name in self.in_place:
                put(self.arguments.tensors[name], tensor)

    def run(
        self,
        *,
        order: str = "ascending",
        poison: bool = True,
        count: bool = False,
        programs: Programs = "all",
        config: int | None = None,
        seed: int = 0,
        as_started: bool = False,
        rehearse: bool = True,
        restores: bool = False,
        late: Lateness | None = None,
        record: Recording | None = None,
        hide: bool = True,
    ) -> Outcome:
        """Call the subject once, and check launches, memory and inputs.

        Raises Unsolved, Wrong, or NotMeasured if the launcher needs programs that did not run. All
        options but `config` concern the interpreter only.

        order: in which the programs of each launch run, as `Watch` takes it
        seed: of the shuffled order
        as_started: whether no more programs begin than a GPU runs at once, until others end
        poison: whether masked lanes of loads without `other` are NaN
        count: whether to record the traffic of each access
        programs: which of each launch run: "all", the first and the last and a few in between
            ("ends"), a few that stand for all ("some"), "none", where only the grids are checked,
            or those that a function chooses of so many
        config: index of the autotuner's config; by default that of the previous run
        rehearse: whether an autotuned kernel runs once more before its first launch for a tuning
            key, as where Triton times it; not where traffic is counted
        restores: whether an autotuner's `reset_to_zero` puts tensors back instead
        late: which rank is late. The contents of the inputs are then to be restored
        record: keeps what is touched, and lets the kernel go on where it would be wrong
        hide: whether, in a strict run, the inputs hold their contents for kernels alone
        """
        if late and not self.interpreted:
            return self._run_on_late_gpu(late)
        guard = Guard(self.path.stem, self.readable, strict=self.strict)
        once = count or record is not None
        sweep = self._sweep_for(config, guard, rehearse=rehearse and not once)
        sweep.restores = restores
        snapshots = {name: arena.buffer.clone() for name, arena in self.arenas.items()}
        log = self._launch_log(
            guard,
            order=order,
            poison=poison,
            count=count,
            programs=programs,
            seed=seed,
            as_started=as_started,
            record=record,
        )
        all_run = programs == "all" or not self.interpreted
        hides = self.hides and hide and all_run and not late
        hidden = Hidden({name: arena.tensor for name, arena in self.arenas.items() if hides})
        if isinstance(log, Watch):
            log.showing = guard.showing = hidden.showing
        else:
            self._expect_kernels_to_change(guard)
        with hidden.hiding():
            returned = self._call(guard, sweep, log, all_run, late)
        try:
            hidden.check()
            guard.check_canaries()
            if not late:
                self._check_inputs(snapshots, log)
            results = self._results(returned)
            if self.arguments.lists and not late:
                self._note_ranks(results, guard)
            if self.strict:
                self._check_launches(log.launches, results, guard)
            self._check_own_memory(results, guard)
            if isinstance(log, Watch):
                self._check_not_stored_to(log)
                unset = (arena for arena in guard.arenas if not (arena.filled or arena.written))
                log.check_set([arena.tensor for arena in unset])
            if all_run and not self.in_place:
                self._check_stored(results, guard, log)
            if programs == "ends" and isinstance(log, Watch) and not self.in_place:
                self._check_room(results, guard, log)
        except Wrong as wrong:
            raise Wrong(self._called(wrong.fault)) from None
        watch = log if isinstance(log, Watch) else None
        if watch and watch.traffic:
            names = [self.named(number, len(results)) for number in range(len(results))]
            watch.traffic.name_results(results, names)
            own = [arena.tensor for arena in guard.arenas]
            given = {storage_of(tensor) for tensor in self.arguments.tensors.values()}
            made = [tensor for tensor in guard.unguarded if storage_of(tensor) not in given]
            watch.traffic.name_allocated([*own, *made])
        used, zeroed, declared = "; ".join(sweep.used), sweep.zeroed, sweep.declared
        return Outcome(results, log.launches, watch, self.configs, used, zeroed, declared)

    def _called(self, fault: Fault) -> Fault:
        """Return a fault that has no place with the call in its stead."""
        if fault.place or fault.call:
            return fault
        return fault.but(call=Call(str(self.path), launcher_name(self.subject)))

    @property
    def devices(self) -> set[torch.device]:
        """What the inputs lie on."""
        return {tensor.device for tensor in self.arguments.tensors.values()}

    @property
    def hides(self) -> bool:
        """Whether a launcher is kept from the numbers in the inputs."""
        return self.strict and self.interpreted

    @property
    def configs(self) -> int:
        """How many configurations an autotuner had in the last run, 1 without one."""
        return max(1, self._sweep.count) if self._sweep else 1

    def forget_tuning(self) -> None:
        """Let the next run tune its kernels again, with the config of the previous run."""
        if self._sweep:
            self._sweep = ConfigSweep(self._sweep.index, rehearse=self._sweep.rehearse)

    def _sweep_for(self, config: int | None, guard: Guard, *, rehearse: bool) -> ConfigSweep:
        """Return the sweep of the previous run if it fits, since it remembers its tuning keys.

        A run whose traffic is counted is not rehearsed, and needs a sweep of its own.
        """
        if config is None:
            config = self._sweep.index if self._sweep else 0
        if self._sweep is None or (self._sweep.index, self._sweep.rehearse) != (config, rehearse):
            self._sweep = ConfigSweep(config, rehearse=rehearse)
        self._sweep.outside_guard = lambda: self._run_hook(guard)
        return self._sweep

    def _run_on_late_gpu(self, late: Lateness) -> Outcome:
        """Call the subject without a guard, which would wait for the GPUs between its launches."""
        run = LateGpu(self.subject, late, self.arenas, self.original.tensors)
        with self._untouched(), run.running():
            returned = self.subject(*self.arguments.positional, **self.arguments.keyword)
        return Outcome(self._results(returned), [], None, 1, "")

    def _untouched(self) -> contextlib.AbstractContextManager:
        # Nothing of a sealed subject runs here.
        watched = self.strict and not settings.sealed
        return tamper.untouched(self.path) if watched else contextlib.nullcontext()

    @contextlib.contextmanager
    def _with_late_rank(
        self, log: LaunchLog, guard: Guard, late: Lateness | None
    ) -> Iterator[None]:
        if late is None or not isinstance(log, Watch):
            yield
            return
        given = (self.subject, late, self.arenas, self.original.tensors)
        run = LateLaunches(*given, rank_of=partial(self._rank_of, guard))
        log.puts_off = run.puts_off
        with run.running():
            yield

    def _note_ranks(self, results: tuple[torch.Tensor, ...], guard: Guard) -> None:
        ranks = max(len(names_by_rank(self.arguments.tensors)), 1)
        numbers = {storage_of(arena.buffer): n for n, arena in enumerate(guard.arenas)}
        self._ranks = {
            numbers[storage_of(result)]: place % ranks
            for place, result in enumerate(results)
            if storage_of(result) in numbers
        }

    def _rank_of(self, guard: Guard, storage: int, owners: Mapping[int, int]) -> int | None:
        """Return the rank of a tensor: its owner's, or that which it was made like or returned to.

        owners: the ranks of the inputs, by their storages
        """
        for number, arena in enumerate(guard.arenas):
            if storage_of(arena.buffer) == storage and number in self._ranks:
                return self._ranks[number]
        while storage in guard.like and storage not in owners:
            storage = guard.like[storage]
        return owners.get(storage)

    def _call(
        self,
        guard: Guard,
        sweep: ConfigSweep,
        log: LaunchLog,
        all_run: bool,
        late: Lateness | None = None,
    ) -> object:
        """Return what the subject returns. all_run: whether all programs of its launches run."""
        try:
            late_rank = self._with_late_rank(log, guard, late)
            if not self.interpreted:
                # What fills a peer's memory is not the subject's to wait for.
                gpus.synchronize()
            with self._untouched(), sweep, log, late_rank, guard.watching(), timeouts.steps():
                returned = self.subject(*self.arguments.positional, **self.arguments.keyword)
            if not self.interpreted:
                _synchronize()
        except BaseException as error:
            if timeouts.ends_the_run(error) or isinstance(error, NotMeasured):
                raise
            if guard.violations:
                raise Wrong(guard.violations[0]) from error
            if self.strict and blame.is_unsolved(error, self.path):
                stub = note("edit-the-stub", file=display_path(self.path))
                raise Unsolved(words.say(stub)) from None
            reads = guard.scalars or not self.strict
            if not all_run and reads and not isinstance(error, Verdict):
                raise NotMeasured(words.say(note("reads-what-was-not-computed"))) from None
            _end_worker_if_context_is_dead(error)
            cause = error.__cause__ if isinstance(error, KernelError) else error
            if cause and _quits_debugger(cause):
                place = blame.graded_place(cause.__traceback__, self.path)
                remedy = note("continue-in-the-debugger")
                fault = Fault("debugger-left", (note("debugger-left"),), place, remedy=remedy)
                raise Wrong(self._called(fault)) from error
            room = errors if isinstance(error, CompilationError) else blame
            fault = room.explain(error, self.path)
            # What the compiler would say too, and has a known remedy.
            if isinstance(error, KernelError) and not fault.remedy:
                fault = fault.but(remedy=errors.remedy(error.__cause__, fault.place))
            raise Wrong(self._called(fault)) from error
        if guard.violations:
            raise Wrong(guard.violations[0])
        if (guard.readable, guard.strict) != (self.readable, self.strict):
            said = note("was-replaced", name="kernelgauge.subject.guard: its limits")
            raise Wrong(self._called(Fault("tampering", (said,), remedy=REMEDY)))
        return returned

    @contextlib.contextmanager
    def _run_hook(self, guard: Guard) -> Iterator[None]:
        """Let an autotuner's hook write with torch in the body, as `reset_to_zero` does."""
        with _disable_current_modes(), guard.showing():
            yield
            for arena in guard.arenas:
                guard.on_allocation(arena.tensor)
            self._expect_kernels_to_change(guard)

    def _expect_kernels_to_change(self, guard: Guard) -> None:
        """Expect only kernels to change, on a GPU, what the subject changes in place."""
        if not self.interpreted:
            for name in self.in_place:
                guard.on_allocation(self.arguments.tensors[name])

    def _launch_log(self, guard: Guard, **options: Any) -> LaunchLog:
        options |= {"inputs": self.arguments.tensors, "fixed_order": self.fixed_order}
        options["case"] = self.case
        log = Watch(**options) if self.interpreted else Recorder()
        if self.strict:
            guard.on_allocation = log.remember
        elif isinstance(log, Watch):
            guard.on_allocation = partial(log.know, name="an allocation")
        return log

    def _results(self, returned: object) -> tuple[torch.Tensor, ...]:
        if self.in_place:
            if returned is not None and self.strict:
                raise _wrong_form("returned-not-none", value=describe_value(returned))
            return tuple(self.arguments.tensors[name] for name in self.in_place)
        if self.arguments.lists:
            results = flat(returned)
        else:
            results = returned if isinstance(returned, tuple) else (returned,)
        for number, result in enumerate(results):
            name = self.named(number, len(results))
            if result is None:
                raise _wrong_form("returned-none", result=name)
            if type(result) is not torch.Tensor:
                value = describe_value(result)
                raise _wrong_form("returned-no-tensor", value=value, result=name)
        return results

    def _inputs_are_empty(self) -> bool:
        """Return whether no input has elements. The result is a constant then, without a kernel."""
        sizes = [tensor.numel() for tensor in self.arguments.tensors.values()]
        return bool(sizes) and not any(sizes)

    def _needs_no_launch(self, results: tuple[torch.Tensor, ...], guard: Guard) -> bool:
        """Return whether an empty input leaves nothing to compute. Values are compared later."""
        if self.in_place:
            return not all(tensor.numel() for tensor in self.arguments.tensors.values())
        constant = all(not result.numel() or guard.has_filled(result) for result in results)
        return self._inputs_are_empty() and constant

    def _check_launches(
        self, launches: list[Launch], results: tuple[torch.Tensor, ...], guard: Guard
    ) -> None:
        for launch in launches:
            file = launch.kernel.__code__.co_filename
            if not blame.is_graded_file(file) and Path(file).resolve() != self.path.resolve():
                name = launch.kernel.__name__
                said = note("launches-a-foreign-kernel", kernel=name, file=file)
                raise Wrong(Fault("outside-kernel", (said,)))
            self._check_given(launch, guard)
        self._check_gpus(launches)
        needed = any(result.numel() for result in results)
        if not launches and needed and not self._needs_no_launch(results, guard):
            taken = self._taken()
            known = [taken[s] for s in map(storage_of, results) if s in taken]
            if self._inputs_are_empty() and not known:
                said, remedy = note("no-launch-for-empty"), note("fill-sum-of-nothing")
            else:
                said = note("no-launch", memory=known[0]) if known else note("no-launch")
                remedy = note("launch-in-every-call")
            raise Wrong(Fault("no-launch", (said,), remedy=remedy))

    def _check_gpus(self, launches: list[Launch]) -> None:
        """Raise Wrong if the work of all ranks is not done by the GPUs that they lie on."""
        ranks = len(names_by_rank(self.arguments.tensors)) if self.arguments.lists else 0
        idle = {device.index for device in self.devices} - {launch.gpu for launch in launches}
        if not self.interpreted and ranks > 1 and len(launches) >= ranks and idle:
            said, remedy = note("no-launch-on-gpu", gpu=min(idle)), note("launch-on-the-ranks-gpu")
            raise Wrong(Fault("wrong-gpu", (said,), remedy=remedy))

    def _check_given(self, launch: Launch, guard: Guard) -> None:
        """Raise Wrong if a kernel is given memory that no guard has seen being allocated."""
        given = {storage_of(tensor) for tensor in self.arguments.tensors.values()}
        passed = [
            (name, tensor)
            for name, value in launch.arguments.items()
            for tensor in tensors(getattr(value, "base", value))
            if tensor.numel()
        ]
        for name, tensor in passed:
            if storage_of(tensor) not in given and not guard.has_seen(tensor):
                kernel = launch.kernel.__name__
                said = note("launches-on-foreign-memory", kernel=kernel, tensor=name)
                remedy = note("allocate-in-the-launcher")
                raise Wrong(Fault("outside-kernel", (said,), tensor=name, remedy=remedy))

    def _check_inputs(self, snapshots: dict[str, torch.Tensor], log: LaunchLog) -> None:
        for name, arena in self.arenas.items():
            try:
                arena.check(None if name in self.in_place else snapshots[name])
            except Wrong as wrong:
                fault = wrong.fault
                if fault.kind == "input-changed":
                    place = (
                        log.line_that_stores_to(arena.tensor) if isinstance(log, Watch) else None
                    )
                    remedy = _swapped(log.launches, name, arena.tensor)
                    fault = fault.but(place=place, remedy=remedy)
                raise Wrong(fault) from None

    def _check_not_stored_to(self, watch: Watch) -> None:
        for name, arena in self.arenas.items():
            place = None if name in self.in_place else watch.line_that_stores_to(arena.tensor)
            if place:
                said = note("input-stored-to", tensor=name)
                raise Wrong(Fault("input-changed", (said,), place, tensor=name))

    def _check_own_memory(self, results: tuple[torch.Tensor, ...], guard: Guard) -> None:
        if self.in_place:
            return
        taken = self._taken()
        for number, result in enumerate(results):
            storage, name = storage_of(result), self.named(number, len(results))
            if result.numel() and storage in taken:
                said = note("returned-taken-memory", result=name, memory=taken[storage])
                raise Wrong(Fault("not-own-memory", (said,), tensor=name))
            if not self.strict:
                continue
            if result.numel() and not guard.owns(result):
                said = note("returned-foreign-memory", result=name)
                raise Wrong(Fault("not-own-memory", (said,), tensor=name))
            for other, before in enumerate(results[:number]):
                if storage_of(before) == storage and (
                    self.arguments.lists or share_elements(before, result)
                ):
                    whose = note("memory-of-a-result", result=self.named(other, len(results)))
                    said = note("returned-taken-memory", result=name, memory=whose)
                    raise Wrong(Fault("not-own-memory", (said,), tensor=name))
        self._earlier.extend(results)

    def _taken(self) -> dict[int, Note]:
        """Return what memory a result must not lie in, and whose it is."""
        given = {
            storage_of(tensor): note("memory-of-an-input", tensor=name)
            for name, tensor in self.arguments.tensors.items()
        }
        earlier = dict.fromkeys(map(storage_of, self._earlier), note("memory-of-an-earlier-call"))
        if self.strict:
            return given | earlier
        # Of its own launcher's results one may return an input, and several views of one tensor.
        return {storage: whose for storage, whose in earlier.items() if storage not in given}

    def _why_unwritten(
        self, log: LaunchLog, launches: list[Launch], missing: np.ndarray, result: torch.Tensor
    ) -> tuple[Note, Note | None] | None:
        """Run the call again, with a record of what its programs have in their tiles, and see."""
        if not (self.explains and isinstance(log, Watch)):
            return None
        if log.record or missing.size > unwritten.MAX_ELEMENTS:
            return None
        recording = Recording()
        self.restore()
        with contextlib.suppress(Verdict):
            self.run(order=log.order, poison=log.poison, seed=log.seed, record=recording)
        given = [any(it is launch for launch in launches) for it in log.launches]
        numbers = [number for number, is_given in enumerate(given) if is_given]
        if len(recording.launches) != len(log.launches):
            # An autotuner has run one configuration of several.
            kernels = {launch.kernel for launch in launches}
            if len(kernels) != 1 or {launch.kernel for launch in log.launches} != kernels:
                return None
            numbers = [*range(len(recording.launches))]
        holding = [
            (name, value)
            for launch in launches
            for name, value in launch.arguments.items()
            if any(storage_of(it) == storage_of(result) for it in tensors((value,)))
        ]
        if any(isinstance(value, (tuple, list)) for _, value in holding):
            # Which tensor of a tuple a store goes to is not known by its name.
            return None
        names = {region_name(name) for name, _ in holding}
        return unwritten.left_out(recording, numbers, names, missing, tuple(result.stride()))

    def _check_room(self, results: tuple, guard: Guard, log: Watch) -> None:
        """Raise Wrong where programs like those that ran cannot store half of a result."""
        for number, result in enumerate(results):
            found = None if guard.has_filled(result) else log.room(result)
            if found is None:
                continue
            (room, storing), size = found, result.numel()
            grids = [it.grid for it in log.launches if _takes(it, result)]
            ran, name = len(at_ends(math.prod(grids[0]))), self.named(number, len(results))
            if 2 * room < size:
                said = note("programs-store-too-few", result=name, room=room, of=size)
            elif len(grids) == 1 and 2 * room * storing < ran * size:
                said = note("few-programs-store", result=name, storing=storing, ran=ran)
            else:
                continue
            notes = said, note("launched-with-grids", grids=grids)
            raise Wrong(Fault("unwritten", notes, grid=grids[0], tensor=name))

    def _check_stored(self, results: tuple, guard: Guard, log: LaunchLog) -> None:
        """Raise Wrong unless a kernel stored every element of each result.

        What torch made or stored to passes too where that is allowed.
        """
        for number, result in enumerate(results):
            # Elements that a kernel need not reach, such as counts, keep the launcher's zeros.
            given = _was_given(log.launches, result) or self._inputs_are_empty()
            if guard.has_filled(result) and given:
                continue
            stored = log.stored(result) if isinstance(log, Watch) else guard.stored(result)
            if not self.strict:
                stored = stored | guard.stored(result)
            if stored.all():
                continue
            index = [int(i) for i in np.unravel_index(np.argmin(stored), stored.shape)]
            missing = int(stored.size - np.count_nonzero(stored))
            launches = [launch for launch in log.launches if _takes(launch, result)]
            ranges, remedy = unwritten.explain(~stored, launches)
            why = self._why_unwritten(log, launches, ~stored, result)
            name = self.named(number, len(results))
            numbers = {"missing": missing, "of": stored.size}
            said = [note("never-stored", result=name, index=index, ranges=ranges, **numbers)]
            if launches:
                said.append(note("launched-with-grids", grids=[it.grid for it in launches]))
            if why:
                said.append(why[0])
            remedy = unwritten.surest(remedy, why, launches)
            raise Wrong(
                Fault(
                    "unwritten",
                    tuple(said),
                    grid=launches[0].grid if launches else None,
                    tensor=name,
                    numbers=numbers | {"index": index},
                    remedy=remedy,
                )
            )


def name_of(number: int, count: int) -> str:
    """Return what messages call a result: "the result", or "result 1" if there are several."""
    return "the result" if count == 1 else f"result {number}"


def _wrong_form(id: str, **values: str) -> Wrong:
    return Wrong(Fault("wrong-form", (note(id, **values),)))


def _was_given(launches: list[Launch], tensor: torch.Tensor) -> bool:
    """Return whether the memory of this tensor is among the arguments of a launch."""
    return any(_takes(launch, tensor) for launch in launches)


def _swapped(launches: list[Launch], name: str, tensor: torch.Tensor) -> Note | None:
    """Return that a launch has this tensor where another belongs, and another in its place."""
    for launch in launches:
        own = launch.arguments.get(f"{name}_ptr", tensor)
        for parameter, value in launch.arguments.items():
            if value is tensor and own is not tensor:
                kernel = launch.kernel.__name__
                return note("arguments-swapped", kernel=kernel, tensor=name, parameter=parameter)
    return None


def _takes(launch: Launch, tensor: torch.Tensor) -> bool:
    given = tensors(tuple(launch.arguments.values()))
    return any(storage_of(value) == storage_of(tensor) for value in given)


def _synchronize() -> None:
    """Wait for the GPUs in steps, so that a time limit can interrupt the wait for a hung kernel."""
    gpus.idle_within(math.inf)
    gpus.synchronize()


def _quits_debugger(error: BaseException) -> bool:
    """Return whether a debugger was quit, whose error pytest replaces by one of its own."""
    if type(error).__module__ == "_pytest.outcomes":
        return str(error) == "Quitting debugger"
    return isinstance(error, bdb.BdbQuit)


def _end_worker_if_context_is_dead(error: BaseException) -> None:
    """End an xdist worker whose CUDA context a kernel has broken: every later call would fail."""
    if not torch.cuda.is_initialized():
        return
    try:
        gpus.synchronize()
    except RuntimeError:
        reason = str(error).splitlines()[0]
        # CUDA says the same "unspecified launch failure" of a misused barrier as of shared memory.
        foreign = any(it in reason for it in ("illegal memory access", "misaligned address"))
        said = note("accessed-foreign-memory" if foreign else "failed-on-the-gpu", reason=reason)
        remedy = note("find-it-in-the-interpreter")
        crash_notes.end_worker(Fault("process-ended", (said,), remedy=remedy))
