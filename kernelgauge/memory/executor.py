"""Runs interpreted launches in place of Triton's GridExecutor.

Kernels compute with virtual addresses (`addresses`), every access is checked (`tracker`), programs
may run in any order (`scheduling`), and errors name the learner's own line.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import math
import operator
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.backends.amd.compiler import HIPOptions
from triton.backends.nvidia.compiler import CUDAOptions
from triton.runtime.errors import InterpreterError
from triton.runtime.jit import KernelParam, TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelgauge.core import timeouts
from kernelgauge.core.launch import Launch
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Verdict, Wrong
from kernelgauge.interpreter.overflow import IntegerOverflow
from kernelgauge.interpreter.promises import FalsePromise
from kernelgauge.memory import access_hooks
from kernelgauge.memory.addresses import Storage
from kernelgauge.memory.call_sites import CallSite, raised_at
from kernelgauge.memory.scheduling import Scheduler
from kernelgauge.memory.tracker import StopProgram, Tracker
from kernelgauge.memory.watch import Watch, current_watch
from kernelgauge.words.fault import Fault, Note, Place, note

OPTIONS = {field.name for kind in (CUDAOptions, HIPOptions) for field in dataclasses.fields(kind)}

# How many programs of a launch stand for all, and what spreads them.
SAMPLED, GOLDEN = 6, 0.618034

# What one multiprocessor holds of a launch at most, on every GPU so far.
MAX_PROGRAMS, MAX_WARPS = 32, 64

MAX_GRID = (2**31 - 1, 65535, 65535)

StockExecutor = interpreter.GridExecutor


class KernelError(Wrong):
    """A kernel raised a Python exception, which is the __cause__ of this one."""


def install() -> None:
    """Run all interpreted launches of this process by `Executor`."""
    interpreter.GridExecutor = Executor


class Executor(interpreter.GridExecutor):
    """One launch, made by `kernel[grid]`. Calling it runs it.

    has_partitions: whether parts of a program run side by side
    """

    has_partitions = False

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the kernel with these arguments and launch options.

        Raises Wrong, KernelError or, as Triton does for wrong arguments, TypeError.
        """
        name = self.fn.__name__
        parameters = {key: value for key, value in kwargs.items() if key in self.arg_names}
        options = {key: value for key, value in kwargs.items() if key not in self.arg_names}
        if unknown := sorted(options.keys() - OPTIONS):
            raise TypeError(f"{name}() got an unexpected keyword argument '{unknown[0]}'")
        try:
            bound = _signature(self.fn).bind(*args, **parameters)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        bound.apply_defaults()
        for hook in self.pre_run_hooks:
            hook(*args, **parameters)
        arguments = {key: _plain(value) for key, value in bound.arguments.items()}
        grid = _checked(self.grid(dict(arguments)) if callable(self.grid) else self.grid, name)
        watch = current_watch()
        watch.check_contents()
        launch = Launch(_undecorated(self.fn), grid, arguments, frozenset(self.constexprs), options)
        watch.launches.append(launch)
        watch.has_partitions |= self.has_partitions
        run = functools.partial(self._run, watch, launch)
        if watch.programs != "none" and not (watch.puts_off and watch.puts_off(run)):
            with watch.showing():
                run()

    def _run(self, watch: Watch, launch: Launch) -> None:
        tracker = Tracker(watch, launch, self.fn.__code__)
        converter = _Converter(tracker)
        scope = interpreter._patch_lang(self.fn)
        try:
            types = _annotated(self.fn)
            arguments = {
                name: value
                if name in self.constexprs
                else converter.convert(name, value, types.get(name))
                for name, value in launch.arguments.items()
            }
            for storage in converter.storages:
                storage.to_host()
            self._run_programs(tracker, arguments)
        finally:
            scope.restore()
            for storage in converter.storages:
                storage.to_device()
            watch.end_launch()

    def _run_programs(self, tracker: Tracker, arguments: dict[str, object]) -> None:
        launch = tracker.launch
        interpreter.interpreter_builder.set_grid_dim(*launch.grid)

        def run(number: int) -> None:
            tracker.start_program(number)
            timeouts.next_step()
            with contextlib.suppress(StopProgram):
                self.fn(**arguments)

        tracker.turns = Scheduler(_order(tracker.watch, launch), run, _resident(tracker))
        try:
            with access_hooks.installed(tracker), timeouts.steps():
                tracker.turns.run_all()
            if tracker.lanes_met:
                raise tracker.lanes_met
            if tracker.turns.yielded and math.prod(launch.grid) > most_resident(launch):
                tracker.watch.waits_beyond_the_gpu = True
        except Exception as error:
            root = _root(error)
            site = raised_at(root.__traceback__) or raised_at(error.__traceback__)
            where = {"program": tracker.program, "grid": launch.grid}
            if isinstance(root, (IntegerOverflow, FalsePromise)):
                raise Wrong(root.fault.but(place=site and site.place, **where)) from root
            if isinstance(root, Verdict):
                raise root from None
            raise KernelError(_raised(root, site).but(**where)) from root


