"""What the mask of an access compares with what, read from the kernel's source.

`mask=(offs_m[:, None] < M) & seen`, where `seen = start + keys[None, :] < T`, bounds axis 0 of the
tile by M and axis 1 by T.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernelgauge.memory.call_sites import ACCESS_CALLS, CallSite, lines_of, source_of
from kernelgauge.memory.coordinates import Access, integers

MAX_DEPTH = 4
# The operators that compare an index with its limit, and the other way round.
STRICT = (ast.Lt, ast.Gt)
# The positions of arguments, where they are not given by name.
POSITIONS = {
    "pointer": {name: 0 for names in ACCESS_CALLS.values() for name in names},
    "mask": {"load": 1, "store": 2},
    "value": {"store": 1},
}
# The functions of triton.language that add up what a program has.
SUMS = ("sum", "histogram")
# Those that make one value of many.
REDUCTIONS = ("sum", "max", "min", "argmax", "argmin", "reduce")
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


def limits_of(access: Access, operators: tuple[type, type] = STRICT) -> dict[int, Limit]:
    """Return the limits of this access by axis of its tile, as far as the source shows them.

    operators: as STRICT
    """
    function, mask = function_of(access), mask_of(access)
    if function is None or mask is None:
        return {}
    found: dict[int, Limit] = {}
    for index, limit in _comparisons(mask, function, access.site.line, operators):
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


def names_compared(access: Access) -> Iterator[tuple[str, str]]:
    """Yield the names of each comparison `index < limit` in the mask that compares two names."""
    function, mask = function_of(access), mask_of(access)
    if function is None or mask is None:
        return
    for index, limit in _comparisons(mask, function, access.site.line, STRICT):
        while isinstance(index, ast.Subscript):
            index = index.value
        if isinstance(index, ast.Name) and isinstance(limit, ast.Name):
            yield index.id, limit.id


def limit_names(access: Access, variable: str = "") -> set[str]:
    """Return the names that the kernel compares this variable with; that it compares at all."""
    function = function_of(access)
    compared = [
        {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
        for node in (ast.walk(function) if function else ())
        if isinstance(node, ast.Compare)
    ]
    return {it for names in compared if not variable or variable in names for it in names}


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
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.cdiv" and len(node.args) == 2:
        size, block = (evaluate(it, access) for it in node.args)
        return None if size is None or block is None else -(-size // block)
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
    operators: tuple[type, type],
    depth: int = 0,
    axes: ast.expr | None = None,
) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield (index, limit) of each comparison below, with names replaced by what they were set to.

    axes: the subscript of a name that stands for a comparison: mask_m[:, None]
    """
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
        yield from _comparisons(node.left, function, line, operators, depth, axes)
        yield from _comparisons(node.right, function, line, operators, depth, axes)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = node.left, node.comparators[0]
        if isinstance(node.ops[0], operators[1]):
            left, right = right, left
        if isinstance(node.ops[0], operators):
            if axes is not None:
                left = ast.Subscript(left, axes, ast.Load())
            yield left, right
    elif isinstance(node, ast.Subscript):
        yield from _comparisons(node.value, function, line, operators, depth, node.slice)
    elif isinstance(node, ast.Name) and depth < MAX_DEPTH:
        value = last_value(node.id, function, line)
        if value is not None:
            yield from _comparisons(value, function, line, operators, depth + 1, axes)


def last_value(name: str, function: ast.FunctionDef, line: int) -> ast.expr | None:
    """Return what a name was last set to above a line."""
    found = None
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or node.lineno > line:
            continue
        for one, its in pairs_of(node):
            if isinstance(one, ast.Name) and one.id == name:
                found = max(found or its, its, key=lambda node: node.lineno)
    return found


def stores_a_sum(site: CallSite, functions: Collection[str] = SUMS) -> bool:
    """Return whether what is stored on this line is made of a sum, or of one of these functions."""
    return _is_made_of(site, "value", functions)


def ends_where_memory_says(site: CallSite) -> bool:
    """Return whether the mask of the store on this line is made of numbers that were loaded."""
    return _is_made_of(site, "mask", ("load",))


def _is_made_of(site: CallSite, argument: str, functions: Collection[str]) -> bool:
    function, value = function_at(site), argument_of(site, argument, ACCESS_CALLS["writes"])
    if function is None or value is None:
        return False
    return any(
        isinstance(node, ast.Call) and getattr(node.func, "attr", "") in functions
        for node in parts_of(value, function, site)
    )


def parts_of(value: ast.expr, function: ast.FunctionDef, site: CallSite) -> Iterator[ast.AST]:
    """Yield all that an expression is made of: what its names are set to, and functions, too."""
    helpers = {it.name: it for it in _functions(source_of(site.file)) if it is not function}
    made_of: list[ast.AST] = [value]
    seen: set[str] = set()
    while made_of:
        for node in ast.walk(made_of.pop()):
            yield node
            if isinstance(node, ast.Name) and node.id not in seen:
                seen.add(node.id)
                made_of += values_of(node.id, function)
                made_of += [helpers[node.id]] if node.id in helpers else []


def values_of(name: str, function: ast.FunctionDef) -> list[ast.expr]:
    """Return all that a name is set to, and what is added to it."""
    return [
        value
        for node in ast.walk(function)
        if isinstance(node, (ast.Assign, ast.AugAssign))
        for target, value in pairs_of(node)
        if isinstance(target, ast.Name) and target.id == name
    ]


def pairs_of(node: ast.Assign | ast.AugAssign) -> list[tuple[ast.expr, ast.expr]]:
    """Return what is assigned to what, one by one where both sides are tuples."""
    target = node.target if isinstance(node, ast.AugAssign) else node.targets[0]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        return list(zip(target.elts, node.value.elts, strict=False))
    return [(target, node.value)]


def mask_of(access: Access) -> ast.expr | None:
    """Return the mask of an access, as the source has it."""
    return argument_of(access.site, "mask", ACCESS_CALLS[access.verb])


def argument_of(site: CallSite, name: str, calls: Sequence[str]) -> ast.expr | None:
    """Return an argument of the call on this line of one of these methods."""
    function = function_at(site)
    for node in ast.walk(function) if function else ():
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
