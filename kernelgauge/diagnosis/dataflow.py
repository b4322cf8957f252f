"""Faults that a kernel's syntax tree shows: what is added up, along which axis, in which dtype.

A value is followed through the assignments of its function, which here are in no order. What is not
understood counts as no fault.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

REDUCTIONS = {"sum", "max", "min", "argmax", "argmin", "xor_sum"}
ELEMENTWISE = {
    *("abs", "cast", "ceil", "clamp", "cos", "cumsum", "div_rn", "erf", "exp", "exp2", "floor"),
    *("fma", "log", "log2", "maximum", "minimum", "rsqrt", "sigmoid", "sin", "sqrt", "sqrt_rn"),
    *("tanh", "where"),
}
# What does nothing but return a value.
PURE = {*REDUCTIONS, *ELEMENTWISE, "dot", "dot_scaled", "permute", "reshape", "trans"}
SCALARS = {"program_id", "num_programs", "cdiv"}
NARROW = ("float16", "bfloat16", ".dtype", ".element_ty")
# How many assignments a value is followed back.
MAX_STEPS = 4


@dataclass(frozen=True)
class Line:
    """A line of the code, from 1, and what is written there.

    is_explicit: it does not depend on the dtypes of arguments
    """

    number: int
    text: str
    is_explicit: bool = True


@dataclass(frozen=True)
class Axis:
    """What numbers the lanes along one axis of a tile: a call of tl.arange, None if unknown.

    removed: if the tile is what a reduction leaves, the axis that it removed
    reduction: and where
    """

    lanes: ast.Call | None = None
    removed: ast.Call | None = None
    reduction: ast.Call | None = None


UNKNOWN_AXIS = Axis()
Axes = tuple[Axis, ...]


def kernels(tree: ast.AST) -> list[ast.FunctionDef]:
    """Return the functions that take part in no other one: arguments of helpers are unknown."""
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [function for function in functions if function.name not in called]


def difference_of_squares(tree: ast.AST) -> Line | None:
    """Return a mean of squares minus the square of a mean."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        given = _assignments(function)
        for node in ast.walk(function):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
                continue
            squared = [node.right]
            if isinstance(node.right, ast.Name):
                squared += given.get(node.right.id, [])
            if any(map(_is_square, squared)) and _sums_squares(node.left, given):
                return Line(node.lineno, ast.unparse(node))
    return None


def _sums_squares(value: ast.expr, given: dict[str, list[ast.expr]]) -> bool:
    """Return whether a value is made of squares, and not of numbers that were shifted before."""
    nodes = [node for source in _sources(value, given) for node in ast.walk(source)]
    squares = [node for node in nodes if isinstance(node, ast.expr) and _is_square(node)]
    inside = [node for it in squares for one in _sources(it, given) for node in ast.walk(one)]
    return bool(squares) and not any(isinstance(node, ast.Sub) for node in inside)


def _is_square(value: ast.expr) -> bool:
    """Return whether this is x * x or x ** 2 of some name, times anything."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Pow):
        return isinstance(value.right, ast.Constant) and value.right.value == 2
    factors = [it for it in _factors(value) if not isinstance(it, ast.Constant)]
    if len(factors) > 1 and any(map(_is_square, factors)):
        return True
    return len(factors) > len({ast.dump(it) for it in factors})


def _factors(value: ast.expr) -> list[ast.expr]:
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return [*_factors(value.left), *_factors(value.right)]
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        return _factors(value.left)
    return [value]


def nan_replaced(tree: ast.AST) -> Line | None:
    """Return the only choice between what is loaded and a number, which it is where that is NaN.

    What a helper is given may be loaded.
    """
    found, entered = [], kernels(tree)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        given = _assignments(function)
        handed = set() if function in entered else {it.arg for it in function.args.args}
        for node in ast.walk(function):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if name not in ("tl.where", "tl.maximum", "tl.minimum", "tl.clamp"):
                continue
            assert isinstance(node, ast.Call)
            kept = any(it.arg == "propagate_nan" for it in node.keywords)
            chosen = _chosen_for_nan(node) if name == "tl.where" else node.args
            if kept or not any(map(_is_number, chosen)):
                continue
            by = node.args[:1] if name == "tl.where" else node.args
            sources = [it for value in by for it in _sources(value, given)]
            nodes = [it for one in sources for it in ast.walk(one)]
            calls = [ast.unparse(it.func) for it in nodes if isinstance(it, ast.Call)]
            names = {it.id for it in nodes if isinstance(it, ast.Name)}
            if "tl.load" in calls or names & handed:
                found.append(Line(node.lineno, ast.unparse(node)))
    return found[0] if len(found) == 1 else None


def _chosen_for_nan(where: ast.Call) -> list[ast.expr]:
    """Return what tl.where chooses where what it compares is NaN, both if that is not clear."""
    compared = [it for it in ast.walk(where.args[0]) if isinstance(it, ast.Compare)]
    if len(compared) != 1 or isinstance(where.args[0], ast.UnaryOp) or len(where.args) < 3:
        return where.args[1:]
    is_chosen = isinstance(compared[0].ops[0], ast.NotEq)
    return [where.args[1 if is_chosen else 2]]


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    return isinstance(value, ast.Constant) or ast.unparse(value).startswith("float(")


def narrow_sum(tree: ast.AST) -> Line | None:
    """Return where a loop adds to an accumulator of 16 bits, or of the dtype of what is loaded."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        given = _assignments(function)
        begin = {name: [_dtype_at_start(it) for it in values] for name, values in given.items()}
        for loop in ast.walk(function):
            if not isinstance(loop, (ast.For, ast.While)):
                continue
            for node in ast.walk(loop):
                name, added = _added_to(node)
                dtypes = [*begin.get(name, []), _dtype_of_cast(added)] if name else []
                for dtype in filter(lambda it: it.endswith(NARROW), dtypes):
                    explicit = dtype.endswith("float16")
                    line = node.lineno  # type: ignore[attr-defined]
                    return Line(line, ast.unparse(node), explicit)
    return None


