"""What a learner's file says of where a size may end: integers, products of two, and dtypes."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from kernelgauge.core.dtypes import dtype_name

# Smaller numbers are axes, ranks and counts of tensors.
LEAST = 4
MOST = 2**40

FOLDED = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.LShift: operator.lshift, ast.Pow: operator.pow,
}  # fmt: skip
# Calls that cut a size off, or give a tile or a loop its length.
ENDS = {
    "arange", "cdiv", "clamp", "full", "max", "maximum", "min", "minimum", "next_power_of_2",
    "range", "static_range", "zeros",
}  # fmt: skip
# What is no size: options of a launch, and what an index of an axis is called.
OPTIONS = {"axis", "dim", "maxnreg", "num_ctas", "num_stages", "num_warps"}
# How many values integers of few bits have, and how far they count.
NARROW = {"int8": (2**7, 2**8), "uint8": (2**8,), "int16": (2**15, 2**16), "uint16": (2**16,)}

# What tells dtypes apart by their bytes, and other names than those that torch prints.
WIDTHS = {"bits", "element_size", "itemsize", "primitive_bitwidth"}
SYNONYMS = {
    "half": "float16", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64",
    "double": "float64", "fp8e4nv": "float8_e4m3fn", "float8e4nv": "float8_e4m3fn", "int1": "bool",
    "long": "int64",
}  # fmt: skip
# What methods of a dtype tell from the rest.
REALS = {"bfloat16", "float16", "float32", "float64", "float8_e4m3fn"}
SIGNED = {"int8", "int16", "int32", "int64"}
APART = {
    "is_floating": REALS, "is_floating_point": REALS, "is_int": REALS | {"bool"},
    "is_int_signed": SIGNED, "is_signed": REALS | SIGNED,
}  # fmt: skip

# How likely a size ends there: where it is compared or cut off or its type ends, at any other
# number, at a product.
AT_AN_END, ANYWHERE, AT_A_PRODUCT, AT_ANY_PRODUCT = range(4)


class Constant(NamedTuple):
    """A number at which a size may end.

    value: the number
    rank: how likely that is, 0 most
    factors: what stands in the file: the number, or two of which it is the product
    texts: how each of the factors is written: 64, 1 << 14, int16
    lines: where each of the factors stands
    """

    value: int
    rank: int
    factors: tuple[int, ...]
    texts: tuple[str, ...]
    lines: tuple[int, ...]


def constants(code: str) -> list[Constant]:
    """Return the numbers of this source, the likeliest first, each once.

    Raises SyntaxError.
    """
    tree = ast.parse(code)
    hot = {name for end in _ends(tree) for part in end for name in _names(part)}
    inside = {node for end in _ends(tree) for part in end for node in ast.walk(part)}
    single: dict[int, Constant] = {}
    for value, node, name in _numbers(tree):
        ends = node in inside or name in hot or _last_name(node) in NARROW
        rank = AT_AN_END if ends else ANYWHERE
        if value not in single or rank < single[value].rank:
            single[value] = Constant(value, rank, (value,), (_text(node),), (node.lineno,))
    known = sorted(single.values(), key=lambda it: (it.rank, it.value))
    products = [
        Constant(
            a.value * b.value,
            AT_A_PRODUCT if a.rank == b.rank == AT_AN_END else AT_ANY_PRODUCT,
            (a.value, b.value),
            (*a.texts, *b.texts),
            (*a.lines, *b.lines),
        )
        for a, b in itertools.combinations_with_replacement(known, 2)
    ]
    found: dict[int, Constant] = {}
    for it in sorted([*known, *products], key=lambda it: (it.rank, it.value, it.lines)):
        found.setdefault(it.value, it)
    return list(found.values())


def told_apart(code: str, dtypes: Sequence[torch.dtype]) -> list[torch.dtype]:
    """Return the first of these dtypes, and one of each kind that the source tells from it.

    Raises SyntaxError.
    """
    named: list[set[str]] = []
    by_width = False
    for node in ast.walk(ast.parse(code)):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            by_width |= any(_last_name(it) in WIDTHS for it in ast.walk(node))
        elif isinstance(node, ast.Subscript):
            by_width |= _last_name(getattr(node.slice, "func", node.slice)) in WIDTHS
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            parts = [*node.elts]
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Dict):
            named += [{_dtype(it)} for it in node.keys]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("is_"):
            named.append(APART.get(node.attr, {_named(node.attr[3:])}))
        named.append({_dtype(it) for it in parts})
    kinds: dict[tuple, torch.dtype] = {}
    for dtype in dtypes:
        kind = tuple(dtype_name(dtype) in names for names in named)
        kinds.setdefault((kind, by_width and dtype.itemsize), dtype)
    return list(kinds.values())


def _dtype(node: ast.expr | None) -> str:
    """Return the name that torch has for the dtype that is written here, or anything else."""
    name = str(node.value) if isinstance(node, ast.Constant) else _last_name(node)
    return _named(name.removeprefix("torch."))


def _named(name: str) -> str:
    return SYNONYMS.get(name, name)


def _ends(tree: ast.AST) -> Iterator[list[ast.expr]]:
    """Yield the expressions of each comparison and of each call that ends a size."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and _last_name(node.func) in ENDS:
            yield [*node.args, *(it.value for it in node.keywords)]


