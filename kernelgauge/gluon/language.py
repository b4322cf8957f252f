"""The functions of Gluon as they run here, and the launch of a Gluon kernel.

They take the place of Triton's own in its modules, so a kernel's file needs nothing of this.
`GluonJITFunction` and the modules' names that are replaced here are private names of Triton.
"""

from __future__ import annotations

import functools
import linecache
import math
import re
import sys
import zlib
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter

from kernelgauge.core.blame import CALLED_WITHOUT_GRID
from kernelgauge.gluon.clocks import Actor, Barrier, Buffer
from kernelgauge.gluon.machine import Machine
from kernelgauge.interpreter.arithmetic import make_tensor, numpy_dtype
from kernelgauge.memory import executor
from kernelgauge.memory.call_sites import is_user_code
from kernelgauge.memory.tracker import Tracker

_machine: Machine | None = None


def machine() -> Machine:
    """Return the program that runs. Raises RuntimeError outside of a launch."""
    if _machine is None:
        raise RuntimeError(CALLED_WITHOUT_GRID)
    return _machine


def _plain(value: Any) -> Any:
    """Return a number as Python's own."""
    if isinstance(value, tl.tensor):
        return value.handle.data.item()
    return value.value if isinstance(value, tl.constexpr) else value


def _assigned() -> str:
    """Return the variable that what is allocated is assigned to, else "shared memory"."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user_code(frame.f_code):
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
            if name := re.match(r"\s*(\w+) *= *(\w+\.)*allocate_\w+\(", line):
                return name[1]
        if frame.f_code is machine().tracker.code:
            break
        frame = frame.f_back
    return "shared memory"


def _check_warps(layout: Any) -> None:
    """Raise ValueError for a layout of registers over more or fewer warps than there are."""
    while hasattr(layout, "parent"):
        layout = layout.parent
    over, warps = getattr(layout, "warps_per_cta", None), machine().current.num_warps
    if over is not None and math.prod(over) != warps:
        raise ValueError(f"a layout over {math.prod(over)} warps where {warps} run: {layout}")


class Shared:
    """A view of shared memory: which elements of its buffer, in its shape."""

    def __init__(self, buffer: Buffer, where: np.ndarray, dtype: tl.dtype, layout: Any):
        self.buffer, self.where, self.dtype, self.layout = buffer, where, dtype, layout
        self.shape, self.rank, self.numel = list(where.shape), where.ndim, where.size

    @property
    def type(self) -> Shared:
        """Itself, which has the attributes of its type."""
        return self

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self.where.size * self.buffer.data.itemsize

    def _view(self, where: np.ndarray) -> Shared:
        return Shared(self.buffer, where, self.dtype, self.layout)

    def index(self, index: Any) -> Shared:
        """One slot, along the first axis. Raises IndexError."""
        number = int(_plain(index))
        if not 0 <= number < self.shape[0]:
            raise IndexError(f"slot {number} of {self.buffer.name}, which has {self.shape[0]}")
        return self._view(self.where[number])

    def slice(self, start: Any, length: Any, dim: Any = 0) -> Shared:
        """A part, along one axis. Raises IndexError."""
        start, length, dim = _plain(start), _plain(length), _plain(dim)
        if start + length > self.shape[dim]:
            raise IndexError(f"a slice up to {start + length} of {self.shape[dim]}")
        return self._view(self.where.take(range(start, start + length), dim))

    def permute(self, order: Sequence[Any]) -> Shared:
        """The same with its axes in another order."""
        return self._view(self.where.transpose([_plain(axis) for axis in order]))

    def reshape(self, shape: Sequence[Any]) -> Shared:
        """The same in another shape."""
        return self._view(self.where.reshape([_plain(size) for size in shape]))

    def read(self, actor: Actor, how: str) -> tl.tensor:
        """The elements, read by an actor."""
        machine().access(actor, how, self.buffer, self.where, False)
        return make_tensor(self.buffer.data[self.where], self.dtype)

    def write(self, actor: Actor, how: str, data: np.ndarray) -> None:
        """Set the elements, by an actor."""
        machine().access(actor, how, self.buffer, self.where, True)
        self.buffer.data[self.where] = data

    def load(self, layout: Any) -> tl.tensor:
        """The elements in registers."""
        _check_warps(layout)
        machine().step()
        return self.read(machine().current, "load")

    def store(self, value: tl.tensor) -> None:
        """Set the elements. Raises ValueError for another shape or dtype."""
        if list(map(_plain, value.shape)) != self.shape or value.dtype != self.dtype:
            raise ValueError(
                f"a tile of {list(map(_plain, value.shape))} {value.dtype} does not fit "
                f"shared memory of {self.shape} {self.dtype}"
            )
        machine().step()
        self.write(machine().current, "store", value.handle.data)

    def _keep_alive(self) -> None:
        pass


class Descriptor:
    """A tensor descriptor in a kernel: address, shape and strides, and the tile that TMA moves."""

    def __init__(self, given: Any, pointer: tl.tensor):
        self.base = int(pointer.handle.data.item())
        self.dtype = pointer.dtype.element_ty
        self.shape, self.strides = list(given.shape), list(given.strides)
        self.block_shape, self.layout = list(given.block_shape), given.layout
        self.block_type = tl.block_type(self.dtype, self.block_shape)
        self.nbytes_per_cta = math.prod(self.block_shape) * numpy_dtype(self.dtype).itemsize

    def lanes(self, coord: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return the addresses of a tile, and which of them lie in the tensor."""
        offsets, mask = np.zeros(self.block_shape, np.int64), np.ones(self.block_shape, bool)
        for dim, (first, size, stride, length) in enumerate(
            zip(coord, self.block_shape, self.strides, self.shape, strict=True)
        ):
            index = int(_plain(first)) + np.arange(size)
            index = index.reshape([-1 if axis == dim else 1 for axis in range(len(coord))])
            offsets = offsets + index * stride
            mask = mask & (index >= 0) & (index < length)
        size = numpy_dtype(self.dtype).itemsize
        return np.uint64(self.base) + (offsets * size).astype(np.uint64), mask

    def check(self, shared: Shared) -> None:
        """Raise ValueError if TMA cannot move a tile there."""
        if type(shared.layout).__name__ != "NVMMASharedLayout" or shared.layout != self.layout:
            raise ValueError(
                f"TMA needs shared memory in the descriptor's layout, {self.layout}, "
                f"not {shared.layout}"
            )
        if shared.shape != self.block_shape or shared.dtype != self.dtype:
            raise ValueError(
                f"the descriptor moves tiles of {self.block_shape} {self.dtype}, "
                f"not {shared.shape} {shared.dtype}"
            )