def _dtype_at_start(value: ast.expr) -> str:
    """Return the dtype that an accumulator is made with, "" if this makes none."""
    called = value.func if isinstance(value, ast.Call) else None
    if not isinstance(called, ast.Attribute) or called.attr not in ("zeros", "full"):
        return ""
    assert isinstance(value, ast.Call)
    dtype = [it.value for it in value.keywords if it.arg == "dtype"]
    dtype += value.args[1 if called.attr == "zeros" else 2 :][:1]
    return ast.unparse(dtype[0]) if dtype else ""


def _added_to(node: ast.AST) -> tuple[str, ast.expr | None]:
    """Return the variable that a statement adds to, and its new value if that is written out."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return ast.unparse(node.target), None
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        name = ast.unparse(node.targets[0])
        sums = (it for it in ast.walk(node.value) if isinstance(it, ast.BinOp))
        if any(isinstance(it.op, ast.Add) and name == ast.unparse(it.left) for it in sums):
            return name, node.value
    return "", None


def _dtype_of_cast(value: ast.expr | None) -> str:
    """Return the dtype that a sum is cast to as a whole, "" if it is not."""
    called = value.func if isinstance(value, ast.Call) else None
    if not isinstance(called, ast.Attribute) or called.attr != "to":
        return ""
    assert isinstance(value, ast.Call)
    is_sum = isinstance(called.value, ast.BinOp)
    return ast.unparse(value.args[0]) if is_sum and value.args else ""


def dropped(tree: ast.AST) -> Line | None:
    """Return a computation of triton.language whose result is not assigned to anything."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in (node for function in functions for node in ast.walk(function)):
        value = node.value if isinstance(node, ast.Expr) else None
        module, _, name = ast.unparse(getattr(value, "func", ast.Pass())).rpartition(".")
        if value is not None and module == "tl" and name in PURE:
            return Line(value.lineno, ast.unparse(value))
    return None


def doubled(tree: ast.AST) -> Line | None:
    """Return where a tl.dot that adds to an accumulator is added to the same one."""
    for node in ast.walk(tree):
        name, value = _added_to(node)
        if name and isinstance(node, (ast.Assign, ast.AugAssign)):
            added = node.value if value is None else _beside(name, value)
            if isinstance(added, ast.Call) and ast.unparse(added.func) == "tl.dot":
                given = [it.value for it in added.keywords if it.arg == "acc"] + added.args[2:3]
                if name in map(ast.unparse, given):
                    return Line(node.lineno, ast.unparse(node))
    return None


