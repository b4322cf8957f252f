"""Check that a subject leaves alone what grading relies on, when it is loaded and when it runs.

Any code in this process can change torch, Triton, the clock and the judge itself.
"""

from __future__ import annotations

import _thread
import contextlib
import operator
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from kernelgauge.core.settings import Settings, settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.subject import audit
from kernelgauge.subject.audit import REMEDY
from kernelgauge.words.fault import Call, Fault, note

# Modules and classes whose functions the judge calls or compares with, once they are imported. The
# judge's own modules and classes are watched too, with their variables.
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

# What torch itself replaces when its compiler is imported.
MAY_CHANGE = {("torch", "manual_seed")}


class Inventory(NamedTuple):
    """What is watched.

    owners: modules and classes, whose attributes must stay
    functions: those of the judge, whose code must stay
    tables: dicts and sets that are constants of the judge, and its settings, by name
    """

    owners: list[object]
    functions: list[FunctionType]
    tables: list[tuple[str, dict | set]]


class State(NamedTuple):
    """What an inventory held before a subject ran: attributes, code, and contents of tables."""

    inventory: Inventory
    attributes: list[dict[str, object]]
    codes: list[CodeType]
    contents: list[dict | set]


# The inventory, and what of the judge and its libraries was loaded when it was made. A subject that
# replaces one of them is noticed, as with any other variable of the judge.
_inventory = Inventory([], [], [])
_loaded: list[object] = []
# The names of all modules when that was seen, and those of the judge among them.
_modules: tuple[list[str], list[str]] = [], []


@contextlib.contextmanager
def untouched(subject: Path) -> Iterator[None]:
    """Raise Wrong if the body, which loads or runs this file, changes what grading relies on.

    What was changed is put back. Threads left behind and calls that `audit` reports are Wrong too.
    """
    # Bound here, where a subject that changes this module cannot replace them.
    compare, count, seen = _changes, _thread._count, []
    before, threads = _state(), count()
    try:
        with audit.listening() as seen:
            yield
    finally:
        replaced = compare(before)
        call = Call(str(subject))
        seen += [
            Fault("tampering", (note("was-replaced", name=name),), call=call, remedy=REMEDY)
            for name in replaced
        ]
        if count() > threads and not settings.debugged:
            said = note("leaves-a-thread")
            seen.append(Fault("outside-kernel", (said,), call=call, remedy=REMEDY))
        if seen:
            raise Wrong(seen[0]) from sys.exc_info()[1]


def _state() -> State:
    global _inventory, _loaded, _modules
    if [*sys.modules] != _modules[0]:
        _modules = [*sys.modules], [name for name in sys.modules if _is_ours(name)]
    loaded: list[object] = [*_modules[1]]
    loaded += [_find(*name.partition(":")[::2]) for name in RELIED_ON]
    if loaded != _loaded:
        _inventory, _loaded = _take_inventory(), loaded
    owners, functions, tables = _inventory
    return State(
        _inventory,
        [vars(owner).copy() for owner in owners],
        [function.__code__ for function in functions],
        [table.copy() for _, table in tables],
    )


def _take_inventory() -> Inventory:
    libraries = [_find(*name.partition(":")[::2]) for name in RELIED_ON]
    owners = [owner for owner in libraries if owner is not None]
    # A function that several modules import is watched once.
    functions: dict[FunctionType, None] = {}
    tables: list[tuple[str, dict | set]] = []
    for name, module in list(sys.modules.items()):
        if not _is_ours(name) or module is None:
            continue
        classes = [it for it in vars(module).values() if isinstance(it, type)]
        for owner in (module, *(it for it in classes if it.__module__ == name)):
            owners.append(owner)
            for attribute, value in vars(owner).items():
                if isinstance(value, FunctionType):
                    functions[value] = None
                elif isinstance(value, (dict, set)) and attribute.isupper():
                    tables.append((f"{_name(owner)}.{attribute}", value))
                elif isinstance(value, Settings):
                    tables.append((f"{_name(owner)}.{attribute}", vars(value)))
    return Inventory(owners, list(functions), tables)


def _is_ours(name: str) -> bool:
    """Return whether a module, by its name, belongs to what grades."""
    return name.partition(".")[0] in settings.packages


def _find(module: str, attribute: str) -> object:
    """Return a module that is loaded, or an attribute of it; else None."""
    found = sys.modules.get(module)
    return getattr(found, attribute, None) if attribute else found


def _changes(state: State) -> list[str]:
    """Return the names of what is no longer as it was, and put it back for those who come next."""
    (owners, functions, tables), attributes, codes, contents = state
    found = []
    for owner, before in zip(owners, attributes, strict=True):
        if not _is_same(vars(owner), before):
            found += _restore(owner, before)
    for function, code in zip(functions, codes, strict=True):
        if function.__code__ is not code:
            function.__code__ = code
            found.append(f"{function.__module__}.{function.__qualname__}")
    for (name, table), held in zip(tables, contents, strict=True):
        if not (_is_same(table, held) if isinstance(held, dict) else table == held):
            table.clear()
            table.update(held)
            found.append(name)
    return found


def _is_same(now: Any, before: dict) -> bool:
    """Return whether two dicts hold the same objects in the same order. == would trust __eq__."""
    return [*now] == [*before] and all(map(operator.is_, now.values(), before.values()))


def _restore(owner: object, before: dict[str, object]) -> list[str]:
    found = []
    now = dict(vars(owner))
    missing = object()
    for name, value in before.items():
        if now.get(name, missing) is not value and _matters(owner, name, value):
            setattr(owner, name, value)
            found.append(f"{_name(owner)}.{name}")
    for name in now.keys() - before.keys():
        if isinstance(owner, type) and _shadows(owner, name, now[name]):
            delattr(owner, name)
            found.append(f"{_name(owner)}.{name}")
    return found


def _shadows(owner: type, name: str, value: object) -> bool:
    """Return whether a new attribute of a class hides a different one that it inherits."""
    inherited = [vars(base)[name] for base in owner.__mro__[1:] if name in vars(base)]
    return not name.startswith("__") and bool(inherited) and value is not inherited[0]


def _matters(owner: object, name: str, value: object) -> bool:
    if (_name(owner), name) in MAY_CHANGE:
        return False
    if _is_ours(_name(owner)):
        return not name.startswith("__")
    return callable(value) or isinstance(value, (property, classmethod, staticmethod))


def _name(owner: Any) -> str:
    return f"{owner.__module__}.{owner.__name__}" if isinstance(owner, type) else owner.__name__
