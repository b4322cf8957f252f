"""The hooks in Triton's interpreter that show the judge every access. All are private names there.

They are set for one launch and removed after it, so they wrap whatever is there at that time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.runtime.interpreter as interpreter
from triton.language.semantic import TritonSemantic

from kernelgauge.interpreter.arithmetic import widen
from kernelgauge.memory.thread_races import BARRIERS
from kernelgauge.memory.tracker import Tracker

Builder = interpreter.InterpreterBuilder

OPERATIONS = (
    "binary_op", "unary_op", "create_exp", "create_fdiv", "create_erf", "create_rsqrt",
    "create_extern_elementwise",
)  # fmt: skip
ATOMICS = ("rmw", "cas", "load", "store", "poll")


class Memory:
    """Replaces `_interpreter`, and does the same at the real addresses.

    given_other: whether the current load was given an `other`
    without_other: the element type of the current load, if it was not
    order: memory semantics of the current atomic, if it only loads or stores
    local: whether the current atomic is atomic only for the threads of one program
    """

    def __init__(self, stock: Any, tracker: Tracker) -> None:
        self._stock = stock
        self._tracker = tracker
        self.given_other = False
        self.without_other = None
        self.order: str | None = None
        self.local = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stock, name)

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        mask = _broadcast(mask, pointers)
        dtype = np.dtype(dtype)
        real = self._tracker.access("reads", pointers, mask, dtype.itemsize, self.order)
        if self.without_other is not None and not mask.all():
            other = self._tracker.fill(mask, dtype, self.without_other)
        result = self._stock.load(real, mask, other, dtype)
        if self.order:
            self._tracker.after_atomic(pointers, result, np.zeros(mask.sum(), dtype=bool))
        return result

    def store(self, pointers: Any, values: Any, mask: Any) -> Any:
        mask = _broadcast(mask, pointers)
        real = self._tracker.access("writes", pointers, mask, values.itemsize, self.order)
        result = self._stock.store(real, values, mask)
        if mask.size > 1:
            # A lane that does not find its own value again met another one.
            bits = np.ascontiguousarray(values)
            got = self._stock.load(real, mask, bits, bits.dtype)
            held = f"u{bits.itemsize}"
            if not np.array_equal(bits.view(held), got.view(held)):
                self._tracker.check_lanes(pointers, mask, bits.view(held), got.view(held))
        return result

    def atomic_rmw(self, operation: Any, pointers: Any, values: Any, mask: Any, order: Any) -> Any:
        mask = _broadcast(mask, pointers)
        sums = None
        if operation.name == "FADD" and self._tracker.watch.fixed_order:
            sums = _depend_on_order(np.broadcast_to(values, mask.shape)[mask])
        real = self._update(pointers, mask, values, order, sums)
        result = self._stock.atomic_rmw(operation, real, values, mask, order)
        self._tracker.after_atomic(pointers, result, self._changed(real, mask, result))
        return result

    def atomic_cas(self, pointers: Any, expected: Any, values: Any, order: Any) -> Any:
        mask = np.ones(np.shape(pointers), dtype=bool)
        real = self._update(pointers, mask, values, order)
        result = self._stock.atomic_cas(real, expected, values, order)
        self._tracker.after_atomic(pointers, result, self._changed(real, mask, result))
        return result

    def _changed(self, real: np.ndarray, mask: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Return which active lanes of an atomic changed what was there."""
        before = np.ascontiguousarray(before)
        now = self._stock.load(real, mask, before, before.dtype)
        bits = f"u{before.itemsize}"
        return (before.view(bits) != now.view(bits))[mask]

    def _update(
        self, pointers: Any, mask: Any, values: Any, order: Any, sums: Any = None
    ) -> np.ndarray:
        order = None if self.local else order.name
        return self._tracker.access("updates", pointers, mask, values.itemsize, order, sums)


def _depend_on_order(values: np.ndarray) -> np.ndarray:
    """Return which numbers are no integers: sums of those are the same in any order."""
    numbers = widen(values, "bf16") if values.dtype == np.uint16 else values
    return np.isfinite(numbers) & (numbers != np.rint(numbers))


def _broadcast(mask: Any, pointers: np.ndarray) -> np.ndarray:
    mask = np.asarray(mask, dtype=bool)
    return mask if mask.shape == pointers.shape else np.broadcast_to(mask, pointers.shape)


@contextlib.contextmanager
def installed(tracker: Tracker) -> Iterator[None]:
    """Pass the interpreter's accesses through the tracker in the body."""
    memory = Memory(interpreter._interpreter, tracker)
    hooks = {
        f"create_atomic_{name}": _note_order(memory, name in ("rmw", "cas")) for name in ATOMICS
    }
    hooks["create_masked_load"] = _note_missing_other(memory)
    if tracker.traffic:
        hooks["create_dot"] = tracker.traffic.count_dots
        hooks |= {name: tracker.traffic.count_lanes(name) for name in OPERATIONS}
        hooks["create_dot_scaled"] = tracker.traffic.count_scaled_dots
    with contextlib.ExitStack() as stack:
        for name, hook in hooks.items():
            # Not every version of Triton has every atomic.
            if hasattr(Builder, name):
                stack.enter_context(replaced(Builder, name, hook(getattr(Builder, name))))
        fence = _fences(tracker)
        for owner, name in [
            *((Builder, name) for name in BARRIERS if hasattr(Builder, name)),
            (interpreter.ReduceOps, "apply_impl"),
            (interpreter.ScanOps, "apply_impl"),
        ]:
            stack.enter_context(replaced(owner, name, fence(getattr(owner, name))))
        load = _note_other(memory, TritonSemantic.load)
        stack.enter_context(replaced(TritonSemantic, "load", load))
        stack.enter_context(replaced(interpreter, "_interpreter", memory))
        yield


@contextlib.contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Set an attribute in the body, and set it back afterwards."""
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def _note_other(memory: Memory, original: Callable) -> Callable:
    """Wrap TritonSemantic.load, which drops an `other` of a single lane if it is 0."""

    def load(
        semantic: Any, pointers: Any, mask: Any, other: Any, *rest: Any, **options: Any
    ) -> Any:
        memory.given_other = other is not None
        try:
            return original(semantic, pointers, mask, other, *rest, **options)
        finally:
            memory.given_other = False

    return load


def _fences(tracker: Tracker) -> Callable:
    def wrap(original: Callable) -> Callable:
        def operation(*args: Any, **options: Any) -> Any:
            tracker.unfenced.forget()
            return original(*args, **options)

        return operation

    return wrap


def _note_missing_other(memory: Memory) -> Callable:
    def wrap(original: Callable) -> Callable:
        def create_masked_load(
            builder: Any, pointers: Any, mask: Any, other: Any, *rest: Any, **options: Any
        ) -> Any:
            given = memory.given_other or other is not None
            memory.without_other = None if given else pointers.get_element_ty()
            try:
                return original(builder, pointers, mask, other, *rest, **options)
            finally:
                memory.without_other = None

        return create_masked_load

    return wrap


def _note_order(memory: Memory, is_update: bool) -> Callable:
    def wrap(original: Callable) -> Callable:
        def create_atomic(builder: Any, *args: Any) -> Any:
            order, scope = args[-2:]
            memory.local = scope.name == "CTA"
            memory.order = None if is_update or memory.local else order.name
            try:
                return original(builder, *args)
            finally:
                memory.order, memory.local = None, False

        return create_atomic

    return wrap
