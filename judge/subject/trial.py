"""Run a subject with other values for its meta-parameters, such as BLOCK=64 and num_warps=8.

Each launch gets the values in place of those that it passes. A grid that is a function of the
meta-parameters follows by itself. Where the launcher passes a variable, BLOCK=BLOCK, that variable
gets the value too, in a copy of the file in memory, so that a grid or a descriptor made from it
follows. What follows neither way is noted.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import KernelInterface

from judge.core import paths
from judge.core.launch import Launch
from judge.memory.executor import OPTIONS

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclasses.dataclass
class Trial:
    """Values to try, and what became of them. Launches in `running` get them.

    values: by name, of constexprs and launch options
    fixed: for each kernel whose grid did not follow, the name and the value that it was made for
    """

    values: dict[str, Any]
    fixed: dict[tuple[str, str], Any] = dataclasses.field(default_factory=dict)

    @contextlib.contextmanager
    def running(self, path: Path) -> Iterator[None]:
        """Let launches in the body get the values, in a copy of this file that has them too."""
        if not self.values:
            yield
            return
        original = KernelInterface.__getitem__
        KernelInterface.__getitem__ = lambda kernel, grid: self._launcher(kernel, grid)
        try:
            tree = ast.parse(path.read_text())
            _set_variables(tree, self.values)
            with paths.replaced(path, tree):
                yield
        finally:
            KernelInterface.__getitem__ = original

    def missed(self, launches: list[Launch]) -> str:
        """Return the name of a constexpr that was launched with another value, or ""."""
        wrong = (
            name
            for launch in launches
            for name, value in self.values.items()
            if name in launch.constexprs and launch.arguments[name] != value
        )
        return next(wrong, "")

    def _launcher(self, kernel: Any, grid: Any) -> Any:
        names = kernel.arg_names
        mine = {n: v for n, v in self.values.items() if n in names or n in OPTIONS}

        def launch(*args: Any, **kwargs: Any) -> Any:
            placed = dict(zip(names, args, strict=False))
            given = placed | kwargs
            for name in mine.keys() & given.keys() & set(names):
                if given[name] != mine[name] and not callable(grid):
                    self.fixed[_name_of(kernel), name] = given[name]
            args = (*(mine.get(*one) for one in placed.items()), *args[len(placed) :])
            named = {name: value for name, value in mine.items() if name not in placed}
            with _configured(kernel, named) as rest:
                return kernel.run(*args, grid=grid, warmup=False, **kwargs | rest)

        return launch


@contextlib.contextmanager
def _configured(kernel: Any, values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give an autotuner one configuration, its first with these values. Yields those left over."""
    if not isinstance(kernel, Autotuner):
        yield values
        return
    before, config = kernel.configs, copy.copy(kernel.configs[0])
    config.kwargs = config.kwargs | {n: v for n, v in values.items() if n in config.kwargs}
    options = {name for name in values if name in vars(config)}
    for name in options:
        setattr(config, name, values[name])
    kernel.configs = [config]
    try:
        yield {n: v for n, v in values.items() if n not in config.kwargs and n not in options}
    finally:
        kernel.configs = before


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
    """Return the lines behind which a trial sets a variable to the value of this parameter."""
    return sorted(
        {
            statement.lineno
            for scope, variable in _variables(tree, {name: None})
            for statement in _bindings(scope, variable)
        }
    )


def _set_variables(tree: ast.Module, values: dict[str, Any]) -> None:
    """Set the variables that launches pass for these parameters, behind what sets them."""
    for (scope, variable), name in _variables(tree, values).items():
        for statement in _bindings(scope, variable):
            body = next(body for _, body in _bodies(scope) if any(one is statement for one in body))
            setting = ast.parse(f"{variable} = {values[name]!r}").body[0]
            for node in ast.walk(setting):
                ast.copy_location(node, statement)
            body.insert(next(n for n, one in enumerate(body) if one is statement) + 1, setting)
        if isinstance(scope, Function) and variable in map(_name, _parameters(scope)):
            setting = ast.parse(f"{variable} = {values[name]!r}").body[0]
            for node in ast.walk(setting):
                ast.copy_location(node, scope.body[0])
            scope.body.insert(0, setting)


def _variables(tree: ast.Module, values: dict[str, Any]) -> dict[tuple[ast.AST, str], str]:
    """Return which variable of which scope launches pass for a parameter, by scope and variable.

    A variable that is passed for another parameter too is left alone.
    """
    kernels = {node.name: node for node in tree.body if isinstance(node, Function)}
    uses: dict[tuple[ast.AST, str], set[str]] = {}
    for call, scopes in _launches(tree, (tree,)):
        kernel = kernels.get(ast.unparse(call.func.value))
        names = [one.arg for one in _parameters(kernel)] if kernel else []
        passed = [(one.arg, one.value) for one in call.keywords if one.arg]
        for argument, parameter in zip(call.args, names, strict=False):
            if isinstance(argument, ast.Starred):
                break
            passed.append((parameter, argument))
        for parameter, value in passed:
            if isinstance(value, ast.Name):
                scope = next((it for it in reversed(scopes) if _binds(it, value.id)), None)
                if scope is not None:
                    uses.setdefault((scope, value.id), set()).add(parameter)
    return {
        use: next(iter(parameters))
        for use, parameters in uses.items()
        if len(parameters) == 1 and parameters & values.keys()
    }


def _launches(node: ast.AST, scopes: tuple) -> Iterator[tuple[ast.Call, tuple]]:
    """Yield each kernel[grid](...) with the scopes that it stands in, the innermost last."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Subscript):
            yield child, scopes
        yield from _launches(child, (*scopes, child) if isinstance(child, Function) else scopes)


def _bodies(scope: ast.AST) -> Iterator[tuple[ast.AST, list[ast.stmt]]]:
    """Yield the lists of statements of a scope, without those of functions and classes in it."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        parts = getattr(scope, field, None)
        if not isinstance(parts, list):
            continue
        if field not in ("handlers", "cases"):
            yield scope, parts
        for part in parts:
            if not isinstance(part, Function | ast.ClassDef):
                yield from _bodies(part)


def _bindings(scope: ast.AST, variable: str) -> list[ast.stmt]:
    """Return the assignments of a variable in a scope; in a module those of a number alone."""
    found = []
    for _, body in _bodies(scope):
        for statement in body:
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            assigns = isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign)
            named = {
                node.id
                for target in targets
                if target is not None
                for node in ast.walk(target)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            if assigns and variable in named and _may_change(scope, statement):
                found.append(statement)
    return found


def _may_change(scope: ast.AST, statement: ast.stmt) -> bool:
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


def _name_of(kernel: Any) -> str:
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel.__name__


def _name(argument: ast.arg) -> str:
    return argument.arg


def _is_kernel(function: Function) -> bool:
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)
