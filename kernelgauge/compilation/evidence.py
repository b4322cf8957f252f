"""What the source says of a line that the compiler rejects, beside the compiler's message.

The cause of a tile of another shape often stands further up, at a reduction or a descriptor. It is
named only if the shapes of the line's variables fit once that is mended.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np
import triton

import kernelgauge
from kernelgauge.words.fault import Note, note

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Variables:
    """What is known of a kernel's variables where it failed.

    shapes: of tiles, and of descriptors' blocks
    pointers: the names of pointers, and of tiles of them
    """

    shapes: Shapes = field(default_factory=dict)
    pointers: frozenset[str] = frozenset()


REDUCTIONS = {"sum", "max", "min", "argmax", "argmin", "xor_sum", "reduce_or", "reduce"}
RANGES = {"range", "tl.range"}
# An assertion of Triton about what a descriptor stores.
STORED_SHAPE = r"value\.shape == desc\.block_shape"
# A histogram of integers that are not int32, which the compiler does not lower.
HISTOGRAM_OF_OTHERS = re.compile(r"tt\.histogram %.* : tensor<\d+xi(?!32\b)\d+")
LIBRARIES = tuple(
    os.path.dirname(os.path.abspath(it.__file__ or "")) + os.sep for it in (triton, kernelgauge)
)
# What the compiler, or the interpreter, says of an item of a tile or of a pointer.
ITEM = re.compile(
    r"forget to add @triton\.jit|unsupported tensor index|__setitem__|object is not iterable|"
    r"convert an array of size 1"
)
# What the interpreter says of an axis, with the shape of the tile.
AXIS = re.compile(r"axis -?\d+ out of bounds for shape \[(.+)\]")
TWO_DTYPES = re.compile(r"Both operands must be same dtype\. Got (\w+) and (\w+)")
# How many assignments a value is followed back.
MAX_STEPS = 4


def variables_at(trace: TracebackType | None) -> Variables:
    """Return the variables of the innermost kernel.

    trace: of an error in the interpreter, or in the compiler, whose generator holds the variables
    """
    found = Variables()
    while trace is not None:
        variables, file = trace.tb_frame.f_locals, trace.tb_frame.f_code.co_filename
        generator: Any = variables.get("self")
        if type(generator).__name__ == "CodeGenerator":
            inside = getattr(generator, "variables_of_loops", {})
            variables, file = {**generator.lscope, **inside}, generator.file_name
        if not file.startswith(LIBRARIES):
            shapes = {name: shape for name, value in variables.items() if (shape := _shape(value))}
            pointers = frozenset(name for name, value in variables.items() if _is_pointer(value))
            found = Variables(shapes, pointers) if shapes or pointers else found
        trace = trace.tb_next
    return found


def keep_variables_of_loops() -> None:
    """Let the compiler's generator keep the variables of a loop or branch that it rejects."""
    from triton.compiler import code_generator

    region: Any = getattr(code_generator, "enter_sub_region", None)
    if region is None:
        return
    leave = region.__exit__

    def leave_with_variables(self: Any, kind: Any, *error: Any) -> None:
        if kind is not None:
            outer = getattr(self.generator, "variables_of_loops", {})
            self.generator.variables_of_loops = {**self.generator.lscope, **outer}
        leave(self, kind, *error)

    region.__exit__ = leave_with_variables


def _shape(value: Any) -> tuple[int, ...]:
    if type(value).__module__ != "triton.language.core":
        return ()
    shape: Any = getattr(value, "block_shape", None) or getattr(value, "shape", ())
    try:
        return tuple(int(getattr(size, "value", size)) for size in shape)
    except (TypeError, ValueError):
        return ()


def _is_pointer(value: Any) -> bool:
    if type(value).__module__ != "triton.language.core":
        return False
    scalar: Any = getattr(getattr(value, "type", None), "scalar", None)
    return hasattr(scalar, "is_ptr") and scalar.is_ptr()