def _beside(name: str, value: ast.expr) -> ast.expr | None:
    """Return what is added to a name, where that sum is the whole value."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return None
    return value.right if ast.unparse(value.left) == name else None


def other_axis(tree: ast.AST) -> Line | None:
    """Return a reduction whose result is used with the lanes of the axis that it removed."""
    for function in kernels(tree):
        flow = _Flow(function)
        for statement in ast.walk(function):
            if isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr)):
                flow.axes(statement.value)
        if flow.found:
            return Line(flow.found.lineno, ast.unparse(flow.found))
    return None


@dataclass
class _Flow:
    """The axes of what a function computes.

    found: the first reduction along the other axis
    """

    function: ast.FunctionDef
    found: ast.Call | None = None
    _known: dict[str, Axes | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._given = _assignments(self.function)
        self._known = dict.fromkeys((it.arg for it in self.function.args.args), ())

    def axes(self, node: ast.expr | None) -> Axes | None:
        """Return the axes of a value, None if they are unknown."""
        if isinstance(node, (ast.Constant, ast.Attribute)):
            return ()
        if isinstance(node, ast.Name):
            return self._of_name(node.id)
        if isinstance(node, (ast.BinOp, ast.Compare, ast.BoolOp, ast.UnaryOp)):
            return self._joined([it for it in ast.iter_child_nodes(node) if _is_value(it)])
        if isinstance(node, ast.Subscript):
            return self._expanded(node)
        return self._of_call(node) if isinstance(node, ast.Call) else None

    def _of_name(self, name: str) -> Axes | None:
        if name not in self._known:
            # A variable that is made of itself has the axes of the rest.
            self._known[name] = (UNKNOWN_AXIS,) if name in self._given else None
            found: Axes | None = (UNKNOWN_AXIS,)
            for value in self._given.get(name, []):
                axes = self.axes(value)
                if axes is None:
                    found = None
                    break
                if len(axes) != len(found or ()) or found == (UNKNOWN_AXIS,) * len(axes):
                    found = axes
                if any(axis.reduction for axis in axes):
                    found = axes
            self._known[name] = found if name in self._given else None
        return self._known[name]

    def _expanded(self, node: ast.Subscript) -> Axes | None:
        axes = self.axes(node.value)
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if axes is None or sum(isinstance(it, ast.Slice) for it in places) != len(axes):
            return None
        rest = iter(axes)
        return tuple(next(rest) if isinstance(it, ast.Slice) else UNKNOWN_AXIS for it in places)

    def _of_call(self, node: ast.Call) -> Axes | None:
        called = ast.unparse(node.func).rpartition(".")
        name = called[2]
        if called[0] != "tl":
            if name == "to" and isinstance(node.func, ast.Attribute):
                return self.axes(node.func.value)
            return () if name in ("min", "max") and not called[0] else None
        if name in SCALARS:
            return ()
        if name == "arange":
            return (Axis(node),)
        if name in ("load", "store", "atomic_add"):
            masks = [it.value for it in node.keywords if it.arg == "mask"]
            return self._joined([*node.args, *masks])
        if name in ("zeros", "full"):
            shape = node.args[0] if node.args else None
            sides = shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else None
            return None if sides is None else (UNKNOWN_AXIS,) * len(sides)
        if name in ELEMENTWISE:
            return self._joined(node.args[:1] if name in ("cast", "cumsum") else node.args)
        return self._reduced(node) if name in REDUCTIONS else None

    def _reduced(self, node: ast.Call) -> Axes | None:
        axes = self.axes(node.args[0]) if node.args else None
        given = [it.value for it in node.keywords if it.arg == "axis"] + node.args[1:2]
        if axes is None or any(it.arg == "keep_dims" for it in node.keywords) or len(given) != 1:
            return None
        axis = given[0].value if isinstance(given[0], ast.Constant) else None
        if not isinstance(axis, int) or len(axes) != 2:
            return None
        left, removed = axes[1 - axis], axes[axis]
        if left.lanes is None or removed.lanes in (None, left.lanes):
            return (UNKNOWN_AXIS,)
        return (Axis(left.lanes, removed.lanes, node),)

    def _joined(self, values: list) -> Axes | None:
        """Return the axes of what broadcasting gives, and note what does not belong together."""
        axes = [self.axes(value) for value in values]
        known = [it for it in axes if it is not None]
        if len(known) < len(axes):
            return None
        length = max(map(len, known), default=0)
        joined = []
        for place in range(1, length + 1):
            along = [it[-place] for it in known if len(it) >= place]
            for axis in along:
                if axis.removed and any(it.lanes is axis.removed for it in along):
                    self._found(axis)
            telling = [it for it in along if it.reduction] or [it for it in along if it.lanes]
            joined.append(telling[0] if telling else UNKNOWN_AXIS)
        return tuple(joined[::-1])

    def _found(self, axis: Axis) -> None:
        # Lanes that count the same numbers may stand for one another.
        one, other = (self._counted(it) for it in (axis.lanes, axis.removed) if it)
        if one != other:
            self.found = self.found or axis.reduction

    def _counted(self, lanes: ast.Call) -> str:
        """Return what a variable is given of these lanes, as it is written."""
        values = (value for values in self._given.values() for value in values)
        within = (value for value in values if any(it is lanes for it in ast.walk(value)))
        return ast.unparse(next(within, lanes))


def _is_value(node: ast.AST) -> bool:
    return isinstance(node, ast.expr)


def _assignments(function: ast.FunctionDef) -> dict[str, list[ast.expr]]:
    """Return all values that each variable of a function is given or changed by."""
    given: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    given.setdefault(target.id, []).append(node.value)
                elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for name, value in zip(target.elts, node.value.elts, strict=False):
                        given.setdefault(ast.unparse(name), []).append(value)
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            given.setdefault(node.target.id, []).append(ast.Constant(0))
    return given


def _sources(value: ast.expr, given: dict[str, list[ast.expr]]) -> list[ast.expr]:
    """Return a value and those of the variables that it is made of."""
    found, seen = [value], set[str]()
    for _ in range(MAX_STEPS):
        names = {it.id for one in found for it in ast.walk(one) if isinstance(it, ast.Name)}
        found += [it for name in names - seen for it in given.get(name, [])]
        seen |= names
    return found
