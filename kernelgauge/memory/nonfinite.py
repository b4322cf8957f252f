"""Where NaN or infinity first arises in a program: the operation, its operands, and the line.

A wrong result that is NaN says little; the step that made it says all. While `Origins` is active,
the floating-point operations of the interpreter's builder are watched, and those of one program
whose result is NaN or infinite though no operand is are kept. Each lane that is not finite keeps
the number of the operation that made it, on its way through other operations, and the origin is
that of the lane that is stored. All that is wrapped here are private names of Triton.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.runtime.interpreter import TensorHandle

from kernelgauge.interpreter.arithmetic import widen
from kernelgauge.memory.access_hooks import Builder, replaced
from kernelgauge.memory.call_sites import CallSite, user_frame
from kernelgauge.memory.tracker import Tracker
from kernelgauge.memory.watch import current_watch
from kernelgauge.words.fault import Note, note

BINARY = {
    "create_fadd": "+",
    "create_fsub": "-",
    "create_fmul": "*",
    "create_fdiv": "/",
    "create_precise_divf": "/",
}
UNARY = {
    f"create_{name}": name.removeprefix("precise_")
    for name in ("exp", "exp2", "log", "log2", "sqrt", "precise_sqrt", "rsqrt")
}
CASTS = ("create_fp_trunc", "create_fp_to_fp")
LOADS = ("create_load", "create_masked_load")
# What moves elements to other places, and does so with anything.
MOVES = tuple(
    f"create_{name}"
    for name in (
        "broadcast",
        "cat",
        "expand_dims",
        "gather",
        "join",
        "reshape",
        "splat",
        "split",
        "trans",
        "unsplat",
    )
)
STORES = ("create_store", "create_masked_store")
LOADED = "nan-in-memory"
MASKED = "nan-in-masked-lane"
MAX_EVENTS = 2000
NOBODY = np.int32(2**31 - 1)


@dataclass(frozen=True)
class _Event:
    """An operation that made NaN or infinity out of numbers.

    operation: as in `Origin`
    given: what made the infinity that it was given, if that was seen
    unset: of a load, an element that no program stored
    handed_on: whether it is a load of what a kernel stored
    """

    operation: str
    site: CallSite
    given: _Event | None = None
    unset: str = ""
    handed_on: bool = False

    def said(self, infinity: Note | None = None) -> Note:
        """Return the operation and its line. infinity: what made that which it was given"""
        return note(
            "nonfinite-arises",
            operation=self.operation,
            file=self.site.file,
            line=self.site.line,
            source=self.site.line_text,
            infinity=infinity,
        )


@dataclass(frozen=True)
class Origin:
    """What made a value that is not finite.

    operation: such as "0 / 0" or "exp(1000)", or LOADED or MASKED; empty if none was seen
    said: the operation and its line, and those of an infinity that it was given
    unset: the element that was loaded and that no program stored, if that is the origin
    handed_on: whether NaN was loaded that a kernel stored
    """

    operation: str = ""
    said: Note | None = None
    unset: str = ""
    handed_on: bool = False

    @property
    def is_loaded(self) -> bool:
        """Whether NaN was loaded."""
        return self.operation in (LOADED, MASKED)


class Origins:
    """What made NaN or infinity in one program of each launch: `with Origins(program) as origins:`.

    program: its ids; None for the first of all programs that stores NaN
    infinite: whether to ask about infinity alone, where NaN that is stored too is right
    found: the origin of the first such value that it stored; `at` gives that of an element
    """

    def __init__(self, program: tuple[int, int, int] | None, infinite: bool = False):
        self.program, self.infinite = program, infinite
        self._running: tuple[int, int, int] | None = None
        self.found = Origin()
        self._events: list[_Event] = []
        # Where the last access went on the host; and where what is not finite was stored, with the
        # numbers of the events that made it, and these.
        self._touched = np.empty(0, np.uint64)
        self._stored: list[tuple[np.ndarray, np.ndarray, list[_Event]]] = []
        # Of each handle the number of the event that made each of its lanes, from 1; 0 for none.
        self._made_by: dict[int, tuple[Any, np.ndarray]] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Origins:
        hooks: dict[str, Callable] = {
            **{name: self._elementwise for name in dir(Builder) if name.startswith("create_")},
            **dict.fromkeys(MOVES, self._move),
            **{name: self._binary(sign) for name, sign in BINARY.items()},
            **{name: self._unary(function) for name, function in UNARY.items()},
            **dict.fromkeys(CASTS, self._cast),
            **dict.fromkeys(STORES, self._store),
            **dict.fromkeys(LOADS, self._load),
            "create_select": self._select,
            "create_dot": self._dot,
        }
        for name, hook in hooks.items():
            if hasattr(Builder, name):
                original = getattr(Builder, name)
                self._stack.enter_context(replaced(Builder, name, hook(original)))
        self._stack.enter_context(replaced(Tracker, "access", self._access(Tracker.access)))
        for operations in (interpreter.ReduceOps, interpreter.ScanOps):
            hooked = self._along_an_axis(operations.apply_impl)
            self._stack.enter_context(replaced(operations, "apply_impl", hooked))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def at(self, address: int, size: int) -> Origin:
        """Return the origin of what was last stored to the bytes of an element, or `found`."""
        for addresses, makers, events in reversed(self._stored):
            here = np.flatnonzero((addresses >= address) & (addresses < address + size))
            if here.size:
                return _origin(events[int(makers[here[0]]) - 1])
        return self.found

    def _follows(self, builder: Any) -> bool:
        """Return whether this program is watched, and forget what another one did."""
        if self.program is None and builder.grid_idx != self._running:
            self._running = builder.grid_idx
            self._events = []
            self._made_by.clear()
        return self.program in (None, builder.grid_idx)

    def _makers(self, handle: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Return the number of the event that made each lane of a handle, in a tile's shape."""
        _, made_by = self._made_by.get(id(handle), (None, np.zeros(1, np.int32)))
        return np.broadcast_to(made_by, shape) if made_by.size > 1 else np.full(shape, made_by)

    def _keep(self, handle: Any, made_by: np.ndarray) -> None:
        if made_by.any():
            self._made_by[id(handle)] = handle, made_by

    def _note(
        self,
        builder: Any,
        result: Any,
        operands: Sequence[Any],
        shown: Callable[[tuple[int, ...]], str] | None = None,
        passing: bool = False,
    ) -> None:
        """Keep an operation on each lane if it made NaN or infinity, or pass on what it was given.

        shown: returns the operation in a lane; None if it makes none by itself
        passing: whether to keep it too if an operand is infinite already
        """
        if not self._follows(builder):
            return
        values = _numbers(result)
        if values is None or np.isfinite(values).all():
            return
        given = [(it, numbers) for it in operands if (numbers := _numbers(it)) is not None]
        made_by = np.zeros(values.shape, np.int32)
        for holds in (np.isnan, np.isinf):
            lanes = there = holds(values)
            for operand, numbers in () if passing and holds is np.isinf else given:
                same = there & np.broadcast_to(holds(numbers), lanes.shape)
                makers = self._makers(operand, lanes.shape)
                made_by = np.where(same & (made_by == 0), makers, made_by)
                lanes = lanes & ~same
            meant = holds is np.isinf and _is_meant(lanes, values, [it for _, it in given])
            if shown and lanes.any() and not meant:
                first = tuple(int(i) for i in np.argwhere(lanes)[0])
                infinity = self._infinity([it for it, _ in given], lanes.shape, first)
                made_by = np.where(lanes, self._event(shown(first), infinity), made_by)
        self._keep(result, made_by)

    def _event(self, operation: str, given: _Event | None = None, **load: Any) -> np.int32:
        """Keep an event. Returns its number, 0 if there are too many."""
        if len(self._events) >= MAX_EVENTS:
            return np.int32(0)
        self._events.append(_Event(operation, _site(), given, **load))
        return np.int32(len(self._events))

    def _infinity(
        self, operands: Sequence[Any], shape: tuple[int, ...], lane: tuple[int, ...]
    ) -> _Event | None:
        """Return what made one of the operands of a lane."""
        numbers = (int(self._makers(operand, shape)[lane]) for operand in operands)
        return next((self._events[number - 1] for number in numbers if number), None)

    def _elementwise(self, original: Callable) -> Callable:
        def operation(builder: Any, *operands: Any, **options: Any) -> Any:
            result = original(builder, *operands, **options)
            if isinstance(result, TensorHandle):
                listed = [it for some in operands for it in (some if _is_list(some) else [some])]
                handles = [it for it in listed if isinstance(it, TensorHandle)]
                if all(_fits(it, result) for it in handles):
                    self._note(builder, result, handles)
            return result

        return operation

    def _move(self, original: Callable) -> Callable:
        def move(builder: Any, *operands: Any, **options: Any) -> Any:
            result = original(builder, *operands, **options)
            if self._follows(builder) and any(id(it) in self._made_by for it in operands):
                makers = [
                    TensorHandle(np.array(self._makers(it, it.data.shape)), tl.int32)
                    if isinstance(it, TensorHandle) and _numbers(it) is not None
                    else it
                    for it in operands
                ]
                moved = original(builder, *makers, **options)
                pairs = zip(result, moved, strict=True) if _is_list(result) else [(result, moved)]
                for one, its in pairs:
                    self._keep(one, its.data)
            return result

        return move

    def _select(self, original: Callable) -> Callable:
        def select(builder: Any, condition: Any, left: Any, right: Any) -> Any:
            result = original(builder, condition, left, right)
            if self._follows(builder):
                makers = [self._makers(it, result.data.shape) for it in (left, right)]
                self._keep(result, np.where(condition.data, *makers))
            return result

        return select

    def _along_an_axis(self, original: Callable) -> Callable:
        """Wrap a reduction or a scan."""

        def apply_impl(operation: Any, inputs: tuple[tl.tensor, ...]) -> Any:
            results = original(operation, inputs)
            for given, result in zip(inputs, results, strict=False):
                if self._follows(interpreter.interpreter_builder):
                    self._note_along(operation, given.handle, result.handle)
            return results

        return apply_impl

    def _note_along(self, operation: Any, given: Any, result: Any) -> None:
        values, numbers = _numbers(result), _numbers(given)
        if values is None or numbers is None or np.isfinite(values).all():
            return
        made_by = np.zeros(values.shape, np.int32)
        makers, axis = self._makers(given, numbers.shape), _unwrapped(operation.axis)
        if axis is None:
            makers, numbers, axis = makers.ravel(), numbers.ravel(), 0
        for holds in (np.isnan, _not_finite):
            first = np.where(holds(numbers) & (makers > 0), makers, NOBODY)
            if isinstance(operation, interpreter.ScanOps):
                # What comes before a lane: what comes after it, if it runs backwards.
                turned = np.flip(first, axis) if operation.reverse else first
                first = np.minimum.accumulate(turned, axis)
                first = np.flip(first, axis) if operation.reverse else first
            else:
                first = first.min(axis).reshape(values.shape)
            take = holds(values) & (first < NOBODY) & (made_by == 0)
            made_by = np.where(take, first, made_by)
        if np.isfinite(numbers).all():
            made_by = np.where(_not_finite(values), self._event(f"tl.sum{_narrow(given)}"), made_by)
        self._keep(result, made_by)

    def _binary(self, sign: str) -> Callable:
        def wrap(original: Callable) -> Callable:
            def operation(builder: Any, left: Any, right: Any) -> Any:
                result = original(builder, left, right)
                self._note(
                    builder,
                    result,
                    (left, right),
                    lambda lane: f"{_at(left, lane)} {sign} {_at(right, lane)}{_narrow(left)}",
                )
                return result

            return operation

        return wrap

    def _unary(self, name: str) -> Callable:
        def wrap(original: Callable) -> Callable:
            def operation(builder: Any, operand: Any) -> Any:
                result = original(builder, operand)
                given = _numbers(operand)
                self._note(
                    builder,
                    result,
                    (operand,),
                    lambda lane: f"{name}({_at(operand, lane)})",
                    passing=(
                        given is not None
                        and name.startswith("exp")
                        and bool(np.isposinf(given).any())
                    ),
                )
                return result

            return operation

        return wrap

    def _cast(self, original: Callable) -> Callable:
        def cast(builder: Any, operand: Any, dtype: Any, *rest: Any) -> Any:
            result = original(builder, operand, dtype, *rest)
            name = {"fp16": "float16", "bf16": "bfloat16"}.get(dtype.scalar.name, dtype.scalar.name)
            self._note(builder, result, (operand,), lambda lane: f"{_at(operand, lane)} as {name}")
            return result

        return cast

    def _dot(self, original: Callable) -> Callable:
        def dot(builder: Any, a: Any, b: Any, acc: Any, *rest: Any) -> Any:
            result = original(builder, a, b, acc, *rest)
            if self._follows(builder):
                self._note_dot(result, a, b, acc)
            return result

        return dot

    def _note_dot(self, result: Any, a: Any, b: Any, acc: Any) -> None:
        values = _numbers(result)
        if values is None or np.isfinite(values).all():
            return
        wrong, made_by = _not_finite(values), np.zeros(values.shape, np.int32)
        finite, infinite = True, False
        for operand, axis in ((acc, None), (a, -1), (b, -2)):
            numbers = _numbers(operand)
            assert numbers is not None
            makers = self._makers(operand, numbers.shape)
            first = np.where(_not_finite(numbers) & (makers > 0), makers, NOBODY)
            first = first if axis is None else first.min(axis, keepdims=True)
            made_by = np.where(wrong & (first < NOBODY) & (made_by == 0), first, made_by)
            finite = finite and bool(np.isfinite(numbers).all())
            infinite = infinite or (axis is not None and bool(np.isinf(numbers).any()))
        if not made_by.any() and (finite or infinite):
            made_by = np.where(wrong, self._event("tl.dot" if finite else "tl.dot of inf"), made_by)
        self._keep(result, made_by)

    def _load(self, original: Callable) -> Callable:
        def load(builder: Any, pointers: Any, *rest: Any) -> Any:
            result = original(builder, pointers, *rest)
            self._note_loaded(builder, result, _mask(rest))
            return result

        return load

    def _note_loaded(self, builder: Any, result: Any, mask: np.ndarray | None) -> None:
        if not self._follows(builder):
            return
        values = _numbers(result)
        lanes = None if values is None else np.isnan(values)
        if lanes is None or not lanes.any():
            return
        inside = lanes if mask is None else lanes & np.broadcast_to(mask, lanes.shape)
        made_by = np.zeros(lanes.shape, np.int32)
        for operation, where in ((LOADED, inside), (MASKED, lanes & ~inside)):
            if where.any():
                watch, in_memory = current_watch(), operation is LOADED
                unset = watch.first_unset() if in_memory else ""
                handed_on = in_memory and not unset and not watch.loads_inputs
                number = self._event(operation, unset=unset, handed_on=handed_on)
                made_by = np.where(where, number, made_by)
        self._keep(result, made_by)

    def _store(self, original: Callable) -> Callable:
        def store(builder: Any, pointers: Any, value: Any, *rest: Any) -> Any:
            result = original(builder, pointers, value, *rest)
            values = _numbers(value) if self._follows(builder) else None
            if values is not None and _not_finite(values).any():
                self._note_stored(value, values, _mask(rest))
            return result

        return store

    def _access(self, original: Callable) -> Callable:
        def access(*given: Any, **options: Any) -> np.ndarray:
            self._touched = original(*given, **options)
            return self._touched

        return access

    def _note_stored(self, value: Any, values: np.ndarray, mask: np.ndarray | None) -> None:
        """Keep where the lanes went that are not finite, and what made them."""
        makers = self._makers(value, values.shape)
        stored = _not_finite(values) & (makers > 0)
        if mask is not None:
            stored = stored & np.broadcast_to(mask, stored.shape)
        addresses = np.broadcast_to(self._touched, stored.shape)[stored]
        self._stored.append((addresses, makers[stored], self._events))
        if self.found.said or (self.program is None and not np.isnan(values).any()):
            return
        meant = stored & np.isinf(values) if self.infinite else stored
        if meant.any():
            nan = meant & np.isnan(values)
            number = makers[nan if nan.any() else meant][0]
            self.found = _origin(self._events[int(number) - 1])


