"""The places in Triton's interpreter where the judge looks on. All are private names of Triton.

They are taken for one launch and given back after it, so they wrap whatever is there at that time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import triton.runtime.interpreter as interpreter
from triton.language.semantic import TritonSemantic

from judge.memory.tracker import Tracker

Builder = interpreter.InterpreterBuilder

ATOMICS = ("rmw", "cas", "load", "store", "poll")


class Memory:
    """Stands in place of `_interpreter` and does as it does, at the real addresses.

    given_other: whether the load that is under way was given an `other`
    without_other: the element type of a load that was not
    order: memory semantics of the atomic that is under way, for those that are loads and stores
    local: the atomic that is under way is one for the threads of one program only
    """

    def __init__(self, stock, tracker: Tracker):
        self._stock = stock
        self._tracker = tracker
        self.given_other = False
        self.without_other = None
        self.order: str | None = None
        self.local = False

    def __getattr__(self, name: str):
        return getattr(self._stock, name)

    def load(self, pointers, mask, other, dtype):
        mask = _shaped(mask, pointers)
        dtype = np.dtype(dtype)
        real = self._tracker.access("reads", pointers, mask, dtype.itemsize, self.order)
        if self.without_other is not None and not mask.all():
            other = self._tracker.fill(mask, dtype, self.without_other)
        result = self._stock.load(real, mask, other, dtype)
        if self.order:
            self._tracker.settle(pointers, result)
        return result

    def store(self, pointers, values, mask):
        mask = _shaped(mask, pointers)
        real = self._tracker.access("writes", pointers, mask, values.itemsize, self.order)
        return self._stock.store(real, values, mask)

    def atomic_rmw(self, operation, pointers, values, mask, order):
        mask = _shaped(mask, pointers)
        order_name = None if self.local else order.name
        real = self._tracker.access("updates", pointers, mask, values.itemsize, order_name)
        result = self._stock.atomic_rmw(operation, real, values, mask, order)
        self._tracker.settle(pointers, result)
        return result

    def atomic_cas(self, pointers, expected, values, order):
        mask = np.ones(np.shape(pointers), dtype=bool)
        order_name = None if self.local else order.name
        real = self._tracker.access("updates", pointers, mask, values.itemsize, order_name)
        result = self._stock.atomic_cas(real, expected, values, order)
        self._tracker.settle(pointers, result)
        return result


def _shaped(mask, pointers: np.ndarray) -> np.ndarray:
    mask = np.asarray(mask, dtype=bool)
    return mask if mask.shape == pointers.shape else np.broadcast_to(mask, pointers.shape)


@contextlib.contextmanager
def taken(tracker: Tracker) -> Iterator[None]:
    """In the body the interpreter's accesses go through the tracker."""
    stock = interpreter._interpreter
    memory = Memory(stock, tracker)
    wrapped = {"create_masked_load": _seeing_other(memory)}
    for name in ATOMICS:
        if hasattr(Builder, f"create_atomic_{name}"):
            wrapped[f"create_atomic_{name}"] = _seeing_order(memory, name in ("rmw", "cas"))
    if tracker.traffic:
        wrapped["create_dot"] = tracker.traffic.seeing_dots
        if hasattr(Builder, "create_dot_scaled"):
            wrapped["create_dot_scaled"] = tracker.traffic.seeing_scaled_dots
    originals = {name: getattr(Builder, name) for name in wrapped}
    load = TritonSemantic.load
    interpreter._interpreter = memory
    for name, wrap in wrapped.items():
        setattr(Builder, name, wrap(originals[name]))
    TritonSemantic.load = _telling_of_other(memory, load)
    try:
        yield
    finally:
        interpreter._interpreter = stock
        for name, original in originals.items():
            setattr(Builder, name, original)
        TritonSemantic.load = load


def _telling_of_other(memory: Memory, original: Callable) -> Callable:
    """Triton hands an `other` of one lane on only where it is not 0, as `if other` asks for it."""

    def load(semantic, pointers, mask, other, *rest, **options):
        memory.given_other = other is not None
        try:
            return original(semantic, pointers, mask, other, *rest, **options)
        finally:
            memory.given_other = False

    return load


def _seeing_other(memory: Memory) -> Callable:
    def wrap(original):
        def create_masked_load(builder, pointers, mask, other, *rest, **options):
            given = memory.given_other or other is not None
            memory.without_other = None if given else pointers.get_element_ty()
            try:
                return original(builder, pointers, mask, other, *rest, **options)
            finally:
                memory.without_other = None

        return create_masked_load

    return wrap


def _seeing_order(memory: Memory, is_update: bool) -> Callable:
    def wrap(original):
        def create_atomic(builder, *args):
            order, scope = args[-2:]
            memory.local = scope.name == "CTA"
            memory.order = None if is_update or memory.local else order.name
            try:
                return original(builder, *args)
            finally:
                memory.order, memory.local = None, False

        return create_atomic

    return wrap
