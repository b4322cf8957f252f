"""Where NaN or infinity first arises in a program: the operation, its operands, and the line.

A wrong result that is NaN says little; the step that made it says all. While `Origins` is active,
the floating-point operations of the interpreter's builder are watched, and those of one program
whose result is NaN or infinite though no operand is are kept. When that program stores such a
value, the first of them that reaches the stored lanes is the origin. All that is wrapped here are
private names of Triton.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelgauge.interpreter.arithmetic import widen
from kernelgauge.memory.access_hooks import Builder, replaced
from kernelgauge.memory.call_sites import CallSite, user_frame
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
STORES = ("create_store", "create_masked_store")
LOADED = "nan-in-memory"
MASKED = "nan-in-masked-lane"
MAX_EVENTS = 200


@dataclass(frozen=True)
class _Event:
    """An operation that made NaN or infinity out of numbers.

    operation: as in `Origin`
    lanes: in which lanes of its result
    unset: of a load, an element that no program stored
    """

    operation: str
    site: CallSite
    lanes: np.ndarray
    nan: bool
    unset: str = ""

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
    """

    operation: str = ""
    said: Note | None = None
    unset: str = ""

    @property
    def is_loaded(self) -> bool:
        """Whether NaN was loaded."""
        return self.operation in (LOADED, MASKED)


class Origins:
    """What made NaN or infinity in one program of each launch: `with Origins(program) as origins:`.

    program: its ids; None for the first of all programs that stores NaN
    found: the origin of the value that it stored
    """

    def __init__(self, program: tuple[int, int, int] | None):
        self.program = program
        self._running: tuple[int, int, int] | None = None
        self.found = Origin()
        self._events: list[_Event] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Origins:
        hooks: dict[str, Callable] = {
            **{name: self._binary(sign) for name, sign in BINARY.items()},
            **{name: self._unary(function) for name, function in UNARY.items()},
            **dict.fromkeys(CASTS, self._cast),
            **dict.fromkeys(STORES, self._store),
            **dict.fromkeys(LOADS, self._load),
            "create_dot": self._dot,
        }
        for name, hook in hooks.items():
            if hasattr(Builder, name):
                original = getattr(Builder, name)
                self._stack.enter_context(replaced(Builder, name, hook(original)))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _follows(self, builder: Any) -> bool:
        """Return whether this program is watched, and forget what another one did."""
        if self.program is None and builder.grid_idx != self._running:
            self._running = builder.grid_idx
            self._events.clear()
        return self.program in (None, builder.grid_idx)

    def _note(
        self,
        builder: Any,
        result: Any,
        operands: tuple,
        shown: Callable[[tuple[int, ...]], str],
        elementwise: bool = True,
        passing: bool = False,
    ) -> None:
        """Keep an operation if it made NaN or infinity.

        shown: returns the operation in a lane
        elementwise: whether each lane of the result comes from the same lane of the operands
        passing: whether to keep it too if an operand already is what the result is
        """
        if not self._follows(builder) or len(self._events) >= MAX_EVENTS:
            return
        values = _numbers(result)
        if values is None or np.isfinite(values).all():
            return
        given = [numbers for operand in operands if (numbers := _numbers(operand)) is not None]
        site = _site()
        for holds in (np.isnan, np.isinf):
            lanes = holds(values)
            for operand in given:
                if elementwise and not passing:
                    lanes = lanes & ~np.broadcast_to(holds(operand), lanes.shape)
                elif not elementwise and holds(operand).any():
                    lanes = np.zeros_like(lanes)
            if lanes.any() and not (holds is np.isinf and _is_meant(lanes, values, given)):
                first = tuple(int(i) for i in np.argwhere(lanes)[0])
                self._events.append(_Event(shown(first), site, lanes, holds is np.isnan))

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
            self._note(builder, result, (a, b, acc), lambda lane: _dot_of(a, b), elementwise=False)
            return result

        return dot

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
        for operation, where in ((LOADED, inside), (MASKED, lanes & ~inside)):
            if where.any():
                unset = current_watch().first_unset() if operation is LOADED else ""
                self._events.append(_Event(operation, _site(), where, True, unset))

    def _store(self, original: Callable) -> Callable:
        def store(builder: Any, pointers: Any, value: Any, *rest: Any) -> Any:
            if self._follows(builder) and not self.found.said:
                values = _numbers(value)
                counts = np.isnan if self.program is None else _not_finite
                if values is not None and counts(values).any():
                    self._trace(values, _mask(rest))
            return original(builder, pointers, value, *rest)

        return store

    def _trace(self, values: np.ndarray, mask: np.ndarray | None) -> None:
        """Find the operation that made what is not finite in the lanes that are stored."""
        stored = ~np.isfinite(values)
        if mask is not None:
            stored = stored & np.broadcast_to(mask, stored.shape)
        # Through a sum, or a tile of another shape, any lane may reach any other.
        reaching = [event for event in self._events if _reaches(event.lanes, stored)]
        reaching = reaching or self._events
        if not stored.any() or not reaching:
            return
        is_nan = bool(np.isnan(values[stored]).any())
        made = next((event for event in reaching if event.nan), None) if is_nan else reaching[0]
        made = made or reaching[0]
        before = [event for event in reaching[: reaching.index(made)] if not event.nan]
        if made.nan and before and "inf" in made.operation:
            first = before[0]
            self.found = Origin(first.operation, made.said(first.said()), made.unset)
        else:
            self.found = Origin(made.operation, made.said(), made.unset)


def _site() -> CallSite:
    frame = user_frame(None)
    if frame is None:
        return CallSite("", 0, "")
    return CallSite(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _mask(rest: tuple) -> np.ndarray | None:
    """Return the mask among the arguments of a load or a store, None if there is none."""
    data = getattr(rest[0], "data", None) if rest else None
    return data if isinstance(data, np.ndarray) and data.dtype == bool else None


def _dot_of(a: Any, b: Any) -> str:
    infinite = any(np.isinf(x).any() for x in map(_numbers, (a, b)) if x is not None)
    return "tl.dot of inf" if infinite else "tl.dot"


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


def _reaches(lanes: np.ndarray, stored: np.ndarray) -> bool:
    """Return whether lanes of one tile may have become lanes of another."""
    if lanes.shape == stored.shape:
        return bool((lanes & stored).any())
    for axis, length in enumerate(lanes.shape):
        others = tuple({*range(lanes.ndim)} - {axis})
        along = lanes.any(axis=others)
        for other, size in enumerate(stored.shape):
            if length == size > 1:
                rest = tuple({*range(stored.ndim)} - {other})
                if (along & stored.any(axis=rest)).any():
                    return True
    return lanes.size == 1 or stored.size == 1 or not set(lanes.shape) & set(stored.shape)
