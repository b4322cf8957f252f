"""How a kernel's Python is read: `and`, `or`, `not`, conditions, asserts and loops as compiled.

The interpreter runs a kernel as plain Python, where `mask and other_mask` is the second mask, a
tile is a true condition, and a loop counts in Python integers. Triton's compiler takes `and` for a
logical_and of tensors, rejects a tile as a condition, and counts in int32 tensors. The kernel's
syntax tree is changed to call the functions here; the interpreter puts the names of its module into
the kernel's globals, so they are put there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter


class Ambiguous(ValueError):
    """A tile of more than one element where one truth value is needed."""


def install() -> None:
    for function in (logical, negated, truth, asserted, counted):
        setattr(interpreter, _name(function), function)
    interpreter.FunctionRewriter.ast_transformer = _Both(
        _AsCompiled(), interpreter.FunctionRewriter.ast_transformer
    )
    interpreter.InterpretedFunction.rewritten_fn.clear()


def logical(both: bool, *operands: Callable[[], object]) -> object:
    """`a and b` if both, else `a or b`, evaluated as in CodeGenerator.visit_BoolOp."""
    semantic = interpreter.interpreter_semantic
    tensors = []
    for operand in operands:
        value = operand()
        if isinstance(value, tl.tensor):
            tensors.append(value)
        elif bool(value) is not both:
            return value
    if not tensors:
        return value
    result = tensors.pop()
    join = semantic.logical_and if both else semantic.logical_or
    while tensors:
        result = join(tensors.pop(), result)
    return result


def negated(value: object) -> object:
    """`not value`."""
    if isinstance(value, tl.tensor):
        return interpreter.interpreter_semantic.not_(value)
    return not value


def truth(value: object) -> bool:
    """What `if`, `while` and `x if value else y` ask. Raises Ambiguous for a tile."""
    if isinstance(value, tl.tensor) and value.type.is_block() and value.handle.data.size > 1:
        raise Ambiguous(
            f"a condition must be one value, not a tile of shape {list(value.handle.data.shape)}: "
            "choose per element with tl.where"
        )
    return bool(value)


def asserted(condition: object, message: object = "") -> None:
    """`assert condition, message`: tl.device_assert. Raises AssertionError if any element fails."""
    semantic = interpreter.interpreter_semantic
    semantic.device_assert(semantic.to_tensor(condition), message, None)


def counted(first, end=None, step=1, **hints) -> Iterator[tl.tensor]:
    """`range` and `tl.range`: scalar tensors of the integer type that the bounds promote to."""
    semantic = interpreter.interpreter_semantic
    bounds = [semantic.to_tensor(bound) for bound in ((0, first) if end is None else (first, end))]
    bounds.append(semantic.to_tensor(1 if step is None else step))
    kind = bounds[0].dtype
    for bound in bounds[1:]:
        kind = semantic.integer_promote_impl(kind, bound.dtype)
    held = interpreter._get_np_dtype(kind)
    for count in range(*(int(bound.handle.data.item()) for bound in bounds)):
        yield tl.tensor(interpreter.TensorHandle(np.array([count], dtype=held), kind), kind)


def _name(function: Callable) -> str:
    return f"_judge_{function.__name__}"


class _Both:
    """Two transformers in turn, with the method that the interpreter calls."""

    def __init__(self, first, second):
        self._first, self._second = first, second

    def visit(self, tree: ast.AST) -> ast.AST:
        return self._second.visit(self._first.visit(tree))


class _AsCompiled(ast.NodeTransformer):
    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        # Lambdas, because a constexpr that decides the value keeps the rest from being evaluated.
        operands = [ast.Lambda(args=nothing, body=value) for value in node.values]
        both = ast.Constant(value=isinstance(node.op, ast.And))
        return _call(logical, [both, *operands], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call(negated, [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.generic_visit(node)
        arguments = [node.test, node.msg] if node.msg else [node.test]
        return ast.copy_location(ast.Expr(value=_call(asserted, arguments, node)), node)

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        loop = node.iter
        if isinstance(loop, ast.Call) and _called_name(loop.func) == "range":
            loop.func = ast.copy_location(ast.Name(id=_name(counted), ctx=ast.Load()), loop.func)
        return node

    def _visit_condition(self, node):
        self.generic_visit(node)
        node.test = _call(truth, [node.test], node.test)
        return node

    visit_If = visit_While = visit_IfExp = _visit_condition  # noqa: N815


def _called_name(function: ast.expr) -> str | None:
    return getattr(function, "attr", None) or getattr(function, "id", None)


def _call(function: Callable, arguments: list[ast.expr], place: ast.AST) -> ast.Call:
    called = ast.Name(id=_name(function), ctx=ast.Load())
    return ast.copy_location(ast.Call(func=called, args=arguments, keywords=[]), place)