# The language itself.


def arange(start: Any, end: Any, layout: Any = None) -> tl.tensor:
    _check_warps(_plain(layout))
    return tl.arange(start, end)


def full(shape: Any, value: Any, dtype: Any, layout: Any = None) -> tl.tensor:
    _check_warps(_plain(layout))
    return tl.full([_plain(size) for size in shape], value, _plain(dtype))


def zeros(shape: Any, dtype: Any, layout: Any = None) -> tl.tensor:
    return full(shape, 0, dtype, layout)


def full_like(
    input: Any, value: Any, shape: Any = None, dtype: Any = None, layout: Any = None
) -> tl.tensor:
    return full(input.shape if shape is None else shape, value, dtype or input.dtype, layout)


def zeros_like(input: Any, shape: Any = None, dtype: Any = None, layout: Any = None) -> tl.tensor:
    return full_like(input, 0, shape, dtype, layout)


def convert_layout(value: tl.tensor, layout: Any, assert_trivial: bool = False) -> tl.tensor:
    _check_warps(_plain(layout))
    return value


def allocate_shared_memory(dtype: Any, shape: Any, layout: Any, value: Any = None) -> Shared:
    dtype, shape = _plain(dtype), tuple(_plain(size) for size in _plain(shape))
    size = math.prod(shape)
    buffer = Buffer(_assigned(), np.zeros(size, numpy_dtype(dtype)), shape)
    shared = Shared(buffer, np.arange(size).reshape(shape), dtype, _plain(layout))
    if value is not None:
        shared.store(value)
    return shared


def warp_specialize(functions: Any, worker_num_warps: Any, worker_num_regs: Any = None) -> Any:
    warps = [machine().current.num_warps, *map(_plain, worker_num_warps)]
    if len(warps) != len(functions):
        raise ValueError(f"{len(functions)} partitions, but warps for {len(warps) - 1} workers")
    names = [function.fn.__name__ for function, _ in functions]
    return machine().specialize([
        (name if names.count(name) == 1 else f"{name} {number}", count,
         functools.partial(function, *given))
        for number, (name, count, (function, given)) in enumerate(
            zip(names, warps, functions, strict=True))
    ])  # fmt: skip


def num_warps() -> int:
    return machine().current.num_warps


def num_ctas() -> int:
    return 1


def barrier(**_: Any) -> None:
    pass


LANGUAGE: tuple[Callable, ...] = (
    arange, full, zeros, full_like, zeros_like, convert_layout, allocate_shared_memory,
    warp_specialize, num_warps, num_ctas, barrier,
)  # fmt: skip


# Barriers.


def _barrier(shared: Shared) -> Barrier:
    found = machine().barriers.get(_key(shared))
    if found is None:
        machine().fail("no-init", machine().site(), "init-before-use", kind="barrier-before-init",
                       barrier=_name(shared))  # fmt: skip
    return found


def _key(shared: Shared) -> tuple[int, int]:
    return id(shared.buffer), int(shared.where.flat[0])


def _name(shared: Shared) -> str:
    slot = int(shared.where.flat[0])
    return f"{shared.buffer.name}[{slot}]" if shared.buffer.data.size > 1 else shared.buffer.name


