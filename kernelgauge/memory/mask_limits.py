"""What the mask of an access compares with what, read from the kernel's source.

`mask=(offs_m[:, None] < M) & seen`, where `seen = start + keys[None, :] < T`, bounds axis 0 of the
tile by M and axis 1 by T.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernelgauge.memory.call_sites import ACCESS_CALLS, CallSite, lines_of, source_of
from kernelgauge.memory.coordinates import Access, integers

MAX_DEPTH = 4
# The positions of arguments, where they are not given by name.
POSITIONS = {"mask": {"load": 1, "store": 2}, "value": {"store": 1}}
# The functions of triton.language that add up what a program has.
SUMS = ("sum", "histogram")
ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True)
class Limit:
    """A comparison `index < limit` in a mask.

    variable: the kernel's variable that runs along the axis
    values: of the index, one for each lane along the axis
    name, value: the limit, as the kernel writes it, and what it is
    """

    variable: str
    values: np.ndarray
    name: str
    value: int

    @property
    def step(self) -> int:
        """By how much the index grows from lane to lane, 0 if not evenly."""
        steps = np.unique(np.diff(self.values))
        return int(steps[0]) if len(steps) == 1 else 0

    @property
    def is_of_its_name(self) -> bool:
        """Whether variable and limit have one name: offs_m and M."""
        return self.variable.lower().split("_")[-1] == self.name.lower()


def limits_of(access: Access) -> dict[int, Limit]:
    """Return the limits of this access by axis of its tile, as far as the source shows them."""
    function = function_of(access)
    mask = _mask(access, function) if function else None
    if function is None or mask is None:
        return {}
    found: dict[int, Limit] = {}
    for index, limit in _comparisons(mask, function, access.site.line):
        values, value = evaluate(index, access), evaluate(limit, access)
        if values is None or value is None or value.size != 1:
            continue
        axis = _axis(index, values, access)
        names = [node.id for node in ast.walk(index) if isinstance(node, ast.Name)]
        long = [n for n in names if n in access.variables and _size(access.variables[n]) > 1]
        if axis is not None and long:
            name = ast.unparse(limit)
            found[axis] = Limit(long[0], values.ravel(), name, int(value.flat[0]))
    return found


def limit_names(access: Access) -> set[str]:
    """Return the names that anything in the kernel is compared with."""
    function = function_of(access)
    return {
        name.id
        for node in (ast.walk(function) if function else ())
        if isinstance(node, ast.Compare)
        for name in ast.walk(node)
        if isinstance(name, ast.Name)
    }


def evaluate(node: ast.expr, access: Access) -> np.ndarray | None:
    """Return the integers that an expression of the kernel's variables stands for."""
    if isinstance(node, ast.Constant):
        return np.array(node.value) if isinstance(node.value, int) else None
    if isinstance(node, ast.Name):
        value = access.variables.get(node.id, access.launch.arguments.get(node.id))
        return _integers(value)
    if isinstance(node, ast.Subscript):
        value = evaluate(node.value, access)
        return None if value is None else value.ravel()
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        left, right = evaluate(node.left, access), evaluate(node.right, access)
        if left is None or right is None:
            return None
        left, right = left.ravel(), right.ravel()
        if min(left.size, right.size) != 1 or (isinstance(node.op, ast.Mod) and not right.all()):
            return None
        return ARITHMETIC[type(node.op)](left, right)
    return None


def _integers(value: object) -> np.ndarray | None:
    if isinstance(value, int):
        return np.array(value)
    if (data := integers(value)) is not None:
        return data.astype(np.int64)
    constant = getattr(value, "value", None)
    return np.array(constant) if isinstance(constant, int) else None


def _size(value: object) -> int:
    found = _integers(value)
    return 0 if found is None else found.size