class _Pointer:
    """A tensor argument as Triton's interpreter needs it: its type and its address."""

    def __init__(self, dtype: Any, address: int) -> None:
        self.dtype = dtype
        self._address = address

    def data_ptr(self) -> int:
        return self._address


class _Converter:
    """Turns the arguments of a launch into what the interpreter passes to the kernel.

    storages: the memory of the tensors among them
    """

    def __init__(self, tracker: Tracker):
        self._tracker = tracker
        self.storages: list[Storage] = []

    def convert(self, name: str, value: object, dtype: tl.dtype | None) -> object:
        """dtype: the parameter's annotation, which the stock interpreter ignores"""
        converted = interpreter._implicit_cvt(self._placed(name, value))
        if dtype is None or not isinstance(value, (int, float)):
            return converted
        if isinstance(value, float):
            if not dtype.is_floating():
                raise TypeError(f"{name} is annotated {dtype}, but {value} is not an integer")
            converted = _scalar(value, tl.float64)
        return interpreter.interpreter_semantic.cast(converted, dtype)

    def _placed(self, name: str, value: Any) -> Any:
        """Return the value with virtual addresses in place of its tensors."""
        if isinstance(value, TensorDescriptor) or hasattr(value, "block_shape"):
            # Gluon has a class of its own for them.
            placed = copy.copy(value)
            placed.base = self._placed(name, value.base)
            return placed
        if isinstance(value, list):
            raise TypeError(f"{name} is a list, which a kernel does not take: pass tuple({name})")
        if isinstance(value, tuple):
            names = getattr(value, "_fields", range(len(value)))
            parts = [
                self._placed(f"{name}[{key}]" if isinstance(key, int) else f"{name}.{key}", part)
                for key, part in zip(names, value, strict=True)
            ]
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        if isinstance(value, bool):
            # Triton before 3.8 makes an int32 of it, which it then rejects.
            return _scalar(value, tl.int1)
        if not hasattr(value, "data_ptr"):
            return value
        tensor = value.base if isinstance(value, TensorWrapper) else value
        region = self._tracker.watch.region(region_name(name), tensor)
        self._tracker.space.place(region)
        if region.storage not in self.storages:
            self.storages.append(region.storage)
        return _Pointer(value.dtype, region.virtual)


def _scalar(value: bool | float, dtype: tl.dtype) -> tl.tensor:
    return tl.tensor(interpreter.TensorHandle(np.array([value]), dtype), dtype)


@functools.lru_cache(maxsize=64)
def _signature(fn: Callable) -> inspect.Signature:
    return inspect.signature(fn)


@functools.lru_cache(maxsize=64)
def _annotated(fn: Callable) -> dict[str, tl.dtype]:
    """Return the scalar types of parameters that are annotated, as in `stride: tl.int64`."""
    kinds = {
        name: KernelParam(0, parameter, False, False).annotation_type
        for name, parameter in _signature(fn).parameters.items()
    }
    return {
        name: tl.str_to_ty(kind, None)
        for name, kind in kinds.items()
        if kind and not kind.startswith("*")
    }


def region_name(name: str) -> str:
    """Return what a parameter's tensor is called: its name without _ptr."""
    for suffix in ("_ptr", "_ptrs", "_desc"):
        if name.endswith(suffix):
            return name.removesuffix(suffix) or name
    return name


