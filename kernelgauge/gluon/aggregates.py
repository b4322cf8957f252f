"""Aggregates as they run here: classes whose fields are what kernels compute with."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import triton
import triton.experimental.gluon as gluon
import triton.experimental.gluon.language as gl
import triton.language as tl
from triton.experimental.gluon.language.nvidia import hopper
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.interpreter import interpreter_semantic as semantic

from kernelgauge.gluon import language

# What stands here for the types that a field is annotated with.
KINDS = {
    gl.shared_memory_descriptor: language.Buffer,
    hopper.tma.tensor_descriptor: language.Descriptor,
    hopper.warpgroup_mma_accumulator: language.warpgroup_mma_accumulator,
}

_of_triton = tl.core._aggregate


class _Method:
    """A function of an aggregate that is a kernel's, which gets the instance that it is read of."""

    def __init__(self, function: InterpretedFunction):
        self.function = function

    def __get__(self, instance: Any, owner: type) -> Callable:
        return self.function if instance is None else functools.partial(self.function, instance)


def aggregate(cls: type) -> type:
    """Return what Triton makes of a class, for the interpreter."""
    kinds = {name: _kind(it) for name, it in inspect.get_annotations(cls).items()}
    cls.__annotations__ = kinds
    made = _of_triton(cls)
    for name, member in inspect.getmembers(cls):
        if isinstance(member, InterpretedFunction):
            setattr(made, name, _Method(member))
    assign = made.__setattr__

    def assign_as_compiled(self: Any, name: str, value: Any) -> None:
        # Some of what the compiler takes for a tensor is a number here.
        if isinstance(value, (int, float)) and tl.tensor in _parts(kinds.get(name)):
            value = semantic.to_tensor(value)
        assign(self, name, value)

    made.__setattr__ = assign_as_compiled
    return made


def _kind(annotation: Any) -> Any:
    return functools.reduce(lambda a, b: a | b, (KINDS.get(it, it) for it in _parts(annotation)))


def _parts(annotation: Any) -> tuple:
    is_union = isinstance(annotation, types.UnionType)
    return typing.get_args(annotation) if is_union else (annotation,)


def install() -> None:
    """Replace the decorator in this process, under each name that a release has for it."""
    for module, name in ((tl.core, "_aggregate"), (triton, "aggregate"), (gluon, "aggregate")):
        if hasattr(module, name):
            setattr(module, name, aggregate)
