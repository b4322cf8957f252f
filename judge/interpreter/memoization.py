"""Work that Triton's interpreter does again and again, done once: nearly all its time is Python.

Wrapping the functions of triton.language at each launch and at each call of a device function, and
making the shapes of a tile's type from scratch for each operation on it.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable

import triton.language as tl
import triton.runtime.interpreter as interpreter


def install() -> None:
    interpreter._patch_builtin = _patch_builtin
    interpreter.InterpretedFunction.__call__ = _call
    tl.block_type.__init__ = _with_known_shape(tl.block_type.__init__)
    tl.tensor.__init__ = _of_known_shape(tl.tensor.__init__)


def interpreted(builtin: Callable) -> Callable:
    """A function of triton.language as kernels in the interpreter call it."""

    def call(*args, **kwargs):
        kwargs["_semantic"] = interpreter.interpreter_semantic
        return builtin(*args, **kwargs)

    return call


def _patch_builtin(package, builder, scope) -> None:
    """Let the functions of a package run in the interpreter, until the scope is restored."""
    for name, member, call in _builtins(package):
        if getattr(package, name) is member:
            scope.set_attr(package, name, call)


@functools.cache
def _builtins(package) -> list[tuple[str, Callable, Callable]]:
    return [
        (name, member, interpreted(member))
        for name, member in inspect.getmembers(package)
        if tl.core.is_builtin(member)
    ]


def _call(function, *args, **kwargs):
    """A call of a device function. As a rule the launch has patched triton.language already."""
    if not all(_is_patched(module) for module in _language(function.fn)):
        interpreter._patch_lang(function.fn)
    return function.rewrite()(*args, **kwargs)


@functools.cache
def _language(fn: Callable) -> list:
    modules = (tl, tl.core)
    return [value for value in fn.__globals__.values() if any(value is m for m in modules)]


def _is_patched(module) -> bool:
    return not isinstance(module.range, type)


def _with_known_shape(stock: Callable) -> Callable:
    """block_type.__init__. Types of one shape share what is made of it, which nobody changes."""
    known: dict[tuple, tuple] = {}

    def init(self, element_ty, shape):
        key = tuple(shape)
        if key not in known:
            stock(self, element_ty, shape)
            of_tensor = tl.tuple([tl.constexpr(size) for size in self.shape])
            numel = tl.constexpr(math.prod(self.shape))
            known[key] = (self.shape, self.numel, of_tensor, numel, str(self.shape))
        self.element_ty = element_ty
        self.shape, self.numel, self._tensor_shape, self._tensor_numel, text = known[key]
        self.name = f"<{text}, {element_ty}>"

    return init


def _of_known_shape(stock: Callable) -> Callable:
    """tensor.__init__."""

    def init(self, handle, type):
        if not hasattr(type, "_tensor_shape"):
            stock(self, handle, type)
            return
        self.handle, self.type = handle, type
        self.dtype = type.element_ty
        self.shape, self.numel = type._tensor_shape, type._tensor_numel

    return init
