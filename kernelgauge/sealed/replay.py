"""Do what a launcher in a cell asks for: allocate, fill, launch, and read a value back.

`load_subject` returns a function that stands for the subject's. Called, it sends shapes, strides,
dtypes and scalars to the cell, never contents, and does what comes back, under the guard and the
watch of whoever called it, as if the launcher itself had.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import functools
import itertools
import math
import signal
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.runtime.autotuner import Autotuner, Config
from triton.runtime.jit import KernelInterface
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelgauge.core import blame, timeouts
from kernelgauge.core.dtypes import dtype_name
from kernelgauge.core.rebuilt import GLUON, Kernels, NotAKernel, Record, Unknown, torch_dtype
from kernelgauge.core.settings import settings
from kernelgauge.core.tensors import flat
from kernelgauge.core.verdict import NotMeasured, Wrong
from kernelgauge.sealed import gpus
from kernelgauge.sealed.cell import Cell, Ended, Forged, Silent
from kernelgauge.subject import surroundings
from kernelgauge.subject.canaries import is_huge
from kernelgauge.subject.gradients import Differentiable
from kernelgauge.subject.loader import no_function, require_file
from kernelgauge.words.fault import Call, Fault, Place, note

# What all allocations of a call may take that are filled, on the host.
MAX_BYTES = 2**32
# What is done: what it works on, looked up, and the doing.
Step = tuple[Callable[[], Any], Callable[..., None]]
# Where @gluon.jit makes its kernels.
GLUON_JIT = f"{GLUON}._runtime"
# What a cell may say that its launcher did, and the kind of each; and the remedies.
REFUSALS = {
    "kernel-without-source": "outside-kernel", "hook-in-a-cell": "outside-kernel",
    "uses-a-tensor-method": "outside-kernel", "uses-a-torch-operation": "outside-kernel",
    "allocates-without-a-device": "outside-kernel", "imports-data": "outside-kernel",
    "no-backward-pass": "wrong-form", "no-gradient": "wrong-form",
    "changes-the-stream": "outside-kernel",
}  # fmt: skip
REMEDIES = (
    None, "compute-in-triton", "only-launch-in-the-launcher", "pass-the-device", "pass-strides",
    "allocate-with-torch", "return-what-apply-returns", "launch-on-the-current-stream",
)  # fmt: skip

_cell: Cell | None = None
_session: Session | None = None


def start(folder: Path) -> None:
    """Begin to start a cell for this folder, in the background."""
    global _cell
    if _cell is None or _cell.folder != folder:
        stop()
        _cell = Cell(folder)


@atexit.register
def stop() -> None:
    """End the cell of this process."""
    global _cell, _session
    if _cell is not None:
        _cell.kill()
    _cell = _session = None


def begin() -> None:
    """Let the next test begin with a process of its own."""
    global _session
    _session = None
    if _cell is not None:
        _cell.close()


def load_subject(path: Path, function: str) -> Callable:
    """Return what stands for the function to grade. Raises as `loader.load_subject` does."""
    global _session
    require_file(path)
    if _session is None or (_session.path, _session.function) != (path, function):
        begun = Session(path, function)
        surroundings.check(path)
        _session = begun
    return _session.launcher


class Session:
    """One test of a function in a cell.

    launcher: stands for the function; its global names are the judge's own
    """

    def __init__(self, path: Path, function: str):
        self.path, self.function = path, function
        meets = self._open()
        self.launcher = _function(function, self.call, meets)
        self.launcher.differentiable = lambda: Sealed(self)  # type: ignore[attr-defined]
        self.launcher.timed = lambda: Timed(self)  # type: ignore[attr-defined]

    def _open(self) -> bool:
        """Begin in a process of its own. Returns whether the file has chapter 18's functions."""
        assert settings.subjects is not None
        start(settings.subjects)
        assert _cell
        if not _cell.is_free():
            # What the test before has left is not to be waited for.
            stop()
            start(settings.subjects)
        self.cell, self.goes_on = _cell, True
        gpus.lend_scratch()
        self.kernels = Kernels({})
        self.tuners: dict[int, tuple[Any, Autotuner]] = {}
        # By their numbers: a tensor of the memory, where that begins in its storage and where the
        # storage ends, in bytes.
        self.storages: dict[int, tuple[torch.Tensor, int, int]] = {}
        self.next = 0
        with self._answering():
            begun = self.cell.open(self.path, self.function, gpus.facts(), timeouts.step_seconds())
            what, meets = self._opened(begun)
        if what != "function":
            said = note("no-function", function=self.function)
            if what != "missing":
                said = note("not-a-function", function=self.function, type=what)
            raise no_function(self.path, said)
        return meets

    def _opened(self, message: list) -> tuple[str, bool]:
        """Return what the file has by the function's name. Raises Wrong where it does not load."""
        with _forged():
            if message[0] == "opened":
                return str(message[1]), message[2] is True
        try:
            self._end(message)
        except Exception as error:
            raise Wrong(blame.explain(error, self.path)) from error
        raise Forged("no beginning")

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        """Say what happened to the cell where it does not answer in the body."""
        try:
            yield
        except (Ended, Silent, Forged) as error:
            stop()
            call = Call(str(self.path), self.function)
            if isinstance(error, Silent):
                seconds, by_clock = error.args
                signum = signal.SIGALRM if by_clock else signal.SIGPROF
                raise timeouts.TimeLimit(signum, seconds) from None
            if isinstance(error, Ended):
                raise Wrong(Fault("process-ended", (note("cell-ended"),), call=call)) from None
            said = note("no-recording", why=str(error))
            raise Wrong(Fault("tampering", (said,), call=call)) from None

    def call(
        self, args: tuple, kwargs: dict, gradients: bool = False, recording: Recording | None = None
    ) -> tuple[Any, Any]:
        """Call the function in the cell and do what it asks for.

        Returns what it returned, and with gradients what the graph behind it holds.

        recording: keeps what was done
        """
        if not self.goes_on or self.cell is not _cell:
            self._open()
        given_tensors = (it for it in (*args, *kwargs.values()) if isinstance(it, torch.Tensor))
        if not gradients and any(it.requires_grad for it in given_tensors):
            raise NotMeasured("a sealed launcher is differentiated in its cell, and not by a test")
        recording = recording or Recording()
        replay = recording.replay = _Replay(self)
        recording.first = self.next
        recording.told = replay.tell(args, kwargs)
        with self._answering(), replay.running():
            self.goes_on = False
            self.cell.send(["call", *recording.told, gradients])
            while True:
                message = self.cell.receive(timeouts.step_seconds())
                self.goes_on = message[0] in ("return", "raise", "refuse")
                if message[0] == "return":
                    with _forged():
                        _, recording.result, kept, alive = message
                        result = replay.value(recording.result), replay.value(kept)
                        recording.alive = {int(it) for it in alive}
                        self.keep(recording.alive)
                    return result
                self._end(message)
                step = replay.step(message)
                recording.steps += [step] if step else []

    def keep(self, alive: set[int]) -> None:
        """Let go of the memory that the launcher has let go of."""
        self.storages = {n: it for n, it in self.storages.items() if n in alive}

    def _end(self, message: list) -> None:
        """Raise what ended a call or the loading of the file, if that is what a message tells."""
        if message[0] == "raise":
            with _forged():
                _, names, text, place, innermost = message
                error = _exception([str(it) for it in names], text, place)
                where = self.place(place)
            if where is None:
                raise error
            self.at(where, "raise _error" if innermost else "_raise()", error)
        if message[0] == "refuse":
            with _forged():
                _, said, values, remedy, place = message
                if said not in REFUSALS or remedy not in REMEDIES:
                    raise Forged("an unknown refusal")
                kind = REFUSALS[said]
                told = {str(n): str(v)[:200] for n, v in values.items()}
                if kind == "outside-kernel":
                    told["subject"] = self.path.stem
                where = self.place(place)
                words = note(said, **told)
            remedies = note(remedy) if remedy else None
            shown = where and Place(where[0], where[1])
            raise Wrong(Fault(kind, (words,), shown, remedy=remedies))

    def place(self, told: Any) -> tuple[str, int, str] | None:
        """Return a line of the subject's that a cell names."""
        if told is None:
            return None
        file, line, name = told
        folder = settings.subjects
        # A link would lead the judge to files that a cell does not have.
        inside = folder is not None and Path(file).resolve().is_relative_to(folder)
        if not inside or not 0 <= line < 2**20:
            raise Forged("a place outside the subject")
        return str(file), int(line), str(name)

    def at(self, place: tuple[str, int, str], source: str, value: Any) -> None:
        """Execute a line of ours where a line of the launcher stands, so that messages name it."""

        def throw() -> None:
            raise value

        exec(_code(source, *place), {"_error": value, "_call": value, "_raise": throw})


