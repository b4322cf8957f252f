"""Check that what the judge relies on is still the same after a subject was loaded, or ran.

Torch, Triton, the clock and the judge itself can be changed by any code in this process.
"""

from __future__ import annotations

import _thread
import contextlib
import operator
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

from judge.core.paths import display_path
from judge.core.settings import Settings
from judge.core.verdict import Wrong
from judge.subject import audit
from judge.subject.audit import HINT

# Modules and classes whose functions the judge calls or compares with. Those that are not imported
# yet are no concern. All of the judge's own modules are watched too, with their variables.
RELIED_ON = (
    "builtins", "gc", "math", "random", "statistics", "sys", "threading", "time",
    "numpy", "numpy.linalg", "torch", "torch:Tensor", "torch._C",
    "torch.autograd", "torch.cuda", "torch.cuda:Event", "torch.cuda:Stream", "torch.linalg",
    "torch.nn.functional", "torch.special", "torch.testing", "torch.utils._python_dispatch",
    "torch.utils._python_dispatch:TorchDispatchMode",
    "triton", "triton.language", "triton.language.core", "triton.language.math",
    "triton.language.standard", "triton.compiler", "triton.compiler.compiler", "triton.testing",
    "triton.runtime.autotuner:Autotuner", "triton.runtime.interpreter",
    "triton.runtime.interpreter:GridExecutor", "triton.runtime.interpreter:InterpretedFunction",
    "triton.runtime.interpreter:InterpreterBuilder",
    "triton.runtime.jit", "triton.runtime.jit:JITFunction", "triton.runtime.jit:KernelInterface",
)  # fmt: skip

# What torch itself sets when its compiler is imported.
MAY_CHANGE = {("torch", "manual_seed")}


class Watched(NamedTuple):
    """A module or class, and of the judge's own also its functions and its tables."""

    owner: object
    functions: tuple[tuple[str, FunctionType], ...] = ()
    tables: tuple[tuple[str, dict | set], ...] = ()


# What is watched, and how many modules were loaded when that was listed. A subject that puts
# something else in their place is seen doing so, as of any other variable of the judge.
_inventory: tuple[Watched, ...] = ()
_loaded = 0


@contextlib.contextmanager
def untouched(subject: Path) -> Iterator[None]:
    """Load this file, or run it, in the body. Raises Wrong if it reached where it may not."""
    # Bound here, where a subject that changes this module does not reach them.
    compare, count, seen = _changes, _thread._count, []
    before, threads = _state(), count()
    try:
        with audit.listening() as seen:
            yield
    finally:
        file = display_path(subject)
        seen += [
            f"{file}: {what} was replaced: grading relies on it{HINT}" for what in compare(before)
        ]
        if count() > threads:
            seen.append(f"{file}: leaves a thread behind{HINT}")
        if seen:
            raise Wrong(seen[0]) from sys.exc_info()[1]


class _Before(NamedTuple):
    """What the names of one owner stood for, and what its functions and tables held."""

    watched: Watched
    names: dict[str, object]
    codes: list
    contents: list


def _state() -> list[_Before]:
    global _inventory, _loaded
    if len(sys.modules) != _loaded:
        _inventory, _loaded = tuple(_list_watched()), len(sys.modules)
    return [
        _Before(
            watched,
            dict(vars(watched.owner)),
            [function.__code__ for _, function in watched.functions],
            [table.copy() for _, table in watched.tables],
        )
        for watched in _inventory
    ]


def _list_watched() -> Iterator[Watched]:
    for name in RELIED_ON:
        module, _, attribute = name.partition(":")
        owner = sys.modules.get(module)
        owner = getattr(owner, attribute, None) if attribute else owner
        if owner is not None:
            yield Watched(owner)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "judge" and module is not None:
            classes = [it for it in vars(module).values() if isinstance(it, type)]
            for owner in (module, *(it for it in classes if it.__module__ == name)):
                names = vars(owner).items()
                tables = [(n, it) for n, it in names if isinstance(it, (dict, set)) and n.isupper()]
                tables += [(n, vars(it)) for n, it in names if isinstance(it, Settings)]
                functions = [(n, it) for n, it in names if isinstance(it, FunctionType)]
                yield Watched(owner, tuple(functions), tuple(tables))


def _changes(state: list[_Before]) -> list[str]:
    """Return the names of what is no longer as it was, and put it back for whoever comes next."""
    found = []
    for (owner, functions, tables), names, codes, contents in state:
        now = vars(owner)
        if len(now) != len(names) or not all(map(operator.is_, now.values(), names.values())):
            found += _changed_names(owner, names)
        for (name, function), code in zip(functions, codes, strict=True):
            if function.__code__ is not code:
                function.__code__ = code
                found.append(f"{_shown(owner)}.{name}")
        for (name, table), held in zip(tables, contents, strict=True):
            if table != held:
                table.clear()
                table.update(held)
                found.append(f"{_shown(owner)}.{name}")
    return found


def _changed_names(owner: object, before: dict[str, object]) -> list[str]:
    found = []
    now = dict(vars(owner))
    for name, value in before.items():
        if now.get(name, found) is not value and _matters(owner, name, value):
            setattr(owner, name, value)
            found.append(f"{_shown(owner)}.{name}")
    for name in now.keys() - before.keys():
        if isinstance(owner, type) and _shadows(owner, name, now[name]):
            delattr(owner, name)
            found.append(f"{_shown(owner)}.{name}")
    return found


def _shadows(owner: type, name: str, value: object) -> bool:
    """Whether this new attribute hides another that the class inherits."""
    inherited = [vars(base)[name] for base in owner.__mro__[1:] if name in vars(base)]
    return not name.startswith("__") and bool(inherited) and value is not inherited[0]


def _matters(owner: object, name: str, value: object) -> bool:
    if (_shown(owner), name) in MAY_CHANGE:
        return False
    if _shown(owner).partition(".")[0] == "judge":
        return not name.startswith("__")
    return callable(value) or isinstance(value, (property, classmethod, staticmethod))


def _shown(owner: object) -> str:
    return f"{owner.__module__}.{owner.__name__}" if isinstance(owner, type) else owner.__name__
