"""Runs the programs of an interpreted launch, in place of Triton's GridExecutor.

Kernels compute with virtual addresses (`addresses`), every access is checked (`tracker`), the order
of programs can be changed, and errors name the learner's own line.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
import triton
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.backends.amd.compiler import HIPOptions
from triton.backends.nvidia.compiler import CUDAOptions
from triton.runtime.errors import InterpreterError
from triton.runtime.jit import KernelParam, TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from judge.core.launch import Launch
from judge.core.verdict import Verdict, Wrong
from judge.memory import access_hooks
from judge.memory.addresses import Storage
from judge.memory.call_sites import raised_at
from judge.memory.scheduling import Scheduler
from judge.memory.tracker import StopProgram, Tracker
from judge.memory.watch import Watch, current_watch

OPTIONS = {field.name for kind in (CUDAOptions, HIPOptions) for field in dataclasses.fields(kind)}

MAX_GRID = (2**31 - 1, 65535, 65535)

StockExecutor = interpreter.GridExecutor


class KernelError(Wrong):
    """A kernel raised a Python exception, which is the cause of this one."""


def install() -> None:
    """Run all interpreted launches of this process here."""
    interpreter.GridExecutor = Executor


class Executor(StockExecutor):
    """One launch, asked for by `kernel[grid]`; calling it runs it."""

    def __init__(self, fn: Callable, arg_names: list[str], grid, pre_run_hooks=()):
        super().__init__(fn, arg_names, grid, pre_run_hooks)

    def __call__(self, *args, **kwargs) -> None:
        name = self.fn.__name__
        parameters = {key: value for key, value in kwargs.items() if key in self.arg_names}
        options = {key: value for key, value in kwargs.items() if key not in self.arg_names}
        if unknown := sorted(options.keys() - OPTIONS):
            raise TypeError(f"{name}() got an unexpected keyword argument '{unknown[0]}'")
        try:
            bound = inspect.signature(self.fn).bind(*args, **parameters)
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
        if watch.programs != "none":
            self._run(watch, launch)

    def _run(self, watch: Watch, launch: Launch) -> None:
        tracker = Tracker(watch, launch, self.fn.__code__)
        placed = _Placer(tracker)
        scope = interpreter._patch_lang(self.fn)
        try:
            types = _annotated(self.fn)
            arguments = {
                name: value
                if name in self.constexprs
                else placed.convert(name, value, types.get(name))
                for name, value in launch.arguments.items()
            }
            for storage in placed.storages:
                storage.to_host()
            self._run_programs(tracker, arguments)
        finally:
            scope.restore()
            for storage in placed.storages:
                storage.to_device()
            watch.end_launch()

    def _run_programs(self, tracker: Tracker, arguments: dict[str, object]) -> None:
        launch = tracker.launch
        builder = interpreter.interpreter_builder
        builder.set_grid_dim(*launch.grid)

        def run(number: int) -> None:
            tracker.start_program(number)
            with contextlib.suppress(StopProgram):
                self.fn(**arguments)

        tracker.turns = Scheduler(_order(tracker.watch, launch), run)
        try:
            with access_hooks.taken(tracker):
                tracker.turns.run_all()
        except Exception as error:
            root = _root(error)
            if isinstance(root, Verdict):
                raise root from None
            raise _kernel_error(root, error) from root


class _Pointer:
    """What Triton's interpreter needs of a tensor argument: its type and where it is."""

    def __init__(self, dtype, address: int):
        self.dtype = dtype
        self._address = address

    def data_ptr(self) -> int:
        return self._address


