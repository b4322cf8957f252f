"""Wrong versions of any solution: each breaks what holds of every kernel.

    promise   the compiler is promised what does not hold for all sizes and strides
    value     special values are treated wrongly right after they were loaded
    state     a call answers from what an earlier call left
    order     each block is computed by two programs, in an order that nothing fixes

The kind limit is in test_limits.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from course import paths

PROMISES = {
    "multiple_of": "{name} = tl.multiple_of({name}, 16)",
    "assume": "tl.assume({name} % 16 == 0)",
}
IN_A_ROW = """
@triton.jit
def in_a_row(ptrs):
    if len(ptrs.shape) == 1:
        ptrs = tl.max_contiguous(ptrs, 16)
    elif len(ptrs.shape) == 2:
        ptrs = tl.max_contiguous(ptrs, (1, 16))
    return ptrs
"""
# What becomes of a value x.
VALUES = {
    "nan": "tl.where(x == x, x, 0.0)",
    "inf": 'tl.where(tl.abs(x) == float("inf"), 0.0, x)',
    "largest": "(x * 2) * 0.5",
    "subnormal": "tl.where(tl.abs(x.to(tl.float32)) < SMALLEST, x * 0.0, x)",
    "minus_zero": "x + 0.0",
}
CHANGED = """
@triton.jit
def changed(x):
    if tl.constexpr(x.dtype.is_floating() and x.dtype.primitive_bitwidth > 8):
        SMALLEST: tl.constexpr = 6.104e-05 if x.dtype == tl.float16 else 1.1754943508222875e-38
        return ({}).to(x.dtype)
    else:
        return x
"""
KEPT = """
_kept = {}


def _shapes(x):
    if isinstance(x, (list, tuple)):
        return tuple(map(_shapes, x))
    return (x.shape, x.dtype) if isinstance(x, torch.Tensor) else str(x)
"""
FIRST_RESULT = """
_first = {name}


def {name}(*inputs, **options):
    key = _shapes([*inputs, *options.values()])
    if key not in _kept:
        _kept[key] = _first(*inputs, **options)
    return _kept[key]
"""
BUFFER = """
def _buffer(place, make, *given, **options):
    key = place, _shapes([*given, *options.values()])
    if key not in _kept:
        _kept[key] = make(*given, **options)
    return _kept[key]
"""
TWICE = """
def _twice(grid):
    if callable(grid):
        return lambda meta: _twice(grid(meta))
    grid = grid if isinstance(grid, (tuple, list)) else (grid,)
    return (2 * grid[0], *grid[1:])
"""


# Of each kind the wrong versions, and what a file has that can be wrong in that way.
KINDS = {
    "promise": {
        "multiple_of": r"\bstride_|^    [A-Z][A-Z_]*,",
        "assume": r"\bstride_|^    [A-Z][A-Z_]*,",
        "max_contiguous": r"\b[tg]l\.load\(",
    },
    "value": dict.fromkeys(VALUES, r"\.load\("),
    "state": {
        "result": "def ",
        "buffers": r"\.(new_)?(empty|zeros)(_like)?\(",
        "saved": r"ctx\.save_for_backward\(",
    },
    "order": {"twice": "def "},
}


def wrong_versions(puzzle: str) -> Iterator[tuple[str, str]]:
    """Yield kind and name of each wrong version of a puzzle's solution."""
    code = (paths.SOLUTIONS / f"{puzzle}.py").read_text()
    for kind, names in KINDS.items():
        for name, needed in names.items():
            if re.search(needed, code, re.MULTILINE):
                yield kind, name


