"""What an address is made of, read from the kernel's source: which names are added, and multiplied.

`x_ptr + row // 2 * stride_m + cols`, where `cols = pid * BLOCK + lanes`, has row as a divided name
and pid as one that it is made of as it is; row and stride_m are factors of each other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from kernelgauge.memory.call_sites import ACCESS_CALLS
from kernelgauge.memory.coordinates import Access, integers
from kernelgauge.memory.mask_limits import (
    MAX_DEPTH,
    argument_of,
    function_of,
    last_value,
    values_of,
)


class AddressSource:
    """The names in the address of an access. All is empty where the source does not show them.

    names: all of them
    whole: those that are neither divided nor what a tile is multiplied by
    divided: those left of // or %
    quotients: those that are set to what // or % gives
    products: pairs of names that are factors of each other
    splits: by name, the places where it alone is left of // or %
    """

    def __init__(self, access: Access):
        self.names: set[str] = set()
        self.whole: set[str] = set()
        self.divided: set[str] = set()
        self.quotients: set[str] = set()
        self.products: set[tuple[str, str]] = set()
        self.splits: dict[str, list[ast.BinOp]] = {}
        self._access = access
        self._function = function_of(access)
        self._pointer = argument_of(access.site, "pointer", ACCESS_CALLS[access.verb])
        if self._function is not None and self._pointer is not None:
            self._add(self._pointer, whole=True)

    def factors_of_program(self, axis: int) -> set[str]:
        """Return the names that the number of the program along an axis is multiplied by."""
        number, function = f"program_id({axis})", self._function
        return {
            factor
            for name, factor in self.products
            if name == number
            or any(number in names_in(it) for it in (values_of(name, function) if function else ()))
        }

    def axes_of(self, name: str) -> set[int]:
        """Return the axes of a tile of two along which a variable runs in the address."""
        if self._function is None or self._pointer is None or self._access.pointers.ndim != 2:
            return set()
        return {*self._axes(self._pointer, name, self._function)}

    def _axes(
        self, node: ast.expr, name: str, function: ast.FunctionDef, depth: int = 0
    ) -> Iterator[int]:
        if isinstance(node, ast.Name):
            data = integers(self._access.variables.get(name)) if node.id == name else None
            if data is not None and data.ndim == 2 and data.size == max(data.shape) > 1:
                yield int(np.argmax(data.shape))
            value = last_value(node.id, function, self._access.site.line)
            if node.id != name and value is not None and depth < MAX_DEPTH:
                yield from self._axes(value, name, function, depth + 1)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            slices = [i for i, it in enumerate(node.slice.elts) if isinstance(it, ast.Slice)]
            if len(slices) == 1 and name in names_in(node.value):
                yield slices[0]
        elif (tile := _transposed(node)) is not None:
            yield from (1 - axis for axis in self._axes(tile, name, function, depth))
        else:
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr):
                    yield from self._axes(part, name, function, depth)

    def _add(self, node: ast.expr, *, whole: bool) -> None:
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, (ast.FloorDiv, ast.Mod)):
                self.divided |= names_in(node.left)
                if isinstance(node.left, ast.Name):
                    known = self.splits.setdefault(node.left.id, [])
                    known += [node] * (node not in known)
            for own, other in ((node.left, node.right), (node.right, node.left)):
                one_by_one = not isinstance(node.op, (ast.FloorDiv, ast.Mod))
                if isinstance(node.op, ast.Mult):
                    pairs = [(a, b) for a in names_in(own) for b in names_in(other)]
                    self.products.update(pairs)
                    one_by_one = not (isinstance(own, ast.Name) and self._has_tile(other))
                self._add(own, whole=whole and one_by_one)
            return
        if name := _name(node):
            self._add_name(name, whole)
            return
        parts: list[ast.expr] = [
            it for it in ast.iter_child_nodes(node) if isinstance(it, ast.expr)
        ]
        if isinstance(node, (ast.Subscript, ast.Attribute)):
            # Of offs_m[:, None] and pid.to(tl.int64) only what they are made of.
            parts = [node.value]
        elif isinstance(node, ast.Call):
            method = getattr(node.func, "attr", "")
            # What was loaded is a number by itself.
            parts = [] if method == "load" else [node.func] if method == "to" else node.args
            whole = whole and method == "to"
        for part in parts:
            self._add(part, whole=whole)

    def _add_name(self, name: str, whole: bool) -> None:
        known = self.whole if whole else self.names
        if name in known:
            return
        self.names.add(name)
        known.add(name)
        assert self._function is not None
        for value in values_of(name, self._function):
            self.products.update(
                (loop, it) for loop in self._loops(value) for it in names_in(value)
            )
            if any(isinstance(it, (ast.FloorDiv, ast.Mod)) for it in ast.walk(value)):
                self.quotients.add(name)
            self._add(value, whole=whole)

    def _loops(self, added: ast.expr) -> list[str]:
        """Return the variables of the loops in which something is added to a name."""
        return [
            loop.target.id
            for loop in ast.walk(self._function or added)
            if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name)
            for node in ast.walk(loop)
            if isinstance(node, ast.AugAssign) and node.value is added
        ]

    def _has_tile(self, node: ast.expr) -> bool:
        values = (integers(self._access.variables.get(name)) for name in names_in(node))
        return any(value is not None and value.size > 1 for value in values)


def names_in(node: ast.AST) -> set[str]:
    """Return the names in an expression, `program_id(0)` for a call of that."""
    return {name for part in ast.walk(node) if (name := _name(part))}


def _transposed(node: ast.expr) -> ast.expr | None:
    """Return the tile that an expression transposes, None if it transposes none."""
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return node.value
    called = node.func if isinstance(node, ast.Call) else None
    if not isinstance(called, ast.Attribute) or called.attr not in ("trans", "permute"):
        return None
    assert isinstance(node, ast.Call)
    return node.args[0] if ast.unparse(called.value) == "tl" else called.value


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("program_id"):
        axis = [*node.args, *(keyword.value for keyword in node.keywords)]
        return f"program_id({ast.unparse(axis[0])})" if axis else ""
    return ""