def _axis(index: ast.expr, values: np.ndarray, access: Access) -> int | None:
    """Return the axis of the tile along which an index runs."""
    shape = access.pointers.shape
    if len(shape) == 1:
        return 0 if values.size == shape[0] else None
    for node in ast.walk(index):
        # offs_m[:, None]
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            slices = [i for i, it in enumerate(node.slice.elts) if isinstance(it, ast.Slice)]
            if len(slices) == 1 and len(node.slice.elts) == len(shape):
                return slices[0]
        data = _integers(access.variables.get(node.id)) if isinstance(node, ast.Name) else None
        if data is not None and data.ndim == len(shape) and data.size == max(data.shape) > 1:
            return int(np.argmax(data.shape))
    return None


def _comparisons(
    node: ast.expr,
    function: ast.FunctionDef,
    line: int,
    depth: int = 0,
    axes: ast.expr | None = None,
) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield (index, limit) of each comparison below, with names replaced by what they were set to.

    axes: the subscript of a name that stands for a comparison: mask_m[:, None]
    """
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
        yield from _comparisons(node.left, function, line, depth, axes)
        yield from _comparisons(node.right, function, line, depth, axes)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = node.left, node.comparators[0]
        if isinstance(node.ops[0], ast.Gt):
            left, right = right, left
        if isinstance(node.ops[0], (ast.Lt, ast.Gt)):
            if axes is not None:
                left = ast.Subscript(left, axes, ast.Load())
            yield left, right
    elif isinstance(node, ast.Subscript):
        yield from _comparisons(node.value, function, line, depth, node.slice)
    elif isinstance(node, ast.Name) and depth < MAX_DEPTH:
        value = last_value(node.id, function, line)
        if value is not None:
            yield from _comparisons(value, function, line, depth + 1, axes)


def last_value(name: str, function: ast.FunctionDef, line: int) -> ast.expr | None:
    """Return what a name was last set to above a line."""
    found = None
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or node.lineno > line:
            continue
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        for one, its in pairs:
            if isinstance(one, ast.Name) and one.id == name:
                found = max(found or its, its, key=lambda node: node.lineno)
    return found


def stores_a_sum(site: CallSite) -> bool:
    """Return whether what is stored on this line is a sum that the program has made."""
    function = function_at(site)
    value = function and _argument("value", site, ACCESS_CALLS["writes"], function)
    return bool(function and value) and any(
        isinstance(node, ast.Call) and getattr(node.func, "attr", "") in SUMS
        for node in _made_of(value, function, MAX_DEPTH)
    )


def _made_of(node: ast.expr, function: ast.FunctionDef, depth: int) -> Iterator[ast.AST]:
    """Yield the parts of an expression, and of all that its names are ever set to."""
    for part in ast.walk(node):
        yield part
        if not isinstance(part, ast.Name) or not depth:
            continue
        for other in ast.walk(function):
            if not isinstance(other, (ast.Assign, ast.AugAssign)):
                continue
            targets = other.targets if isinstance(other, ast.Assign) else [other.target]
            if any(isinstance(it, ast.Name) and it.id == part.id for it in targets):
                yield from _made_of(other.value, function, depth - 1)


def _mask(access: Access, function: ast.FunctionDef) -> ast.expr | None:
    return _argument("mask", access.site, ACCESS_CALLS[access.verb], function)


def _argument(
    name: str, site: CallSite, calls: Sequence[str], function: ast.FunctionDef
) -> ast.expr | None:
    """Return an argument of the call on this line of one of these methods."""
    for node in ast.walk(function):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr not in calls or site.line not in lines_of(node):
            continue
        for keyword in node.keywords:
            if keyword.arg == name:
                return keyword.value
        position = POSITIONS[name].get(node.func.attr)
        if position is not None and len(node.args) > position:
            return node.args[position]
    return None


def function_of(access: Access) -> ast.FunctionDef | None:
    """Return the innermost function of the source that makes the access."""
    return function_at(access.site)


def function_at(site: CallSite) -> ast.FunctionDef | None:
    """Return the innermost function of the source that this line is in."""
    functions = [node for node in _functions(source_of(site.file)) if site.line in lines_of(node)]
    return min(functions, key=lambda node: len(lines_of(node)), default=None)


@functools.lru_cache(maxsize=16)
def _functions(source: str) -> tuple[ast.FunctionDef, ...]:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
