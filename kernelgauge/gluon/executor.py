"""Launches of Gluon kernels in the interpreter."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.experimental.gluon as gluon
import triton.runtime.interpreter as interpreter
from triton.experimental.gluon import _runtime
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernelgauge.gluon import aggregates, language
from kernelgauge.gluon.block import BLOCK, PARTITION, Block
from kernelgauge.memory.executor import Executor
from kernelgauge.memory.tracker import Tracker


class GluonExecutor(Executor):
    """One launch of a Gluon kernel."""

    has_partitions = True

    def __init__(self, fn: Callable, arg_names: list[str], *rest: Any) -> None:
        super().__init__(fn, arg_names, *rest)
        self._kernel = fn
        # Triton's own knows the annotation tl.constexpr only by that name.
        kinds = fn.__annotations__
        self.constexprs = [it for it in arg_names if "constexpr" in str(kinds.get(it))]

    def _run_programs(self, tracker: Tracker, arguments: dict[str, object]) -> None:
        watch, kernel = tracker.watch, self._kernel
        case = zlib.crc32(f"{watch.case} {watch.order}".encode())
        warps = language.value(tracker.launch.options.get("num_warps", 4))

        def program(**given: Any) -> None:
            numbers = case, watch.seed, len(watch.launches), tracker.number
            random = np.random.default_rng(numbers)
            if watch.record:
                watch.record.moments, watch.record.program = [], tracker.number
            moments = watch.record.moments if watch.record else None
            counted = watch.traffic is not None
            block = Block(random, kernel.__code__, warps, moments, counted)
            before = BLOCK.set(block), PARTITION.set(block.main)
            try:
                kernel(**given)
                block.end()
                if watch.traffic:
                    watch.traffic.ahead += block.ahead
            finally:
                BLOCK.reset(before[0])
                PARTITION.reset(before[1])

        self.fn = program
        try:
            super()._run_programs(
                tracker, {name: _described(value) for name, value in arguments.items()}
            )
        finally:
            self.fn = kernel


def _described(value: Any) -> Any:
    """Return a descriptor as kernels take it, and anything else as it is."""
    if not isinstance(value, TensorDescriptor):
        return value
    base = interpreter._implicit_cvt(value.base)
    return language.Descriptor(base, value.shape, value.strides, value.block_shape, value.layout)


class GluonFunction(interpreter.InterpretedFunction):
    """What `gluon.jit` returns."""

    def run(self, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        """Launch the kernel."""
        if not warmup:
            with np.errstate(all="ignore"):
                executor = GluonExecutor(self.rewrite(), self.arg_names, grid, self.pre_run_hooks)
                executor(*args, **options)

    def is_gluon(self) -> bool:
        """Tell Triton that this is no kernel of its own language."""
        return True


def jit(fn: Callable | None = None, **options: Any) -> Any:
    """Return `gluon.jit`'s function, for the interpreter."""
    return (lambda it: GluonFunction(it, **options)) if fn is None else GluonFunction(fn, **options)


def install() -> None:
    """Run the Gluon kernels of this process here."""
    gluon.jit = _runtime.jit = jit
    language.install()
    aggregates.install()
