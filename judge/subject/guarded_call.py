"""One run of a subject, under guard, and what its results must be whatever they hold."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes
from triton.compiler.errors import CompilationError

from judge.compilation import errors
from judge.core import blame, crash_notes, timeouts
from judge.core.arguments import Arguments, describe_value
from judge.core.launch import Launch, LaunchLog
from judge.core.paths import display_path
from judge.core.tensors import put
from judge.core.verdict import NotMeasured, Unsolved, Verdict, Wrong
from judge.memory.watch import Watch
from judge.subject import tamper
from judge.subject.autotuning import ConfigSweep
from judge.subject.canaries import MAX_COPIED_BYTES, Arena
from judge.subject.guard import Guard
from judge.subject.launch_recorder import Recorder


@dataclass
class Outcome:
    """What one run gave.

    results: the returned tensors, or the inputs that it changed in place
    watch: what the interpreter saw; None on a GPU
    configs: how many an autotuner had to choose from, 1 without one
    config: which was used, in words, "" without an autotuner
    """

    results: tuple[torch.Tensor, ...]
    launches: list[Launch]
    watch: Watch | None
    configs: int
    config: str


class GuardedCall:
    """The given arguments in guarded memory, and runs of the subject on them.

    in_place: names of the parameters that the subject changes
    interpreted: kernels run in the interpreter, under a Watch
    """

    def __init__(
        self,
        subject: Callable,
        path: Path,
        arguments: Arguments,
        *,
        in_place: tuple[str, ...] = (),
        interpreted: bool,
    ):
        self.subject, self.path, self.in_place = subject, path, in_place
        self.interpreted = interpreted
        # What lies too far apart to be copied with its gaps is itself changed in place.
        self.original = arguments.map(
            lambda name, x: x.clone() if name in in_place and is_huge(x) else x
        )
        self.arenas: dict[str, Arena] = {}
        self._earlier: list[torch.Tensor] = []
        self._sweep: ConfigSweep | None = None
        self.arguments = arguments.map(self._place)

    def _place(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if is_huge(tensor):
            return tensor
        arena = Arena.like(tensor, name)
        self.arenas[name] = arena
        return arena.tensor

    def fill_with_decoys(self) -> None:
        """Other contents in the same memory: who remembers an earlier call is found out."""
        for name, arena in self.arenas.items():
            tensor = self.original.tensors[name]
            decoy = tensor
            if (tensor.is_floating_point() or tensor.is_complex()) and tensor.itemsize > 1:
                decoy = -tensor.flip(tuple(range(tensor.dim())))
            arena.fill(decoy)

    def restore(self) -> None:
        """The real contents."""
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
        programs: str = "all",
        config: int | None = None,
        seed: int = 0,
    ) -> Outcome:
        """Call the subject once. Raises Unsolved or Wrong.

        order: of the programs of each launch in the interpreter, "ascending" or "shuffled"
        poison: masked lanes that are loaded without `other` are NaN in the interpreter
        count: record the traffic of each access
        programs: of each launch in the interpreter, "all", the first and the last ("ends"), or
            "none", where only the grids are checked
        config: which of an autotuner's configs to use; not given, that of the run before
        """
        guard = Guard(self.path.stem)
        sweep = self._sweep_for(config, guard, rehearse=not count)
        snapshots = {name: arena.buffer.clone() for name, arena in self.arenas.items()}
        log = self._launch_log(
            guard, order=order, poison=poison, count=count, programs=programs, seed=seed
        )
        all_run = programs == "all" or not self.interpreted
        returned = self._call(guard, sweep, log, all_run)
        try:
            guard.check_canaries()
            self._check_inputs(snapshots)
            results = self._results(returned)
            self._check_launches(log.launches, results, guard)
            self._check_own_memory(results, guard)
            if isinstance(log, Watch):
                self._check_not_stored_to(log)
            if all_run and not self.in_place:
                self._check_stored(results, guard, log)
        except Wrong as wrong:
            raise Wrong(f"{display_path(self.path)}: {self.subject.__name__}: {wrong}") from None
        watch = log if isinstance(log, Watch) else None
        if watch and watch.traffic:
            watch.traffic.name_results(*results)
        return Outcome(results, log.launches, watch, max(1, sweep.count), "; ".join(sweep.used))

    def _sweep_for(self, config: int | None, guard: Guard, *, rehearse: bool) -> ConfigSweep:
        """The same sweep again while the config stays, so that it remembers its tuning keys.

        A launch that is counted is not rehearsed, and needs a memory of its own.
        """
        if config is None:
            config = self._sweep.index if self._sweep else 0
        if self._sweep is None or (self._sweep.index, self._sweep.rehearse) != (config, rehearse):
            self._sweep = ConfigSweep(config, rehearse=rehearse)
        self._sweep.outside_guard = lambda: self._run_hook(guard)
        return self._sweep

    def _call(self, guard: Guard, sweep: ConfigSweep, log: LaunchLog, all_run: bool) -> object:
        """What the subject returns. all_run: whether all programs of its launches run"""
        try:
            with tamper.untouched(self.path), sweep, log, guard.watching():
                returned = self.subject(*self.arguments.positional, **self.arguments.keyword)
            if not self.interpreted:
                synchronize()
        except blame.SUBJECT_ERRORS as error:
            if guard.violations:
                raise Wrong(guard.violations[0]) from error
            if blame.is_unsolved(error, self.path):
                raise Unsolved(f"unsolved: edit {display_path(self.path)}") from None
            if not all_run and guard.scalars and not isinstance(error, Verdict):
                raise NotMeasured(
                    "the launcher read what programs store, and not all ran"
                ) from None
            end_worker_if_context_is_dead(error)
            explain = errors.explained if isinstance(error, CompilationError) else blame.explain
            raise Wrong(explain(error, self.path)) from error
        if guard.violations:
            raise Wrong(guard.violations[0])
        return returned

    @contextlib.contextmanager
    def _run_hook(self, guard: Guard) -> Iterator[None]:
        """In the body an autotuner's hook may write with torch, as `reset_to_zero` does."""
        with _disable_current_modes():
            yield
            for arena in guard.arenas:
                guard.on_allocation(arena.tensor)

    def _launch_log(self, guard: Guard, **options) -> LaunchLog:
        if not self.interpreted:
            return Recorder()
        watch = Watch(inputs=self.arguments.tensors, **options)
        guard.on_allocation = watch.remember
        return watch

    def _results(self, returned: object) -> tuple[torch.Tensor, ...]:
        if self.in_place:
            if returned is not None:
                raise Wrong(f"works in place and must return None, not {describe_value(returned)}")
            return tuple(self.arguments.tensors[name] for name in self.in_place)
        results = returned if isinstance(returned, tuple) else (returned,)
        for number, result in enumerate(results):
            name = name_of(number, len(results))
            if result is None:
                raise Wrong(f"returned None as {name}: return the tensor you allocated")
            if type(result) is not torch.Tensor:
                raise Wrong(f"returned {describe_value(result)} as {name}, not a plain tensor")
        return results

    def _is_of_nothing(self) -> bool:
        """No input has an element: the result is a constant, for which no kernel is needed."""
        sizes = [tensor.numel() for tensor in self.arguments.tensors.values()]
        return bool(sizes) and not any(sizes)

    def _check_launches(
        self, launches: list[Launch], results: tuple[torch.Tensor, ...], guard: Guard
    ) -> None:
        for launch in launches:
            file = launch.kernel.__code__.co_filename
            if not blame.is_graded_file(file) and Path(file).resolve() != self.path.resolve():
                name = launch.kernel.__name__
                raise Wrong(f"launches {name} of {file}: the kernel must be your own")
        constant = self._is_of_nothing() and all(map(guard.has_filled, results))
        if not launches and not constant and any(result.numel() for result in results):
            raise Wrong("launched no Triton kernel\nhint: kernel[grid](arguments...) launches it")

    def _check_inputs(self, snapshots: dict[str, torch.Tensor]) -> None:
        for name, arena in self.arenas.items():
            arena.check(None if name in self.in_place else snapshots[name])

    def _check_not_stored_to(self, watch: Watch) -> None:
        for name, arena in self.arenas.items():
            line = name not in self.in_place and watch.line_that_stores_to(arena.tensor)
            if line:
                raise Wrong(f"the input {name} was stored to, with what it held before\n{line}")

    def _check_own_memory(self, results: tuple[torch.Tensor, ...], guard: Guard) -> None:
        if self.in_place:
            return
        taken = {
            tensor.untyped_storage().data_ptr(): f"the memory of its input {name}"
            for name, tensor in self.arguments.tensors.items()
        }
        taken |= {
            earlier.untyped_storage().data_ptr(): "the memory that an earlier call returned"
            for earlier in self._earlier
        }
        for number, result in enumerate(results):
            pointer = result.untyped_storage().data_ptr()
            name = name_of(number, len(results))
            if result.numel() and pointer in taken:
                raise Wrong(f"returned {name} in {taken[pointer]}: allocate a new tensor")
            if result.numel() and not guard.owns(result):
                raise Wrong(f"returned {name} in memory that this call did not allocate")
            taken[pointer] = f"the same allocation as {name}"
        self._earlier.extend(results)

    def _check_stored(self, results: tuple, guard: Guard, log: LaunchLog) -> None:
        """Raises Wrong unless every element of each result comes from a kernel's store."""
        for number, result in enumerate(results):
            # A count that no atomic reached is the zero that the launcher put there.
            given = was_given(log.launches, result) or self._is_of_nothing()
            if guard.has_filled(result) and given:
                continue
            stored = log.stored(result) if isinstance(log, Watch) else guard.stored(result)
            if stored.all():
                continue
            first = ", ".join(map(str, np.unravel_index(np.argmin(stored), stored.shape)))
            missing = stored.size - np.count_nonzero(stored)
            raise Wrong(
                f"{name_of(number, len(results))}[{first}] was stored by no program: {missing} of "
                f"{stored.size} elements were never written by a kernel\n"
                "hint: is the grid large enough, and does the mask let every element through?"
            )