class _Placer:
    """Turns the arguments of a launch into what the interpreter passes to the kernel."""

    def __init__(self, tracker: Tracker):
        self._tracker = tracker
        self.storages: list[Storage] = []

    def convert(self, name: str, value: object, dtype: tl.dtype | None) -> object:
        """dtype: what the parameter is annotated with, which the stock interpreter ignores."""
        converted = interpreter._implicit_cvt(self._placed(name, value))
        if dtype is None or not isinstance(value, (int, float)):
            return converted
        if isinstance(value, float):
            if not dtype.is_floating():
                raise TypeError(f"{name}: {dtype} takes integers, {value} is none")
            handle = interpreter.TensorHandle(np.array([value], dtype=np.float64), tl.float64)
            converted = tl.tensor(handle, tl.float64)
        return interpreter.interpreter_semantic.cast(converted, dtype)

    def _placed(self, name: str, value: object) -> object:
        if isinstance(value, TensorDescriptor):
            placed = copy.copy(value)
            placed.base = self._placed(name, value.base)
            return placed
        if isinstance(value, tuple):
            names = getattr(value, "_fields", range(len(value)))
            parts = [
                self._placed(f"{name}[{key}]" if isinstance(key, int) else f"{name}.{key}", part)
                for key, part in zip(names, value, strict=True)
            ]
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        if isinstance(value, bool):
            # Triton before 3.8 makes an int32 of it, and then rejects that.
            return tl.tensor(
                interpreter.TensorHandle(np.array([value], dtype=np.bool_), tl.int1), tl.int1
            )
        if not hasattr(value, "data_ptr"):
            return value
        tensor = value.base if isinstance(value, TensorWrapper) else value
        region = self._tracker.watch.region(_without_suffix(name), tensor)
        self._tracker.space.place(region)
        if region.storage not in self.storages:
            self.storages.append(region.storage)
        return _Pointer(value.dtype, region.virtual)


def _annotated(fn: Callable) -> dict[str, tl.dtype]:
    """The scalar types that a kernel's parameters are annotated with, as in `stride: tl.int64`."""
    kinds = {
        name: KernelParam(0, parameter, False, False).annotation_type
        for name, parameter in inspect.signature(fn).parameters.items()
    }
    return {
        name: tl.str_to_ty(kind, None)
        for name, kind in kinds.items()
        if kind and not kind.startswith("*")
    }


def _without_suffix(name: str) -> str:
    for suffix in ("_ptr", "_ptrs", "_desc"):
        if name.endswith(suffix):
            return name.removesuffix(suffix) or name
    return name


def _plain(value: object) -> object:
    return value.value if isinstance(value, tl.constexpr) else value


def _undecorated(fn: Callable) -> Callable:
    """The function as it was written, of which the interpreter runs a rewritten copy."""
    rewritten = interpreter.InterpretedFunction.rewritten_fn
    return next((original for original, copied in rewritten.items() if copied is fn), fn)


def _checked(grid, kernel: str) -> tuple[int, int, int]:
    """The grid's three sizes. Raises Wrong. A size of 0 launches nothing, as on a GPU."""
    if not isinstance(grid, (tuple, list)) or not 1 <= len(grid) <= 3:
        raise Wrong(f"the grid of {kernel} is {grid!r}: it must be a tuple of 1 to 3 integers")
    try:
        sizes = tuple(operator.index(size) for size in grid)
    except TypeError:
        raise Wrong(
            f"the grid of {kernel} is {tuple(grid)!r}: its sizes must be integers\n"
            "hint: triton.cdiv(n, BLOCK) rounds up to one"
        ) from None
    for axis, (size, limit) in enumerate(zip(sizes, MAX_GRID, strict=False)):
        if size < 0:
            raise Wrong(f"the grid of {kernel} is {sizes}: a size cannot be negative")
        if size > limit:
            raise Wrong(
                f"the grid of {kernel} is {sizes}: a GPU takes at most {limit} programs along "
                f"axis {axis}\n"
                "hint: put the largest number first, or cut axis 0 into two with // and %"
            )
    return sizes + (1,) * (3 - len(sizes))