def _plain(value: object) -> object:
    return value.value if isinstance(value, tl.constexpr) else value


def _undecorated(fn: Callable) -> Callable:
    """Return the function as it was written; the interpreter runs a rewritten copy."""
    rewritten = interpreter.InterpretedFunction.rewritten_fn
    return next((original for original, copied in rewritten.items() if copied is fn), fn)


def _checked(grid: object, kernel: str) -> tuple[int, int, int]:
    """Return the grid's three sizes. Raises Wrong. A size of 0 launches nothing, as on a GPU."""
    if not isinstance(grid, (tuple, list)) or not 1 <= len(grid) <= 3:
        raise _bad_grid("grid-is-no-tuple", kernel, grid)
    try:
        sizes = tuple(operator.index(size) for size in grid)
    except TypeError:
        rounds = note("round-up-grid")
        raise _bad_grid("grid-of-no-integers", kernel, tuple(grid), rounds) from None
    for axis, (size, limit) in enumerate(zip(sizes, MAX_GRID, strict=False)):
        if size < 0:
            raise _bad_grid("grid-is-negative", kernel, sizes)
        if size > limit:
            splits = note("split-grid")
            raise _bad_grid("grid-is-too-large", kernel, sizes, splits, limit=limit, axis=axis)
    x, y, z = sizes + (1,) * (3 - len(sizes))
    return x, y, z


def _bad_grid(
    id: str, kernel: str, grid: object, remedy: Note | None = None, **values: int
) -> Wrong:
    said = note(id, kernel=kernel, given=repr(grid), **values)
    return Wrong(Fault("bad-grid", (said,), remedy=remedy))


def _order(watch: Watch, launch: Launch) -> Iterable[int]:
    """Return the programs to run, in order, numbered as a GPU starts them (x fastest)."""
    count = math.prod(launch.grid)
    if callable(watch.programs):
        return watch.programs(count)
    if watch.programs == "ends":
        return sorted(at_ends(count))
    if watch.programs == "some":
        return sorted(sample(count))
    if watch.order == "ascending":
        return range(count)
    order = np.random.default_rng((watch.seed, len(watch.launches))).permutation(count).tolist()
    return order[::-1] if watch.order == "reversed" else order


def most_resident(launch: Launch) -> int:
    """Return how many programs of a launch a GPU can run at once, whatever each of them needs."""
    warps = int(str(launch.options.get("num_warps") or 4))
    each = max(1, min(MAX_PROGRAMS, MAX_WARPS // warps))
    return settings.multiprocessors * each


def _resident(tracker: Tracker) -> float:
    return most_resident(tracker.launch) if tracker.watch.as_started else math.inf


def at_ends(count: int) -> set[int]:
    """Return those at both ends of so many programs, and a few in between.

    Two at each end: what stops counting there has two programs store to the same elements.
    """
    return {*range(min(count, 2)), *range(max(count - 2, 0), count), *sorted(sample(count))[1:-1:2]}


def sample(count: int) -> set[int]:
    """Return a few of so many programs, spread so that no axis of a grid is seen at one place.

    With each comes the one that is as far from the other end: on all axes, also of tiles that a
    kernel counts by // and %. So where work grows along one of them, the mean is that of all.
    """
    chosen = {int(count * ((number + 0.5) * GOLDEN % 1)) for number in range(SAMPLED // 2)}
    return chosen | {count - 1 - number for number in chosen}


def _root(error: BaseException) -> BaseException:
    """Return what was raised, under the wrapper that the interpreter adds at each call."""
    while isinstance(error, InterpreterError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _raised(root: BaseException, site: CallSite | None) -> Fault:
    if isinstance(root, AssertionError) and not str(root):
        # Triton's own, which say nothing else: acc.type.element_ty == out_dtype.
        root.args = (traceback.extract_tb(root.__traceback__)[-1].line,)
    said = {"error": type(root).__name__, "text": str(root)}
    if site is None:
        return Fault("raises", (note("raised-in-kernel", **said),))
    said |= {"function": site.function, "source": site.line_text}
    return Fault("raises", (note("raised-in-kernel", **said),), place=Place(site.file, site.line))