def remedy(
    message: str, file: str, line: int, variables: Variables, printed: str = ""
) -> Note | None:
    """Return what to do about a message of the compiler, None if the source does not show it.

    file, line: where it was rejected
    variables: see `variables_at`
    printed: what the compiler wrote to its output, with the kernel as it failed to lower it
    """
    if HISTOGRAM_OF_OTHERS.search(printed):
        return note("advice-histogram-of-int32")
    if tile := AXIS.search(message):
        return note("advice-no-such-axis", axes=str(len(tile[1].split(","))))
    function, statement = _enclosing(file, line)
    if function is None or statement is None:
        return None
    shapes = variables.shapes
    if "arange's arguments must be" in message:
        return _runtime_range(function, statement)
    if ITEM.search(message) and (found := _item(statement, variables)):
        return found
    if "object is not iterable" in message and _has_maximum_of_one(statement):
        return note("advice-maximum-of-a-tile")
    if dtypes := TWO_DTYPES.search(message):
        return _dot_of_two_dtypes(statement, *dtypes.groups())
    if re.search(r"(?:tuple|list) indices must be|isinstance\(idx, \(slice", message):
        return _runtime_index(function, statement)
    if differing := re.search(r"incompatible dimensions.*: (\d+) and (\d+)", message):
        sizes = {*map(int, differing.groups())}
        turned = _turned_access(statement, shapes, sizes) or _column(statement, shapes, sizes)
        axis = turned or _wrong_axis(function, statement, shapes, sizes)
        return axis or _turned_load(function, statement, shapes, multiplied=False)
    if "equal reduction dimensions" in message:
        return _turned_load(function, statement, shapes, multiplied=True)
    if re.search(STORED_SHAPE, message):
        return _turned_store(statement, shapes)
    return None