class Sealed(Differentiable):
    """The function of a session, called together with its backward pass, both in the cell."""

    def __init__(self, session: Session):
        super().__init__(session.launcher)
        self.session = session
        self.timed = lambda: Timed(session, gradients=True)

    def __call__(self, *inputs: object, **options: object) -> tuple[object, ...]:
        returned, kept = self.session.call(inputs, options, gradients=True)
        self.kept = [it for it in kept if isinstance(it, torch.Tensor)] if self.keep else []
        return returned


@dataclass
class Recording:
    """What the cell asked for in one call, which can be done again for others without it.

    told: what the cell was told of the arguments
    first: the number of the first of their storages
    steps: what was done; what each works on is looked up anew
    result, alive: what it returned, and which storages it keeps
    """

    told: list = field(default_factory=list)
    first: int = 0
    steps: list[Step] = field(default_factory=list)
    result: Any = None
    alive: set[int] = field(default_factory=set)
    replay: Any = None

    def again(self, args: tuple, kwargs: dict) -> Any:
        """Do it for these arguments. Returns the result, or Recording where they differ in form.

        Raises Wrong where a value that the launcher read then is another now.
        """
        replay, session = self.replay, self.replay.session
        following, session.next = session.next, self.first
        before = dict(session.storages)
        try:
            if replay.tell(args, kwargs) != self.told:
                session.storages = before
                return Recording
            replay.is_live = False
            with replay.running():
                for resolve, act in self.steps:
                    act(*resolve())
            result = replay.value(self.result)
            session.keep({*range(self.first)} | self.alive)
            return result
        finally:
            replay.seen = {}
            session.next = max(following, session.next)


