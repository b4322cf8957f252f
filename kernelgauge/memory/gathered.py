"""Why an access leaves its tensor although its mask is right: the index was loaded, and is wrong.

The kernel's source says which of its variables are loaded from memory, or made from what is. One of
them is at fault if its values are past the ends of a dimension in just the lanes that are out of
bounds, and the rest of their addresses is inside the tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from kernelgauge.memory import mask_limits
from kernelgauge.memory.addresses import Region
from kernelgauge.memory.call_sites import ACCESS_CALLS
from kernelgauge.memory.coordinates import Access, has_size, integers
from kernelgauge.words.fault import Note, note

MAX_DEPTH = 4
# Larger tensors, which lie beyond 2**31 bytes for instance, are not read for an explanation.
MAX_ENTRIES = 2**24


@dataclass(frozen=True)
class _Index:
    """Integers of a kernel that come from memory.

    name: as the kernel writes it
    values: int64, one for each lane along an axis of the tile, or one for all
    source: the parameter of the tensor that they were loaded from, None if that is not known or
        the name says it
    loaded: what was loaded there, of the same shape; `values` itself if nothing was done to it
    """

    name: str
    values: np.ndarray
    source: str | None
    loaded: np.ndarray

    @property
    def is_as_loaded(self) -> bool:
        return np.array_equal(self.values, self.loaded)


def explain(access: Access, region: Region, element: np.ndarray, bad: np.ndarray) -> Note | None:
    """Return which index that was loaded is wrong, None if none of them is known to be.

    element: int64 offsets in elements, of the tile's shape
    bad: which lanes of the tile are outside the elements of the region
    """
    for index in _indices(access):
        for values in _in_tile(index.values, element.shape):
            for dim in range(len(region.shape)):
                if region.strides[dim] == 1 < len(region.shape) and not index.is_as_loaded:
                    # An offset in elements, not an index of a row.
                    continue
                if not _is_at_fault(values, dim, region, element, bad, access.mask & ~bad):
                    continue
                loaded = next(_in_tile(index.loaded, element.shape), None)
                if (
                    loaded is not None
                    and index.source
                    and not np.isin(loaded[bad], _entries(access, index.source)).all()
                ):
                    # A lane that was masked off there loaded nothing.
                    return None
                return _said(index, values[bad], region, dim)
    return None


def _is_at_fault(
    values: np.ndarray,
    dim: int,
    region: Region,
    element: np.ndarray,
    bad: np.ndarray,
    good: np.ndarray,
) -> bool:
    """Return whether just the bad lanes have an index that this dimension does not have."""
    size, stride = region.shape[dim], region.strides[dim]
    inside = (values >= 0) & (values < size)
    others = zip(region.shape, region.strides, strict=True)
    extent = sum((n - 1) * step for d, (n, step) in enumerate(others) if d != dim)
    if not stride or inside[bad].any() or not inside[good].all():
        return False
    rest = (element - values * stride)[bad | good]
    return bool(((rest >= 0) & (rest <= extent)).all())


def _said(index: _Index, wrong: np.ndarray, region: Region, dim: int) -> Note:
    low, high = int(wrong.min()), int(wrong.max())
    source = (index.source or "").removesuffix("_ptr")
    about = {"name": index.name, "source": source, "as_loaded": index.is_as_loaded}
    if high < 0:
        return note("loaded-index-below-0", low=low, high=high, **about)
    has, one = has_size(region.name, region.shape, dim), index.values.size == 1
    reaches = note("loaded-index-reaches", index=high, one=one, has=has, **about)
    if low == high == region.shape[dim]:
        return note("loaded-index-is-count", reaches=reaches)
    id = "loaded-index-is-wrong" if index.is_as_loaded else "index-of-loaded-is-wrong"
    return note(id, reaches=reaches)


def _in_tile(values: np.ndarray, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Yield these values as lanes of a tile, along each axis that they may run along."""
    if values.size == 1:
        yield np.broadcast_to(values.reshape(-1)[0], shape)
    elif values.ndim == len(shape) and all(
        own in (1, length) for own, length in zip(values.shape, shape, strict=True)
    ):
        yield np.broadcast_to(values, shape)
    elif values.ndim == 1:
        for axis, length in enumerate(shape):
            if length == values.size:
                along = [length if a == axis else 1 for a in range(len(shape))]
                yield np.broadcast_to(values.reshape(along), shape)