def _origin(made: _Event) -> Origin:
    """Return what made a value: the infinity that the operation was given, if that was made."""
    if made.given and "inf" in made.operation:
        given = made.given
        return Origin(given.operation, made.said(given.said()), given.unset, given.handed_on)
    return Origin(made.operation, made.said(), made.unset, made.handed_on)


def _site() -> CallSite:
    frame = user_frame(None)
    if frame is None:
        return CallSite("", 0, "")
    return CallSite(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _mask(rest: tuple) -> np.ndarray | None:
    """Return the mask among the arguments of a load or a store, None if there is none."""
    data = getattr(rest[0], "data", None) if rest else None
    return data if isinstance(data, np.ndarray) and data.dtype == bool else None


def _is_list(value: object) -> bool:
    return isinstance(value, (tuple, list))


def _fits(operand: Any, result: Any) -> bool:
    """Return whether each lane of the result may come from the same lane of an operand."""
    return operand.data.size == 1 or operand.data.shape == result.data.shape


def _unwrapped(value: Any) -> Any:
    return getattr(value, "value", value)


def _numbers(handle: Any) -> np.ndarray | None:
    """Return the floating-point numbers of a tensor of the interpreter, None of any other."""
    dtype = handle.dtype.scalar
    return widen(handle.data, dtype.name) if dtype.is_floating() else None


def _narrow(handle: Any) -> str:
    return " in float16" if handle.dtype.scalar.name == "fp16" else ""


def _at(handle: Any, lane: tuple[int, ...]) -> str:
    values = _numbers(handle)
    if values is None:
        return "a number"
    return f"{float(values.flat[0] if values.size == 1 else values[lane]):.4g}"


def _is_meant(lanes: np.ndarray, values: np.ndarray, operands: list[np.ndarray]) -> bool:
    """Return whether -inf, such as the score of a masked lane, was passed on."""
    return bool((values[lanes] < 0).all()) and any(map(_has_negative_infinity, operands))


def _has_negative_infinity(numbers: np.ndarray) -> bool:
    return bool(np.isneginf(numbers).any())


def _not_finite(numbers: np.ndarray) -> np.ndarray:
    return ~np.isfinite(numbers)