def _enclosing(file: str, line: int) -> tuple[ast.FunctionDef | None, ast.stmt | None]:
    """Return the function and the innermost statement at a line."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None, None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    functions = [node for node in around if isinstance(node, ast.FunctionDef)]
    smallest = min(around, key=lambda it: (it.end_lineno or 0) - it.lineno, default=None)
    return (functions[-1] if functions else None), smallest


def _runtime_range(function: ast.FunctionDef, statement: ast.stmt) -> Note | None:
    """Say of a tl.arange that its ends must be known, unless it lacks an annotation alone."""
    parameters = {it.arg for it in function.args.args if it.annotation is None}
    for call in _calls(statement, "arange"):
        from_number = bool(call.args) and isinstance(call.args[0], ast.Constant)
        if not from_number or not parameters & {it.id for it in _names(call.args)}:
            return note("advice-ends-of-a-range")
    return None


def _item(statement: ast.stmt, variables: Variables) -> Note | None:
    """Return what to do about an item of a pointer or of a tile, which neither has."""
    for node in ast.walk(statement):
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            continue
        name, index = node.value.id, node.slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        if all(isinstance(it, ast.Slice) or ast.unparse(it) == "None" for it in parts):
            continue
        is_set = isinstance(node.ctx, ast.Store)
        if name in variables.pointers:
            return note("advice-store-through" if is_set else "advice-load-through", name=name)
        if name in variables.shapes and not is_set:
            return note("advice-no-indexing")
    return None


def _has_maximum_of_one(statement: ast.stmt) -> bool:
    calls = [*_calls(statement, "max"), *_calls(statement, "min")]
    return any(isinstance(it.func, ast.Name) and len(it.args) == 1 for it in calls)


def _dot_of_two_dtypes(statement: ast.stmt, left: str, right: str) -> Note | None:
    """Name both casts of a tl.dot of two variables."""
    for call in _calls(statement, "dot"):
        if all(isinstance(it, ast.Name) for it in call.args[:2]) and len(call.args) > 1:
            a, b = (ast.unparse(it) for it in call.args[:2])
            return note("advice-dot-casts", a=a, b=b, left=left, right=right)
    return None


def _turned_access(statement: ast.stmt, shapes: Shapes, sizes: set[int]) -> Note | None:
    """Name the value or the mask of a load or store that lies the other way than its pointers.

    sizes: the two that do not agree in this statement
    """
    for call in [*_calls(statement, "store"), *_calls(statement, "load")]:
        if not call.args or not ast.unparse(call.func).startswith("tl."):
            continue
        others = [("mask", it.value) for it in call.keywords if it.arg == "mask"]
        if call.func.attr == "store":  # type: ignore[attr-defined]
            others = [("value", it) for it in call.args[1:2]] + others
        pointers = _shape_of(call.args[0], shapes)
        for what, value in others:
            shape = _shape_of(value, shapes)
            if pointers and shape and _is_turned(pointers, shape) and {*shape} == sizes:
                return note("advice-turned-access", what=what, shape=shape, pointers=pointers)
    return None


def _shape_of(value: ast.expr, shapes: Shapes) -> tuple[int, ...] | None:
    """Return the shape of an expression, () of a single value, None if the source does not tell."""
    if isinstance(value, (ast.Name, ast.Constant)):
        return shapes.get(ast.unparse(value), ())
    if isinstance(value, ast.Subscript):
        if (inner := _shape_of(value.value, shapes)) is None:
            return None
        sizes, placed = list(inner), list[int]()
        for part in getattr(value.slice, "elts", ()):
            is_new = isinstance(part, ast.Constant)
            if not is_new and not sizes:
                return None
            placed.append(1 if is_new else sizes.pop(0))
        return tuple(placed) if placed and not sizes else None
    if isinstance(value, (ast.BinOp, ast.Compare)):
        rest = value.comparators if isinstance(value, ast.Compare) else [value.right]
        found = [
            shape for it in (value.left, *rest) if (shape := _shape_of(it, shapes)) is not None
        ]
        if len(found) <= len(rest):
            return None
        try:
            return np.broadcast_shapes(*found)
        except ValueError:
            return None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        of, name = value.func.value, value.func.attr
        if name == "to":
            return _shape_of(of, shapes)
        given = value.args if ast.unparse(of) == "tl" else [of, *value.args]
        return _turned_shape(given[0], shapes) if name == "trans" and len(given) == 1 else None
    if isinstance(value, ast.Attribute) and value.attr == "T":
        return _turned_shape(value.value, shapes)
    return None


def _turned_shape(value: ast.expr, shapes: Shapes) -> tuple[int, ...] | None:
    shape = _shape_of(value, shapes)
    return shape[::-1] if shape else None


def _calls(statement: ast.stmt, name: str) -> list[ast.Call]:
    """Return the calls of a function, or of a function of a module, by its name."""
    return [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
        if name in (getattr(node.func, "attr", None), getattr(node.func, "id", None))
    ]


def _runtime_index(function: ast.FunctionDef, statement: ast.stmt) -> Note:
    """Name the loop whose variable indexes a tuple, if it is one."""
    names = {
        name.id
        for index in ast.walk(statement)
        if isinstance(index, ast.Subscript)
        for name in ast.walk(index.slice)
        if isinstance(name, ast.Name)
    }
    for loop in ast.walk(function):
        if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
            continue
        counts = isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) in RANGES
        if counts and loop.target.id in names and statement in ast.walk(loop):
            return note("advice-static-range", name=loop.target.id, line=loop.lineno)
    return note("advice-index-known")


def _column(statement: ast.stmt, shapes: Shapes, sizes: set[int]) -> Note | None:
    """Name a 1-D variable with a value for each row of a tile, which meets its columns instead.

    sizes: the two that do not agree in this statement
    """
    tiles = {shapes.get(it.id, ()) for it in _outside_reductions(statement)}
    for value, placed in _vectors(statement, shapes):
        if placed is None and isinstance(value, ast.Name):
            (rows,) = shapes[value.id]
            for columns in sizes - {rows}:
                if rows in sizes and (rows, columns) in tiles:
                    return note("advice-column", name=value.id, shape=[rows, columns])
    return None


def _outside_reductions(node: ast.AST) -> Iterator[ast.Name]:
    """Yield the names in a statement that are not in what is reduced there."""
    if isinstance(node, ast.Name):
        yield node
    for child in ast.iter_child_nodes(node) if not _is_reduction(node) else ():
        yield from _outside_reductions(child)


def _wrong_axis(
    function: ast.FunctionDef, statement: ast.stmt, shapes: Shapes, sizes: set[int]
) -> Note | None:
    """Name a reduction of a 2-D tile that leaves as many values as the other axis is long.

    sizes: the two that do not agree in this statement
    """
    for value, placed in _vectors(statement, shapes):
        for call in _reductions(value, function, statement, shapes):
            shape, axis = _reduced(call, shapes), _axis(call)
            if shape is None or axis is None or set(shape) != sizes:
                continue
            left = shape[1 - axis]
            if isinstance(value, ast.Name) and shapes[value.id] != (left,):
                continue
            # As a column it must fit the rows, as a row the columns.
            if placed is None or left != shape[placed]:
                named = ast.unparse(call.func), call.lineno, list(shape)
                values = dict(zip(("call", "line", "shape"), named, strict=True))
                return note("advice-other-axis", **values, axis=axis)
    return None


def _vectors(node: ast.AST, shapes: Shapes, placed: int | None = None) -> Iterator[tuple]:
    """Yield the 1-D variables and the reductions in a statement, each with the axis it lies along.

    That is 0 for x[:, None], 1 for x[None, :], and None for x.
    """
    if isinstance(node, ast.Subscript):
        new = [isinstance(it, ast.Constant) for it in getattr(node.slice, "elts", ())]
        yield from _vectors(node.value, shapes, new.index(False) if sum(new) == 1 else placed)
        return
    if isinstance(node, ast.Name) and len(shapes.get(node.id, ())) == 1:
        yield node, placed
    elif _is_reduction(node):
        yield node, placed
        return
    for child in ast.iter_child_nodes(node):
        yield from _vectors(child, shapes, placed)


def _is_reduction(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in REDUCTIONS


def _reductions(
    value: ast.expr, function: ast.FunctionDef, statement: ast.stmt, shapes: Shapes
) -> Iterator[Any]:
    """Yield the reductions that a 1-D value comes from, through variables of its length."""
    sources: list[ast.expr] = [value]
    seen: set[str] = set()
    for _ in range(MAX_STEPS):
        nodes = [node for source in sources for node in ast.walk(source)]
        yield from filter(_is_reduction, nodes)
        names = {it.id for it in nodes if isinstance(it, ast.Name)} - seen
        names = {name for name in names if len(shapes.get(name, ())) == 1}
        seen |= names
        sources = [
            node.value
            for node in ast.walk(function)
            if isinstance(node, (ast.Assign, ast.AugAssign))
            and node.lineno <= statement.lineno
            and any(getattr(it, "id", None) in names for it in _targets(node))
        ]


def _reduced(call: ast.Call, shapes: Shapes) -> tuple[int, ...] | None:
    """Return the shape of the 2-D tile that is reduced, None if the variables do not tell."""
    names = [node.id for node in ast.walk(call) if isinstance(node, ast.Name)]
    tiles = {shapes[name] for name in names if len(shapes.get(name, ())) == 2}
    return tiles.pop() if len(tiles) == 1 else None


def _targets(node: ast.Assign | ast.AugAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _axis(call: ast.Call) -> int | None:
    """Return the axis of a reduction without keep_dims, 0 or 1."""
    if any(it.arg == "keep_dims" for it in call.keywords):
        return None
    given = [it.value for it in call.keywords if it.arg == "axis"]
    on_tile = not ast.unparse(call.func).startswith("tl.")
    given += call.args[0 if on_tile else 1 :][:1]
    try:
        axis = ast.literal_eval(given[0]) if given else None
    except ValueError:
        return None
    return axis % 2 if isinstance(axis, int) else None


def _turned_store(statement: ast.stmt, shapes: Shapes) -> Note | None:
    """Name a descriptor whose block has the sides of the tile that it stores, the other way."""
    for call in ast.walk(statement):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            name = ast.unparse(call.func.value)
            for tile in (shapes.get(ast.unparse(it), ()) for it in _names(call.args)):
                if _is_turned(shapes.get(name, ()), tile):
                    return note("advice-turned-block", name=name, block=shapes[name], tile=tile)
    return None


def _turned_load(
    function: ast.FunctionDef, statement: ast.stmt, shapes: Shapes, *, multiplied: bool
) -> Note | None:
    """Name a descriptor whose tile fits this statement with its sides the other way.

    multiplied: the statement is a tl.dot, in which columns meet rows
    """
    loads = {
        ast.unparse(target): node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and _loaded_by(node.value, shapes)
        for target in node.targets
    }

    def tile_of(value: ast.expr) -> tuple[str | None, tuple[int, ...]]:
        name = _loaded_by(loads.get(ast.unparse(value), value), shapes)
        return name, shapes.get(name or ast.unparse(value), ())

    nodes = [it for it in ast.walk(statement) if isinstance(it, ast.expr)]
    dots = [it for it in nodes if isinstance(it, ast.Call) and "dot" in ast.unparse(it.func)]
    operands = dots[0].args[:2] if multiplied and dots else []
    others = [tile for it in nodes if it not in operands and len(tile := tile_of(it)[1]) == 2]
    if len(operands) == 2:
        left, right = map(tile_of, operands)
        turned = (left[0], left[1][::-1], right[1]), (right[0], left[1], right[1][::-1])
        for name, a, b in turned:
            product = a[:1] + b[1:]
            if name and a[1:] == b[:1] and product in (others or [product]):
                return _other_sides(name, shapes)
        return None
    for name, block in map(tile_of, nodes):
        if name and any(_is_turned(block, tile) for tile in others):
            return _other_sides(name, shapes)
    return None


def _other_sides(name: str, shapes: Shapes) -> Note:
    block = shapes[name]
    return note("advice-turned-load", name=name, block=block, needed=block[::-1])


def _names(values: list[ast.expr]) -> Iterator[ast.Name]:
    nodes = (node for value in values for node in ast.walk(value))
    return (node for node in nodes if isinstance(node, ast.Name))


def _loaded_by(value: ast.AST, shapes: Shapes) -> str | None:
    """Return the descriptor that loads a value, None if none does."""
    is_load = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
    if not is_load or value.func.attr != "load":  # type: ignore[attr-defined]
        return None
    name = ast.unparse(value.func.value)  # type: ignore[attr-defined]
    return name if name in shapes else None


def _is_turned(block: tuple[int, ...], tile: tuple[int, ...]) -> bool:
    return len(block) > 1 and block != tile and block == tile[::-1]