def _numbers(tree: ast.AST, name: str = "") -> Iterator[tuple[int, Any, str]]:
    """Yield each number, the node that it is, and the name that it gets, if it gets one."""
    for child in ast.iter_child_nodes(tree):
        given = name
        if isinstance(child, ast.keyword):
            given = child.arg or ""
        elif isinstance(child, ast.Assign | ast.AnnAssign | ast.AugAssign):
            target = child.targets[0] if isinstance(child, ast.Assign) else child.target
            given = next(iter(_names(target)), "")
        if given in OPTIONS:
            continue
        value = _value(child)
        if value is not None and LEAST <= value <= MOST:
            yield value, child, given
        if isinstance(child, ast.BinOp) and isinstance(child.op, ast.LShift | ast.RShift):
            bits = _value(child.right)
            if value is None and bits is not None and 1 < bits <= 40:
                yield 2**bits, child, given
        if isinstance(child, ast.Attribute | ast.Name):
            for most in NARROW.get(_last_name(child), ()):
                yield most, child, given
        if isinstance(child, ast.arguments):
            yield from _defaults(child)
        elif isinstance(child, ast.Dict):
            for key, part in zip(child.keys, child.values, strict=True):
                named = key.value if isinstance(key, ast.Constant) else given
                if named not in OPTIONS:
                    yield from _numbers(ast.Tuple(elts=[part]), str(named))
        else:
            yield from _numbers(child, given)


def _defaults(arguments: ast.arguments) -> Iterator[tuple[int, Any, str]]:
    placed = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(reversed(placed), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    for argument, default in pairs:
        if default is not None and argument.arg not in OPTIONS:
            yield from _numbers(ast.Tuple(elts=[default]), argument.arg)


def _value(node: ast.AST) -> int | None:
    """Return what an expression of numbers alone gives, None for others."""
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return value if type(value) is int else None
    if isinstance(node, ast.BinOp) and type(node.op) in FOLDED:
        left, right = _value(node.left), _value(node.right)
        if left is None or right is None or not (0 <= left <= MOST and 0 < right <= MOST):
            return None
        if isinstance(node.op, ast.LShift | ast.Pow) and right > 40:
            return None
        return int(FOLDED[type(node.op)](left, right))
    return None


def _text(node: ast.AST) -> str:
    return _last_name(node) or ast.unparse(node)


def _names(node: ast.AST) -> list[str]:
    return [it.id for it in ast.walk(node) if isinstance(it, ast.Name)]


def _last_name(node: ast.AST | None) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))