def _order(watch: Watch, launch: Launch) -> Iterable[int]:
    """The programs' numbers, x fastest as on a GPU, in the order in which they are to run."""
    width, height, depth = launch.grid
    count = width * height * depth
    if watch.programs == "ends":
        return sorted({0, count - 1}) if count else []
    if watch.order == "ascending":
        return range(count)
    return np.random.default_rng((watch.seed, len(watch.launches))).permutation(count).tolist()


def _root(error: BaseException) -> BaseException:
    """What was raised, under the wrappers that the interpreter puts around it at each call."""
    while isinstance(error, InterpreterError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _kernel_error(root: BaseException, error: Exception) -> KernelError:
    site = raised_at(root.__traceback__) or raised_at(error.__traceback__)
    text = f"{type(root).__name__}: {root}"
    if site is None:
        return KernelError(text)
    first, *rest = text.splitlines()
    lines = (f"{site.place} in {site.function}: {first}", f"    {site.line_text}", *rest)
    return KernelError("\n".join(lines))


@triton.jit
def _probe_kernel(x_ptr, y_ptr, count_ptr, N, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs[:, None] * BLOCK + offs[None, :])
    y = tl.dot(x, x, input_precision="ieee")
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < N))
    tl.store(y_ptr + BLOCK, tl.sum(y) + tl.program_id(0))
    tl.atomic_add(count_ptr, 1)
    tl.atomic_cas(count_ptr, 1, 5)


# What one program of it does, by the function of `_interpreter` that does it.
_PROBED = {"load": 2, "store": 2, "atomic_rmw": 1, "atomic_cas": 1}


class _Counting:
    """Stands in place of `_interpreter` and counts the calls of each of its functions."""

    def __init__(self, stock):
        self._stock = stock
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str):
        self.calls[name] += 1
        return getattr(self._stock, name)


@contextlib.contextmanager
def _replaced(name: str, value: object) -> Iterator[None]:
    stock = getattr(interpreter, name)
    setattr(interpreter, name, value)
    try:
        yield
    finally:
        setattr(interpreter, name, stock)


def self_test() -> list[str]:
    """What does not see what it should in this version of Triton, a plain line each."""
    x, y = torch.ones(16, 16), torch.full((20,), -1.0)
    count = torch.zeros(1, dtype=torch.int32)
    counting = _Counting(interpreter._interpreter)
    watch = Watch(count=True, inputs={"x": x})
    try:
        # On real addresses first: where a hook has moved, virtual ones would crash the process.
        with _replaced("GridExecutor", StockExecutor), _replaced("_interpreter", counting):
            _probe_kernel[(1,)](x, y, count, 10, 16)
        missed = [name for name, calls in _PROBED.items() if counting.calls[name] != calls]
        if missed:
            return [_unseen(f"_interpreter.{name}") for name in missed]
        y.fill_(-1)
        count.zero_()
        with _replaced("GridExecutor", Executor), watch:
            _probe_kernel[(1,)](x, y, count, 10, 16)
    except Exception as error:
        return [f"the interpreter does not run a small kernel: {type(error).__name__}: {error}"]
    traffic = watch.traffic
    seen = {
        "GridExecutor (launches)": len(watch.launches) == 1,
        "_interpreter.load": traffic.tensor("x").loaded.elements == 16 * 16 + 10,
        "_interpreter.store": watch.stored(y).sum() == 17,
        "_interpreter.atomic_rmw and atomic_cas": count == 5 and watch.stored(count).all(),
        "create_masked_load (masked-off lanes)": sum(watch.loads_without_other.values()) == 6,
        "create_masked_load (what they hold)": not (y[10:16] == 0).any(),
        "create_dot": traffic.dot_macs == 16**3,
        "the kernel's frame (lines)": all(line > 0 for _, line in watch.loads_without_other),
    }
    return [_unseen(hook) for hook, right in seen.items() if not right]


def _unseen(hook: str) -> str:
    return f"the judge does not see what it should at {hook} in triton {triton.__version__}"