def source_of(puzzle: str, function: str, kind: str, name: str) -> str:
    """Return the file of a wrong version. function: the name of the launcher"""
    code = (paths.SOLUTIONS / f"{puzzle}.py").read_text()
    if name in PROMISES:
        return _edited(code, _Promises(PROMISES[name]))
    if name == "max_contiguous":
        return _edited(code, _Loads("tl.load", "in_a_row"), IN_A_ROW)
    if kind == "value":
        return _edited(code, _Loads(".load", "changed"), CHANGED.format(VALUES[name]))
    if name == "result":
        return code + KEPT + FIRST_RESULT.format(name=function)
    if name == "buffers":
        return _edited(code, _Allocations(), KEPT + BUFFER)
    if name == "saved":
        code = re.sub(r"ctx\.save_for_backward\((.*?)\)\n", r"_saved[:] = [\1]\n", code, flags=re.S)
        return code.replace("ctx.saved_tensors", "_saved") + "\n_saved = []\n"
    return _edited(code, _Twice(), TWICE)


def _edited(code: str, edit: _Edit, helper: str = "") -> str:
    """Return an edited file, with a helper before its first function."""
    if "language as gl" in code:
        helper = helper.replace("triton.jit", "gluon.jit").replace("tl.", "gl.")
    tree = edit.visit(ast.parse(code))
    assert edit.count, "the edit found no place"
    source = ast.unparse(ast.fix_missing_locations(tree))
    head, mark, rest = re.split(r"^(@|def |class )", source, maxsplit=1, flags=re.MULTILINE)
    return f"{head}{helper}\n\n{mark}{rest}"


class _Edit(ast.NodeTransformer):
    """An edit of a file. count: how many places of it were changed."""

    def __init__(self) -> None:
        self.count, self.in_kernel = 0, False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        before = self.in_kernel
        self.in_kernel = any("jit" in ast.unparse(it) for it in node.decorator_list)
        self.generic_visit(node)
        self.in_kernel = before
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return self.call(node, ast.unparse(node.func))

    def call(self, node: ast.Call, name: str) -> ast.AST:
        return node

    def wrapped(self, node: ast.expr, function: str) -> ast.expr:
        self.count += 1
        return ast.Call(ast.Name(function), [node], [])


class _Promises(_Edit):
    """A promise about each size and each stride that a kernel takes."""

    def __init__(self, change: str) -> None:
        super().__init__()
        self.change = change

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if any("jit" in ast.unparse(it) for it in node.decorator_list):
            names = [it.arg for it in node.args.args if it.annotation is None]
            names = [it for it in names if it.startswith("stride_") or it.isupper()]
            self.count += len(names)
            promises = "\n".join(self.change.format(name=name) for name in names)
            node.body[:0] = ast.parse(promises).body
        return node


class _Loads(_Edit):
    """A helper around what loads return, or around the pointers of a load."""

    def __init__(self, load: str, helper: str) -> None:
        super().__init__()
        self.load, self.helper = load, helper

    def call(self, node: ast.Call, name: str) -> ast.AST:
        if not self.in_kernel or not name.replace("gl.", "tl.").endswith(self.load):
            return node
        if self.helper == "in_a_row":
            node.args[0] = self.wrapped(node.args[0], self.helper)
            return node
        return self.wrapped(node, self.helper)


class _Allocations(_Edit):
    """Memory that is allocated in the first call and used in all."""

    def call(self, node: ast.Call, name: str) -> ast.AST:
        if self.in_kernel or not re.search(r"\.(new_)?(empty|zeros)(_like)?$", name):
            return node
        self.count += 1
        place = ast.Constant(self.count)
        return ast.Call(ast.Name("_buffer"), [place, node.func, *node.args], node.keywords)


class _Twice(_Edit):
    """Grids of twice as many programs, of which two share each number."""

    def call(self, node: ast.Call, name: str) -> ast.AST:
        if not self.in_kernel and isinstance(node.func, ast.Subscript):
            node.func.slice = self.wrapped(node.func.slice, "_twice")
        elif re.fullmatch(r"[tg]l\.(program_id|num_programs)\(0\)", ast.unparse(node)):
            return ast.BinOp(node, ast.FloorDiv(), ast.Constant(2))
        return node