class Timed:
    """The function of a session for a race: from its third call on no cell takes part.

    The first call may compile, tune, and allocate what the launcher keeps. What it asks for in the
    second is done again in all that follow, whatever their inputs hold.
    """

    def __init__(self, session: Session, gradients: bool = False):
        self.session, self.gradients = session, gradients
        self.calls = 0
        self.recordings: list[Recording] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it, as what it stands for is called."""
        self.calls += 1
        for recording in self.recordings:
            if (result := recording.again(args, kwargs)) is not Recording:
                return result
        recording = Recording()
        result, _ = self.session.call(args, kwargs, self.gradients, recording)
        if self.calls > 1:
            self.recordings.append(recording)
        return result


class _Replay:
    """What is done of one call, in order.

    is_live: whether the cell asks for it, and not a recording
    """

    def __init__(self, session: Session):
        self.session, self.is_live = session, True
        # The `with on(...)` that are open.
        self.open: list[Any] = []
        self.seen: dict[str, Any] = {}
        self.given: dict[int, int] = {}
        self.allocated = 0

    def give(self, value: Any) -> Any:
        """Return an argument as the cell gets it."""
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            key = storage.data_ptr() if storage.nbytes() else -1 - id(value)
            number = self.given.setdefault(key, self.session.next)
            if number == self.session.next:
                self.session.storages[number] = value, 0, storage.nbytes()
                self.session.next += 1
            at = value.storage_offset() * value.element_size()
            dtype, shape, strides = dtype_name(value.dtype), list(value.shape), list(value.stride())
            self.seen[repr([number, dtype, shape, strides, at])] = value
            return ["tensor", number, dtype, shape, strides, at]
        if isinstance(value, (tuple, list)):
            return [type(value).__name__, [self.give(it) for it in value]]
        if isinstance(value, torch.dtype):
            return ["dtype", dtype_name(value)]
        if isinstance(value, complex):
            return ["complex", value.real, value.imag]
        return value

    def tell(self, args: tuple, kwargs: dict) -> list:
        """Return what the cell is told of a call: memory, arguments, and what `given` gives.

        Of each memory its number, bytes, device and alignment.
        """
        self.seen, self.given, self.allocated = {}, {}, 0
        told = [self.give(it) for it in args], {n: self.give(it) for n, it in kwargs.items()}
        bases = []
        for number in self.given.values():
            tensor, _, size = self.session.storages[number]
            address = tensor.untyped_storage().data_ptr()
            bases.append([number, size, gpus.told(tensor.device), address % 64])
        names = self.session.launcher.__globals__
        given = {n: v(None) for n, v in names.items() if callable(v) and n not in ("on", "meet")}
        return [bases, *told, given]

    def leave(self, count: int) -> None:
        """Leave so many of the `with on(...)` that are open, the innermost first."""
        for context in [self.open.pop() for _ in range(min(count, len(self.open)))]:
            context.__exit__(None, None, None)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Leave them all after the body."""
        try:
            yield
        finally:
            self.leave(len(self.open))

    def step(self, message: list) -> Step | None:
        """Do one thing. Returns it. Raises Forged, or whatever doing it raises."""
        with _forged():
            if message[0] == "kernel":
                self._know(*message[1:])
                return None
            if message[0] == "aggregate":
                self._know_aggregate(*message[1:])
                return None
            resolve, act = self._step(*message)
            given = resolve()
        act(*given)
        return resolve, act

    def _step(self, kind: str, *told: Any) -> Step:
        if kind == "new":
            return tuple, self._allocation(*told)
        if kind == "launch":
            return self._launch(*told)
        if kind == "off":
            return tuple, lambda: self.leave(1)
        value, *rest = told

        def resolve() -> tuple:
            return (self.value(value),)

        if kind == "fill":
            number = _number(rest[0])
            return resolve, lambda tensor: tensor.fill_(number)
        names = self.session.launcher.__globals__
        if kind == "read":
            return resolve, self._reading()
        if kind == "on":
            return resolve, lambda tensor: self.open.append(_entered(names["on"](tensor)))
        if kind == "meet":
            return resolve, lambda tensors: names["meet"](tensors)
        raise Forged("no request")

    def _reading(self) -> Callable[[torch.Tensor], None]:
        known: list = []

        def read(tensor: torch.Tensor) -> None:
            value = tensor.item()
            if self.is_live:
                known[:] = [value]
                self.session.cell.send(["value", value])
            elif repr([value]) != repr(known):
                said = note("reads-other-values", then=known[0], now=value)
                raise Wrong(Fault("waits-for-gpu", (said,), remedy=note("read-in-kernels")))

        return read

    def _know(
        self, number: int, file: str, line: int, name: str, names: dict, options: Any, module: str
    ) -> None:
        place = self.session.place([file, line, name])
        assert place
        chosen = dict(self.session.kernels.decode(options))
        if set(chosen) - {"do_not_specialize", "do_not_specialize_on_alignment", "noinline"}:
            raise Forged("unknown options of a kernel")
        if module not in ("triton.runtime.jit", GLUON_JIT):
            raise Forged("a kernel of another kind than @triton.jit")
        chosen = {n: list(v) if isinstance(v, tuple) else v for n, v in chosen.items()}
        record = Record(place[0], place[1], str(name), dict(names), chosen, module == GLUON_JIT)
        if self.session.kernels.records.setdefault(number, record) != record:
            raise Forged("a kernel that changed")

    def _know_aggregate(
        self, number: int, file: str, line: int, name: str, names: dict, fields: dict, methods: dict
    ) -> None:
        place = self.session.place([file, line, name])
        assert place
        parts = (
            {str(n): it for n, it in fields.items()},
            {str(n): str(it) for n, it in methods.items()},
        )
        record = Record(place[0], place[1], str(name), dict(names), {}, False, *parts)
        if self.session.kernels.records.setdefault(number, record) != record:
            raise Forged("an aggregate that changed")

    def _allocation(
        self, number: int, dtype: str, shape: list, strides: list, device: str, like: Any, fill: Any
    ) -> Callable[[], None]:
        session = self.session
        self.value(like)
        kind, sizes, steps = torch_dtype(dtype), _sizes(shape), _sizes(strides)
        if number != session.next or len(sizes) != len(steps):
            raise Forged("an allocation out of order")
        where = gpus.meant(device)
        planned = torch.empty_strided(sizes, steps, dtype=kind, device="meta")
        size = planned.untyped_storage().nbytes()
        # What a GPU lacks it says itself.
        self.allocated += 0 if is_huge(planned) or where.type == "cuda" else size
        if self.allocated > MAX_BYTES or size > 2**40:
            raise Forged("more memory than a call may allocate")
        value = None if fill is None else _number(fill)

        def allocate() -> None:
            pattern = self.value(like)
            if pattern is not None and pattern.device == where:
                made = pattern.new_empty_strided(sizes, steps, dtype=kind)
            else:
                made = torch.empty_strided(sizes, steps, dtype=kind, device=where)
            if value is not None:
                made.fill_(value)
            session.next += 1
            begin = made.storage_offset() * made.element_size()
            session.storages[number] = (
                made,
                begin,
                min(begin + size, made.untyped_storage().nbytes()),
            )
            self.seen[repr([number, dtype, list(shape), list(strides), 0])] = made

        return allocate

    def value(self, told: Any) -> Any:
        """Return what an encoded value stands for."""
        if not isinstance(told, list):
            return told
        kind, *rest = told
        if kind == "tensor":
            return self._tensor(*rest)
        if kind in ("tuple", "list"):
            items = [self.value(it) for it in rest[0]]
            return tuple(items) if kind == "tuple" else items
        if kind == "named":
            name, fields, items = rest
            self.session.kernels.fields |= set(fields)
            return _named(str(name), tuple(map(str, fields)))(*map(self.value, items))
        if kind == "descriptor":
            base, shape, strides, block, padding, layout = rest
            sizes = [list(_sizes(it)) for it in (shape, strides, block)]
            padding = {"zero": "zero", "nan": "nan"}[padding]
            tensor, own = self.value(base), self.session.kernels.decode(layout)
            if own is not None:
                return GluonDescriptor(tensor, *sizes, own, padding)
            made = TensorDescriptor(tensor, *sizes)
            made.padding = padding
            return made
        if kind == "complex":
            return complex(*map(_number, rest))
        if kind == "object":
            return type(str(rest[0])[:100], (), {})()
        found = self.session.kernels.decode(told)
        if found is Unknown:
            raise Forged("an unknown value")
        return found

    def _tensor(
        self, number: int | None, dtype: str, shape: list, strides: list, at: int
    ) -> torch.Tensor:
        key = repr([number, dtype, shape, strides, at])
        if key in self.seen:
            return self.seen[key]
        kind, sizes, steps = torch_dtype(dtype), _sizes(shape), _sizes(strides)
        with _disable_current_modes():
            if number is None:
                # Memory that no guard has seen: whoever gets it says so.
                planned = torch.empty_strided(sizes, steps, dtype=kind, device="meta")
                if planned.untyped_storage().nbytes() > MAX_BYTES:
                    raise Forged("more memory than a call may allocate")
                made = torch.empty_strided(sizes, steps, dtype=kind, device=settings.device)
                made.zero_()
            else:
                owner, begin, end = self.session.storages[number]
                if len(sizes) != len(steps) or at < 0 or (at + begin) % kind.itemsize:
                    raise Forged("a view of no tensor")
                last = sum((n - 1) * s for n, s in zip(sizes, steps, strict=True)) + 1
                if math.prod(sizes) and begin + at + last * kind.itemsize > end:
                    raise Forged("a view beyond its memory")
                made = torch.empty(0, dtype=kind, device=owner.device)
                made.set_(owner.untyped_storage(), (begin + at) // kind.itemsize, sizes, steps)
        self.seen[key] = made
        return made

    def _launch(self, place: Any, kernel: int, args: list, kwargs: dict, nest: list) -> Step:
        where = self.session.place(place)
        if any(str(name).startswith("_") or name in ("grid", "warmup") for name in kwargs):
            raise Forged("an argument of no kernel")
        jit = self._kernel(kernel)
        runs, grid, values, prepare = self._runs(jit, nest)

        def resolve() -> tuple:
            return [self.value(it) for it in args], {
                str(name): self.value(it) for name, it in kwargs.items()
            }

        def act(positional: list, named: dict) -> None:
            prepare()
            _check_options(jit, named | values)
            launch = functools.partial(runs[grid], *positional, **named | values)
            # A line that is executed where it stands costs more than a launch.
            self.session.at(where, "_call()", launch) if where and self.is_live else launch()

        return resolve, act

    def _kernel(self, number: int) -> Any:
        with _forged():
            if self.session.kernels.records[number].fields is not None:
                raise Forged("a launch of an aggregate")
        try:
            return self.session.kernels.get(number)
        except NotAKernel as error:
            what, line, *said = error.args
            place = Place(error.record.file, line)
            raise _not_triton(error.record.name, what, place, *said) from None

    def _runs(self, jit: Any, nest: list) -> tuple[Any, Any, dict, Callable[[], None]]:
        """Return what to launch, its grid and values of heuristics, and what to do before."""
        kind, values, *rest = nest
        values = self._constants(values)
        if kind == "plain":
            return jit, self._constant(rest[0]), values, lambda: None
        number, configs, keys, zeroed, restored, pruned = rest
        told = repr([configs, keys, zeroed, restored])
        if self.session.tuners.get(number, (None,))[0] != told:
            chosen = _Chosen(jit)
            made = [self._config(it) for it in configs]
            by = {"early_config_prune": lambda *_, **__: chosen.pruned}
            names = [[str(it) for it in its] for its in (keys, zeroed, restored)]
            tuner = Autotuner(chosen, jit.arg_names, made, *names, prune_configs_by=by)
            self.session.tuners[number] = told, tuner
        tuner = self.session.tuners[number][1]
        known = {repr(it): config for it, config in zip(configs, tuner.configs, strict=True)}
        leaves, hooks = [], []
        for config, hook, below in pruned:
            made = known.get(repr(config)) or self._config(config)
            hooks.append((made, functools.partial(self._run_hook, hook) if hook else None))
            kind, inner, grid = below
            if kind != "plain":
                raise Forged("an autotuner of an autotuner")
            leaves.append((made, self._constant(grid), self._constants(inner)))

        def prepare() -> None:
            tuner.fn.fn, tuner.fn.leaves = jit, leaves
            for config, hook in hooks:
                config.pre_hook = hook

        # A grid that is no function of the config is told with each of them.
        return tuner, None, values, prepare

    def _constants(self, told: dict) -> dict[str, Any]:
        return {str(name): self._constant(it) for name, it in told.items()}

    def _constant(self, told: Any) -> Any:
        """Return what an encoded value stands for that depends on no tensor."""
        value = self.value(told)
        if any(isinstance(getattr(it, "base", it), torch.Tensor) for it in flat(value)):
            raise Forged("a tensor in place of a number")
        return value

    def _config(self, told: list) -> Config:
        kwargs, options = map(self._constants, told)
        if set(options) - {
            "num_warps",
            "num_stages",
            "num_ctas",
            "maxnreg",
            "minRegAutoWS",
            "maxRegAutoWS",
        }:
            raise Forged("an unknown option of a config")
        return Config(kwargs, **options)

    def _run_hook(self, hook: list, named: dict) -> None:
        """Do what a config's hook did in the cell. It is called outside the guard."""
        with _forged():
            fills, descriptors = hook
            todo = [(self.value(it), _number(value)) for what, it, value in fills if what == "fill"]
            blocks = {name: self.value(it) for name, it in descriptors.items()}
        for tensor, value in todo:
            tensor.fill_(value)
        for name, made in blocks.items():
            named[name].block_shape = made.block_shape
            if isinstance(made, GluonDescriptor):
                named[name].layout = made.layout


class _Chosen(KernelInterface):
    """What an autotuner launches: the kernel, with what was told of the config that is chosen.

    leaves: each config with its grid and the values of heuristics
    """

    def __init__(self, fn: Any):
        self.fn, self.arg_names = fn, fn.arg_names
        self.leaves: list[tuple[Config, Any, dict]] = []

    @property
    def pruned(self) -> list[Config]:
        """The configs that are left."""
        return [config for config, _, _ in self.leaves]

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """Run the kernel."""
        _check_options(self.fn, kwargs)
        for config, own_grid, values in self.leaves:
            if config.all_kwargs().items() <= kwargs.items():
                return self.fn.run(*args, grid=own_grid, warmup=warmup, **kwargs | values)
        # The config of a launch with the same key, of which pruning left others.
        for config, own_grid, values in self.leaves:
            given = kwargs | config.all_kwargs() | values
            return self.fn.run(*args, grid=own_grid, warmup=warmup, **given)
        raise Forged("an autotuner without a config")


def _check_options(jit: Any, given: dict[str, Any]) -> None:
    """Raise Wrong if an option of a launch is more than a number.

    Others name files, or are arguments of the programs that the compiler calls.
    """
    for name, value in given.items():
        if name not in jit.arg_names and not isinstance(value, (int, float, type(None))):
            raise _not_triton(jit.fn.__name__, f"the launch option {name}")


def _not_triton(
    kernel: str, what: str, place: Place | None = None, id: str = "not-only-a-kernel"
) -> Wrong:
    said = note(id, kernel=kernel, what=what)
    return Wrong(Fault("outside-kernel", (said,), place, remedy=note("only-triton-in-a-kernel")))


@contextlib.contextmanager
def _forged() -> Iterator[None]:
    """Take what goes wrong with a message in the body as what it is."""
    try:
        yield
    except (
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        AttributeError,
        AssertionError,
        RecursionError,
        RuntimeError,
        OverflowError,
    ) as error:
        raise Forged(f"{type(error).__name__}: {error}"[:200]) from None


def _entered(context: contextlib.AbstractContextManager) -> contextlib.AbstractContextManager:
    context.__enter__()
    return context


def _sizes(told: list) -> tuple[int, ...]:
    if len(told) > 64 or not all(type(it) is int and 0 <= it < 2**62 for it in told):
        raise Forged("no sizes")
    return tuple(told)


def _number(told: Any) -> bool | int | float:
    if type(told) not in (bool, int, float):
        raise Forged("no number")
    return told


@functools.lru_cache(1024)
def _code(source: str, file: str, line: int, name: str) -> types.CodeType:
    made = compile(source, file, "exec")
    return made.replace(co_firstlineno=line, co_name=name, co_qualname=name)


@functools.lru_cache(256)
def _named(name: str, fields: tuple[str, ...]) -> Any:
    import collections

    return collections.namedtuple(name, fields)


def _exception(names: list[str], text: str | None, place: Any) -> BaseException:
    """Return an exception of the class that a cell names, or of the nearest of Python's own."""
    own = [getattr(builtins, name, None) for name in names]
    found = next(
        (it for it in own if isinstance(it, type) and issubclass(it, Exception)), RuntimeError
    )
    if found is SyntaxError and place:
        return SyntaxError(text or "", (place[0], place[1], None, None))
    if text is not None and found.__name__ == names[0] and found is not KeyError:
        with contextlib.suppress(TypeError):
            return found(text)

    def shown(self: BaseException) -> str:
        if text is None:
            raise ValueError
        return text

    return type(names[0][:100], (found,), {"__str__": shown, "__init__": lambda self: None})()


def _function(name: str, call: Callable, meets: bool) -> types.FunctionType:
    """Return a function whose global names hold nothing but what the judge puts there."""
    space: dict[str, Any] = {}
    launcher = types.FunctionType(_launcher.__code__, space, name, None, (types.CellType(call),))
    if meets:
        space |= {"on": _on, "meet": _meet}
    return launcher


def _on(x: torch.Tensor) -> contextlib.AbstractContextManager:
    """Chapter 18's: launch in the body on the GPU that x lies on."""
    return torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()


def _meet(tensors: list[torch.Tensor]) -> None:
    """Chapter 18's: what is launched after this on any of their GPUs waits for all before."""
    streams = [torch.cuda.current_stream(d) for d in {x.device for x in tensors if x.is_cuda}]
    events = [stream.record_event() for stream in streams]
    for stream, event in itertools.product(streams, events):
        stream.wait_event(event)


def _make() -> types.FunctionType:
    call: Any = None

    def launcher(*args: Any, **kwargs: Any) -> Any:
        return call(args, kwargs)[0]

    return launcher  # type: ignore[return-value]


_launcher = _make()
