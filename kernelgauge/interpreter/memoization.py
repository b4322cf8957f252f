"""Do once what Triton's interpreter does again and again: nearly all its time is Python.

It wraps the functions of triton.language at each launch and at each call of a device function, and
makes the shape of a tile's type from scratch for each operation on it. The names replaced here, and
the attributes set on types and tensors, are private names of Triton.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import triton.language as tl
import triton.runtime.interpreter as interpreter

from kernelgauge.core.blame import CALLED_WITHOUT_GRID


def interpreted(builtin: Callable) -> Callable:
    """Return a function of triton.language as kernels in the interpreter call it."""

    # What `tl.core.builtin` wraps only looks whether there is a semantic.
    compute = getattr(builtin, "__wrapped__", builtin)

    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = interpreter.interpreter_semantic
        return compute(*args, **kwargs)

    return call


def patch_builtin(package: Any, builder: Any, scope: Any) -> None:
    """Let the functions of a module or class run in the interpreter until the scope is restored."""
    for name, member, call in _builtins(package):
        if getattr(package, name) is member:
            scope.set_attr(package, name, call)


@functools.cache
def _builtins(package: Any) -> list[tuple[str, Callable, Callable]]:
    return [
        (name, member, interpreted(member))
        for name, member in inspect.getmembers(package)
        if tl.core.is_builtin(member)
    ]


def call_device_function(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a device function; the launch has usually patched triton.language already.

    Outside of a launch this raises what the compiled function would.
    """
    modules = _language_modules(function.fn)
    if tl in modules and not _is_patched(tl):
        raise RuntimeError(CALLED_WITHOUT_GRID)
    make_aliases_callable(function.fn)
    if not all(map(_is_patched, modules)):
        interpreter._patch_lang(function.fn)
    return function.rewrite()(*args, **kwargs)


def with_aliases(stock: Callable) -> Callable:
    """Wrap _patch_lang, which reaches the functions of triton.language by their modules only."""

    def patch_lang(fn: Callable) -> Any:
        make_aliases_callable(fn)
        return stock(fn)

    return patch_lang


@functools.cache
def make_aliases_callable(fn: Callable) -> None:
    """Let a kernel call functions of triton.language by names of its own: `cast = tl.cast`."""
    names = fn.__globals__
    if names.get("__name__", "").partition(".")[0] != "triton":
        for name, value in list(names.items()):
            # A class is an aggregate, which a kernel both calls and takes functions from.
            if tl.core.is_builtin(value) and not isinstance(value, type):
                names[name] = interpreted(value)


@functools.cache
def _language_modules(fn: Callable) -> list[ModuleType]:
    return [value for value in fn.__globals__.values() if value is tl or value is tl.core]


def _is_patched(module: ModuleType) -> bool:
    return not isinstance(module.range, type)


# The types of tiles of numbers, by the name of the element type and the shape: of those that are
# equal, all tensors have one.
tile_types: dict[tuple, tl.block_type] = {}


def share_shapes(stock: Callable) -> Callable:
    """Wrap block_type.__init__: types of one shape share what is derived from it, unchanged."""
    known: dict[tuple, tuple] = {}

    def init(self: Any, element_ty: Any, shape: Any) -> None:
        key = tuple(shape)
        if key not in known:
            stock(self, element_ty, shape)
            of_tensor = tl.tuple([tl.constexpr(size) for size in self.shape])
            numel = tl.constexpr(math.prod(self.shape))
            known[key] = (self.shape, self.numel, of_tensor, numel, str(self.shape))
        self.element_ty = element_ty
        self.shape, self.numel, self._tensor_shape, self._tensor_numel, text = known[key]
        self.name = f"<{text}, {element_ty}>"
        of_numbers = type(self) is tl.block_type and type(element_ty) is tl.dtype
        name = (element_ty.name, *self.shape)
        self._same = tile_types.setdefault(name, self) if of_numbers else self

    return init


def reuse_shapes(stock: Callable) -> Callable:
    """Wrap tensor.__init__: take the shape that `share_shapes` left on the type, and its twin."""

    no_axes, one = tl.tuple([]), tl.constexpr(1)

    def init(self: Any, handle: Any, type: Any) -> None:
        if hasattr(type, "_tensor_shape"):
            self.handle, self.type = handle, type._same
            self.dtype = type.element_ty
            self.shape, self.numel = type._tensor_shape, type._tensor_numel
        elif type.is_block():
            stock(self, handle, type)
        else:
            self.handle, self.type, self.dtype = handle, type, type.scalar
            self.shape, self.numel = no_axes, one

    return init