def _indices(access: Access) -> Iterator[_Index]:
    """Yield the kernel's variables that were loaded, those that are made from them, and entries."""
    function = mask_limits.function_of(access)
    if function is None:
        return
    made_of = _address(access, function)
    names = {node.id for node in made_of if isinstance(node, ast.Name)}
    for name in access.variables:
        value = _integers(access, name) if name in names else None
        origin = None if value is None else _origin(name, function, access)
        if value is None or origin is None:
            continue
        parent, source = origin
        loaded = _integers(access, parent)
        yield _Index(name, value, source, value if loaded is None else loaded)
    for node in made_of:
        # An entry of the program's own, loaded within an expression.
        if is_load(node) and (source := _tensor_of(node, function, access)):
            entries = _entries(access, source)
            for program in access.program:
                if entries.dtype.kind in "iu" and program < entries.size:
                    value = np.array([entries[program]], dtype=np.int64)
                    name = f"{source.removesuffix('_ptr')}[{program}]"
                    yield _Index(name, value, None, value)


def _address(access: Access, function: ast.FunctionDef) -> list[ast.AST]:
    """Return what the address is made of; all of the kernel where the source does not show it."""
    pointer = mask_limits.argument_of(access.site, "pointer", ACCESS_CALLS[access.verb])
    if pointer is None:
        return [*ast.walk(function)]
    return [*mask_limits.parts_of(pointer, function, access.site)]


def _entries(access: Access, name: str) -> np.ndarray:
    """Return what a tensor holds, as one row; nothing of a large one."""
    with _disable_current_modes():
        given: Any = access.launch.arguments[name]
        tensor = given.detach()
        if tensor.numel() > MAX_ENTRIES:
            return np.empty(0)
        # NumPy has no bfloat16.
        tensor = tensor.cpu().flatten()
        return (tensor.double() if tensor.is_floating_point() else tensor).numpy()


def _integers(access: Access, name: str) -> np.ndarray | None:
    if name in access.launch.arguments:
        return None
    data = integers(access.variables.get(name))
    return None if data is None else data.astype(np.int64)


def _origin(
    name: str, function: ast.FunctionDef, access: Access, depth: int = 0
) -> tuple[str, str | None] | None:
    """Return the variable that was loaded and the parameter it was loaded from, or None."""
    value = mask_limits.last_value(name, function, access.site.line)
    if value is None or depth > MAX_DEPTH:
        return None
    for node in ast.walk(value):
        if is_load(node):
            return name, _tensor_of(node, function, access)
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and node.id != name:
            found = _origin(node.id, function, access, depth + 1)
            if found:
                return found
    return None


def is_load(node: ast.AST) -> TypeGuard[ast.Call]:
    """Return whether a kernel loads here."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "load"
        and bool(node.args)
    )


def _tensor_of(call: ast.Call, function: ast.FunctionDef, access: Access) -> str | None:
    """Return the parameter for the tensor that a call loads from."""
    names = [node.id for node in ast.walk(call.args[0]) if isinstance(node, ast.Name)]
    for name in names:
        if isinstance(access.launch.arguments.get(name), torch.Tensor):
            return name
    for name in names:
        value = mask_limits.last_value(name, function, access.site.line)
        for node in ast.walk(value) if value is not None else ():
            if isinstance(node, ast.Name) and isinstance(
                access.launch.arguments.get(node.id), torch.Tensor
            ):
                return node.id
    return None