def init(mbarrier: Shared, count: Any) -> None:
    count = int(_plain(count))
    machine().barriers[_key(mbarrier)] = Barrier(_name(mbarrier), count, count)


def wait(mbarrier: Shared, phase: Any, pred: Any = True, deps: Any = ()) -> None:
    if _plain(pred):
        machine().wait(_barrier(mbarrier), int(_plain(phase)) & 1)


def arrive(mbarrier: Shared, *, count: Any = 1, pred: Any = True) -> None:
    if _plain(pred):
        machine().step()
        machine().arrive(_barrier(mbarrier), machine().current, int(_plain(count)))


def expect(mbarrier: Shared, bytes_per_cta: Any, pred: Any = True) -> None:
    if _plain(pred):
        machine().step()
        found, size = _barrier(mbarrier), int(_plain(bytes_per_cta))
        found.bytes += size
        found.expected += size
        machine().arrive(found, machine().current)


def allocate_mbarrier(batch: Any = None, two_ctas: Any = False) -> Shared:
    return allocate_shared_memory(tl.int64, [1] if batch is None else [batch, 1], None)


MBARRIER: tuple[Callable, ...] = (init, wait, arrive, expect, allocate_mbarrier)


# Copies by TMA.


def async_copy_global_to_shared(
    desc: Descriptor, coord: Any, barrier: Shared, result: Shared, pred: Any = True, *_: Any
) -> None:
    if not _plain(pred):
        return
    program = machine()
    program.step()
    desc.check(result)
    found, actor = _barrier(barrier), program.current.fork()
    actor.site = program.site()  # type: ignore[attr-defined]
    pointers, mask = desc.lanes(coord)
    dtype = numpy_dtype(desc.dtype)
    data = interpreter._interpreter.load(pointers, mask, np.zeros(mask.shape, dtype), dtype)
    result.write(actor, "copy", data)
    found.copies += 1
    program.later(lambda: program.copied(found, actor, result.nbytes))


def install() -> None:
    """Let @gluon.jit kernels of this process run in the interpreter."""
    from triton.experimental.gluon import _runtime
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia import ampere, hopper

    jitted = _runtime.GluonJITFunction
    if jitted.run is _launch:
        return
    for name, member in list(vars(gl).items()):
        builtin = tl.core.is_builtin(member) or isinstance(member, jitted)
        if (builtin or name == "static_range") and hasattr(tl, name):
            setattr(gl, name, _forward(name))
    for module, functions in (
        (gl, LANGUAGE),
        (hopper, ()),
        (hopper.mbarrier, MBARRIER),
        (hopper.tma, (async_copy_global_to_shared,)),
        (ampere.async_copy, ()),
    ):
        for name, member in list(vars(module).items()):
            if tl.core.is_builtin(member):
                setattr(module, name, _refuse(name))
        for function in functions:
            setattr(module, function.__name__, function)
    jitted.run, jitted.__call__ = _launch, _call


def _refuse(name: str) -> Callable:
    def call(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"{name} of Gluon runs on a GPU only")

    return call


def _forward(name: str) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(tl, name)(*args, **kwargs)

    return call


def _rewritten(function: Any) -> Callable:
    known = interpreter.InterpretedFunction.rewritten_fn
    if function.fn not in known:
        known[function.fn] = interpreter.FunctionRewriter(function.fn).rewrite_ast()
    return known[function.fn]


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    machine()
    return _rewritten(self)(*args, **kwargs)


def _launch(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
    if not warmup:
        hooks = getattr(self, "pre_run_hooks", [])
        run = _Executor(_rewritten(self), self.arg_names, grid, hooks)
        # The rewritten function has its annotations as text, of which only `tl.constexpr` is known.
        run.constexprs = [self.arg_names[number] for number in self.constexprs]
        with np.errstate(all="ignore"):
            run(*args, **kwargs)


def _reference() -> None:
    """What interpreter._patch_lang takes the modules of the language from: tl of this module."""


class _Converter(executor.Converter):
    def convert(self, name: str, value: object, dtype: tl.dtype | None) -> object:
        if hasattr(value, "block_shape") and hasattr(value, "layout"):
            base: Any = getattr(value, "base", None)
            return Descriptor(value, super().convert(name, base, None))
        return super().convert(name, value, dtype)


class _Executor(executor.Executor):
    converter = _Converter

    def patched(self) -> Any:
        return interpreter._patch_lang(_reference)

    def run_program(self, tracker: Tracker, number: int, arguments: dict[str, object]) -> None:
        global _machine
        launch, before = tracker.launch, _machine
        # Every size has orders of its own, the same in each run.
        sizes = [value for value in launch.arguments.values() if isinstance(value, int)]
        drawn = zlib.crc32(repr((sizes, launch.grid)).encode())
        seed = (drawn, tracker.watch.seed, len(tracker.watch.launches), number)
        _machine = Machine(tracker, int(str(launch.options.get("num_warps", 4))), seed)
        try:
            self.fn(**arguments)
        finally:
            _machine = before
