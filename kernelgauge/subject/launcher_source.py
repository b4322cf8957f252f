"""Read a learner's launchers: what they pass for the parameters of kernels, and make grids from."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Container, Iterator
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef
Assignment = ast.Assign | ast.AnnAssign | ast.AugAssign


def meta_parameters(tree: ast.Module) -> list[str]:
    """Return the constexprs of a file's kernels, in order, each once."""
    kernels = [node for node in ast.walk(tree) if isinstance(node, Function) and _is_kernel(node)]
    names = [
        argument.arg
        for kernel in kernels
        for argument in _parameters(kernel)
        if argument.annotation and "constexpr" in ast.unparse(argument.annotation)
    ]
    return list(dict.fromkeys(names))


def followed(tree: ast.Module, name: str) -> list[int]:
    """Return the lines of the launchers that `set_values` changes for this parameter."""
    lines = [
        statement.lineno
        for scope, variable in _variables(tree, {name})
        for statement in _bindings(scope, variable)
    ]
    lines += [number.lineno for _, numbers in _numbers(tree, {name}) for number in numbers]
    return sorted(set(lines))


def set_values(tree: ast.Module, values: dict[str, Any]) -> None:
    """Set what launches pass for these parameters, and what their grids are made from.

    A variable is set behind each statement that sets it. A number is replaced in the launch and in
    the `triton.cdiv` of its grid.
    """
    for parameter, numbers in list(_numbers(tree, values.keys())):
        for number in numbers:
            number.value = values[parameter]
    for (scope, variable), name in _variables(tree, values.keys()).items():
        for statement in _bindings(scope, variable):
            body = next(body for body in _bodies(scope) if any(one is statement for one in body))
            setting = _setting(variable, values[name], statement)
            body.insert(next(n for n, one in enumerate(body) if one is statement) + 1, setting)
        if isinstance(scope, Function) and variable in map(_name, _parameters(scope)):
            scope.body.insert(0, _setting(variable, values[name], scope.body[0]))


def _setting(variable: str, value: Any, beside: ast.stmt) -> ast.stmt:
    setting = ast.parse(f"{variable} = {value!r}").body[0]
    for node in ast.walk(setting):
        ast.copy_location(node, beside)
    return setting


def _variables(tree: ast.Module, names: Container[str]) -> dict[tuple[ast.AST, str], str]:
    """Return which variable of which scope launches pass for a parameter, by scope and variable.

    A variable that is passed for another parameter too is left alone.
    """
    uses: dict[tuple[ast.AST, str], set[str]] = {}
    for _, scopes, passed in _launches(tree):
        for parameter, value in passed:
            if isinstance(value, ast.Name) and (scope := _scope_of(value.id, scopes)) is not None:
                uses.setdefault((scope, value.id), set()).add(parameter)
    found = {
        use: next(iter(parameters)) for use, parameters in uses.items() if len(parameters) == 1
    }
    return {use: parameter for use, parameter in found.items() if parameter in names}


def _numbers(tree: ast.Module, names: Container[str]) -> Iterator[tuple[str, list[ast.Constant]]]:
    """Yield each number that a launch passes for a parameter, with those of its grid.

    Only where the grid rounds up to a multiple of it, and no other parameter has the same number.
    """
    for call, scopes, passed in _launches(tree):
        numbers = [value.value for _, value in passed if isinstance(value, ast.Constant)]
        for parameter, value in passed:
            if parameter not in names or not isinstance(value, ast.Constant):
                continue
            same = [
                division.args[1]
                for division in _divisions(call, scopes)
                if isinstance(division.args[1], ast.Constant)
                and division.args[1].value == value.value
            ]
            if same and numbers.count(value.value) == 1:
                yield parameter, [value, *same]


def _divisions(call: ast.Call, scopes: tuple) -> list[ast.Call]:
    """Return each triton.cdiv(size, block) of the grid of a launch."""
    assert isinstance(call.func, ast.Subscript)
    grid = call.func.slice
    parts: list[ast.AST] = [grid]
    if isinstance(grid, ast.Name) and (scope := _scope_of(grid.id, scopes)) is not None:
        parts = [statement.value for statement in _bindings(scope, grid.id) if statement.value]
    nodes = [node for part in parts for node in ast.walk(part) if isinstance(node, ast.Call)]
    return [
        node for node in nodes if ast.unparse(node.func).endswith("cdiv") and len(node.args) == 2
    ]


def _scope_of(variable: str, scopes: tuple) -> ast.AST | None:
    return next((scope for scope in reversed(scopes) if _binds(scope, variable)), None)


def _launches(
    tree: ast.Module,
) -> Iterator[tuple[ast.Call, tuple, list[tuple[str, ast.expr]]]]:
    """Yield each kernel[grid](...), the scopes around it, and what it passes by parameter."""
    kernels = {node.name: node for node in tree.body if isinstance(node, Function)}
    for call, scopes in _calls(tree, (tree,)):
        assert isinstance(call.func, ast.Subscript)
        kernel = kernels.get(ast.unparse(call.func.value))
        names = [one.arg for one in _parameters(kernel)] if kernel else []
        placed = itertools.takewhile(lambda one: not isinstance(one, ast.Starred), call.args)
        passed = [(one.arg, one.value) for one in call.keywords if one.arg]
        yield call, scopes, [*zip(names, placed, strict=False), *passed]


def _calls(node: ast.AST, scopes: tuple) -> Iterator[tuple[ast.Call, tuple]]:
    """Yield each kernel[grid](...) with the scopes that it stands in, the innermost last."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Subscript):
            yield child, scopes
        yield from _calls(child, (*scopes, child) if isinstance(child, Function) else scopes)


def _bodies(scope: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements of a scope, without those of functions and classes in it."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        parts = getattr(scope, field, None)
        if not isinstance(parts, list):
            continue
        if field not in ("handlers", "cases"):
            yield parts
        for part in parts:
            if not isinstance(part, Function | ast.ClassDef):
                yield from _bodies(part)


def _bindings(scope: ast.AST, variable: str) -> list[Assignment]:
    """Return the assignments of a variable in a scope; in a module those of a number alone."""
    found = []
    for body in _bodies(scope):
        for statement in body:
            if not isinstance(statement, Assignment) or not _may_change(scope, statement):
                continue
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            named = {
                node.id
                for target in targets
                if target is not None
                for node in ast.walk(target)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            if variable in named:
                found.append(statement)
    return found


def _may_change(scope: ast.AST, statement: Assignment) -> bool:
    # A kernel may read a global constexpr by itself.
    return not isinstance(scope, ast.Module) or isinstance(
        statement.value, ast.Constant | ast.Tuple
    )


def _binds(scope: ast.AST, variable: str) -> bool:
    own = map(_name, _parameters(scope)) if isinstance(scope, Function) else ()
    return variable in own or bool(_bindings(scope, variable))


def _parameters(function: Function) -> list[ast.arg]:
    arguments = function.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _name(argument: ast.arg) -> str:
    return argument.arg


def _is_kernel(function: Function) -> bool:
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)
