"""Read a kernel's Python as the compiler does: `and`, `or`, `not`, conditions, asserts and loops.

And `.value` of a constexpr, which in the interpreter is a plain number, string or dtype.

The interpreter runs a kernel as plain Python, where `mask and other_mask` is the second mask, a
tile is a true condition, and a loop counts in Python integers. Triton's compiler turns `and` into a
logical_and of tensors, rejects a tile as a condition, and counts in int32 tensors. AsCompiled
rewrites the kernel's syntax tree into calls of FUNCTIONS. The interpreter copies the names of its
own module into the kernel's globals, so they are put into that module. Its semantic object is a
private name of Triton.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import interpreter_semantic as semantic

from kernelgauge.interpreter.arithmetic import make_tensor, numpy_dtype


class AmbiguousCondition(ValueError):
    """A tile of more than one element where a single truth value is needed."""


def logical(is_and: bool, *operands: Callable[[], object]) -> object:
    """Return `a and b`, or `a or b`, evaluated as in Triton's CodeGenerator.visit_BoolOp."""
    tensors = []
    for operand in operands:
        value = operand()
        if isinstance(value, tl.tensor):
            tensors.append(value)
        elif bool(value) is not is_and:
            return value
    if not tensors:
        return value
    result = tensors.pop()
    join = semantic.logical_and if is_and else semantic.logical_or
    while tensors:
        result = join(tensors.pop(), result)
    return result


def logical_not(value: object) -> object:
    """Return `not value`."""
    return semantic.not_(value) if isinstance(value, tl.tensor) else not value


def condition(value: object) -> bool:
    """Return the truth of a condition of `if`, `while` or `x if value else y`.

    Raises AmbiguousCondition for a tile.
    """
    if isinstance(value, tl.tensor) and value.type.is_block() and value.handle.data.size > 1:
        raise AmbiguousCondition(
            "a condition must be a single value, not a tile of shape "
            f"{list(value.handle.data.shape)}: choose per element with tl.where"
        )
    return bool(value)


def device_assert(test: object, message: object = "") -> None:
    """Execute `assert test, message`. Raises AssertionError if any element fails."""
    semantic.device_assert(semantic.to_tensor(test), message, None)


def tensor_range(
    first: object, end: object = None, step: object = 1, **hints: object
) -> Iterator[tl.tensor]:
    """Yield what `range` and `tl.range` count: scalars of the type that the bounds promote to."""
    ends = (0, first) if end is None else (first, end)
    bounds = [semantic.to_tensor(bound) for bound in (*ends, 1 if step is None else step)]
    dtype = bounds[0].dtype
    for bound in bounds[1:]:
        dtype = semantic.integer_promote_impl(dtype, bound.dtype)
    for count in range(*(int(bound.handle.data.item()) for bound in bounds)):
        yield make_tensor(np.array(count, numpy_dtype(dtype)), dtype)


def value_of(constant: object) -> object:
    """Return `constant.value`. What the compiler wraps as a constexpr is its own value here."""
    plain = constant is None or isinstance(constant, (bool, int, float, str, tl.dtype))
    return constant if plain else constant.value  # type: ignore[attr-defined]


def _name(function: Callable) -> str:
    return f"_judge_{function.__name__}"


# By the name under which a rewritten kernel calls each.
FUNCTIONS = {
    _name(function): function
    for function in (logical, logical_not, condition, device_assert, tensor_range, value_of)
}


class AsCompiled(ast.NodeTransformer):
    """Replaces control flow by calls of FUNCTIONS.

    following: the transformer to apply to the result
    """

    def __init__(self, following: ast.NodeTransformer):
        self.following = following

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.generic_visit(node)
        return self.following.visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        # Lambdas, because a constexpr that decides the value keeps the rest from being evaluated.
        operands = [ast.Lambda(args=nothing, body=value) for value in node.values]
        is_and = ast.Constant(value=isinstance(node.op, ast.And))
        return _call(logical, [is_and, *operands], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call(logical_not, [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        read = node.attr == "value" and isinstance(node.ctx, ast.Load)
        return _call(value_of, [node.value], node) if read else node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.generic_visit(node)
        arguments = [node.test, node.msg] if node.msg else [node.test]
        return ast.copy_location(ast.Expr(value=_call(device_assert, arguments, node)), node)

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        loop = node.iter
        if isinstance(loop, ast.Call) and _called_name(loop.func) == "range":
            loop.func = _reference(tensor_range, loop.func)
        return node

    def _visit_condition(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = _call(condition, [node.test], node.test)
        return node

    visit_If = visit_While = visit_IfExp = _visit_condition  # noqa: N815


def _called_name(function: ast.expr) -> str | None:
    return getattr(function, "attr", None) or getattr(function, "id", None)


def _reference(function: Callable, site: ast.AST) -> ast.Name:
    return ast.copy_location(ast.Name(id=_name(function), ctx=ast.Load()), site)


def _call(function: Callable, arguments: list[ast.expr], site: ast.AST) -> ast.Call:
    called = ast.Call(func=_reference(function, site), args=arguments, keywords=[])
    return ast.copy_location(called, site)