def is_huge(tensor: torch.Tensor) -> bool:
    """Whether its memory is too large to be copied between canaries."""
    return tensor.untyped_storage().nbytes() > MAX_COPIED_BYTES


def name_of(number: int, count: int) -> str:
    """What messages call one of so many results."""
    return "the result" if count == 1 else f"result {number}"


def was_given(launches: list[Launch], tensor: torch.Tensor) -> bool:
    """Whether a launch has this tensor's memory among its arguments."""
    storage = tensor.untyped_storage().data_ptr()
    given = (value for launch in launches for value in launch.arguments.values())
    return any(
        isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() == storage
        for value in given
    )


def synchronize(seconds: float = float("inf")) -> None:
    """Wait for the GPU in steps, so that a time limit can interrupt the wait for a hung kernel."""
    done = torch.cuda.Event()
    done.record()
    until = time.monotonic() + seconds
    while not done.query():
        if time.monotonic() > until:
            raise timeouts.TimeLimit
        time.sleep(0.0001)
    torch.cuda.synchronize()


def end_worker_if_context_is_dead(error: BaseException) -> None:
    """A CUDA context that saw an illegal access answers every later call with the same error."""
    if not torch.cuda.is_initialized():
        return
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        reason = str(error).splitlines()[0]
        crash_notes.end_worker(
            f"the kernel accessed memory that is not its own ({reason}); "
            "run with TRITON_INTERPRET=1 to see which access it was"
        )
