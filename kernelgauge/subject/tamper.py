"""Check that a subject leaves alone what grading relies on, when it is loaded and when it runs.

Any code in this process can change torch, Triton, the clock and the judge itself.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import functools
import gc
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
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


# Where a dict keeps a number that each change makes new, in the CPythons that have one (PEP 509).
VERSION_AT = 24


class Watched(NamedTuple):
    """A dict that must stay as it is.

    owner: the module or class whose attributes it holds, or the name of a constant of the judge
    """

    owner: object
    names: dict


class Held(NamedTuple):
    """What a dict holds, where a subject cannot change it."""

    names: tuple
    values: tuple


class Inventory(NamedTuple):
    """What is watched.

    ours, found: the modules of the judge, by name, and what of its libraries was loaded
    version: of sys.modules then, None where nothing counts its changes
    dicts: attributes of modules and classes, constants of the judge, and its settings
    counters: what counts the changes of each of them; none where nothing does
    functions: those of the judge, and the code that each must keep
    sets: constants of the judge, by name
    """

    ours: tuple[str, ...]
    found: tuple[object, ...]
    version: int | None
    dicts: tuple[Watched, ...]
    counters: tuple[ctypes.c_uint64, ...]
    functions: tuple[tuple[FunctionType, CodeType], ...]
    sets: tuple[tuple[str, set], ...]


class State(NamedTuple):
    """What an inventory held before a subject ran, and how often each dict had changed."""

    inventory: Inventory
    versions: list[int]
    dicts: tuple[Held, ...]
    sets: tuple[frozenset, ...]


# What was held before the last subject ran.
_last = State(Inventory((), (), None, (), (), (), ()), [], (), ())


@contextlib.contextmanager
def untouched(subject: Path) -> Iterator[None]:
    """Raise Wrong if the body, which loads or runs this file, changes what grading relies on.

    What was changed is put back. Threads left behind and calls that `audit` reports are Wrong too.
    """
    global _last
    # Bound here, where a subject that changes this module cannot replace them.
    compare, count, seen, is_within_another = _changes, _thread._count, [], audit.is_listening()
    before, threads = _state(), count()
    try:
        with audit.listening() as seen:
            yield
    finally:
        replaced = compare(before, bool(seen))
        if not is_within_another:
            _last = before
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
    inventory, versions, dicts, _ = _last
    version = _counter(sys.modules).value if _dicts_count() else None
    if version is None or version != inventory.version:
        ours = tuple(filter(_is_ours, sys.modules))
    else:
        ours = inventory.ours
    found = tuple(_find(*name.partition(":")[::2]) for name in RELIED_ON)
    if (ours, found) != (inventory.ours, inventory.found):
        inventory = Inventory(ours, found, version, *_take_inventory())
        versions, dicts = _versions(inventory), tuple(map(_held, inventory.dicts))
    elif changed := _changed(inventory, versions):
        # Copying them all would take longer than most kernels.
        versions, now = _versions(inventory), list(dicts)
        for at in changed:
            now[at] = _held(inventory.dicts[at])
        dicts = tuple(now)
    sets = tuple(frozenset(it) for _, it in inventory.sets)
    return State(inventory._replace(version=version), versions, dicts, sets)


def _held(watched: Watched) -> Held:
    now = watched.names.copy()
    return Held(tuple(now), tuple(now.values()))


def _versions(inventory: Inventory) -> list[int]:
    return [counter.value for counter in inventory.counters]


def _changed(inventory: Inventory, before: list[int]) -> Sequence[int]:
    """Return the places of the dicts that somebody may have touched since."""
    if not inventory.counters:
        return range(len(inventory.dicts))
    now = _versions(inventory)
    if now == before:
        return ()
    return [at for at, (one, other) in enumerate(zip(now, before, strict=True)) if one != other]


def _take_inventory() -> tuple[tuple, tuple, tuple, tuple]:
    """Return the dicts to watch with their counters, and the functions and sets."""
    libraries = [_find(*name.partition(":")[::2]) for name in RELIED_ON]
    dicts = [_watched(owner, vars(owner)) for owner in libraries if owner is not None]
    # A function that several modules import is watched once.
    functions: dict[FunctionType, CodeType] = {}
    sets: list[tuple[str, set]] = []
    for name, module in list(sys.modules.items()):
        if not _is_ours(name) or module is None:
            continue
        classes = [it for it in vars(module).values() if isinstance(it, type)]
        for owner in (module, *(it for it in classes if it.__module__ == name)):
            dicts.append(_watched(owner, vars(owner)))
            for attribute, value in vars(owner).items():
                if isinstance(value, FunctionType):
                    functions[value] = value.__code__
                elif isinstance(value, dict) and attribute.isupper():
                    dicts.append(_watched(f"{_name(owner)}.{attribute}", value))
                elif isinstance(value, set) and attribute.isupper():
                    sets.append((f"{_name(owner)}.{attribute}", value))
                elif isinstance(value, Settings):
                    dicts.append(_watched(f"{_name(owner)}.{attribute}", vars(value)))
    counters = tuple(_counter(it.names) for it in dicts) if _dicts_count() else ()
    return tuple(dicts), counters, tuple(functions.items()), tuple(sets)


def _watched(owner: object, names: Any) -> Watched:
    # Behind the proxy of a class is a dict.
    return Watched(owner, names if isinstance(names, dict) else gc.get_referents(names)[0])


def _counter(names: dict) -> ctypes.c_uint64:
    return ctypes.c_uint64.from_address(id(names) + VERSION_AT)


@functools.cache
def _dicts_count() -> bool:
    """Return whether a dict counts its changes where `_counter` looks."""
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 13):
        return False
    owner = Settings()
    names = vars(owner)
    changes: list[Callable[[], object]] = [
        lambda: names.update(new=1),
        lambda: names.update(new=2),
        lambda: names.pop("new"),
        lambda: setattr(owner, "new", 3),
    ]
    version, seen = _counter(names), set()
    for change in changes:
        seen.add(version.value)
        change()
    return len(seen | {version.value}) == len(changes) + 1


def _is_ours(name: str) -> bool:
    """Return whether a module, by its name, belongs to what grades."""
    return name.partition(".")[0] in settings.packages


def _find(module: str, attribute: str) -> object:
    """Return a module that is loaded, or an attribute of it; else None."""
    found = sys.modules.get(module)
    return getattr(found, attribute, None) if attribute else found


def _changes(state: State, is_suspected: bool) -> list[str]:
    """Return the names of what is no longer as it was, and put it back for those who come next.

    is_suspected: whether something else was found already
    """
    inventory, versions, dicts, sets = state
    found = []
    for at in _changed(inventory, versions):
        watched, before = inventory.dicts[at], dicts[at]
        if _is_same(watched.names, before):
            continue
        held = dict(zip(before.names, before.values, strict=True))
        if not isinstance(watched.owner, str):
            found += _restore(watched.owner, held)
        else:
            watched.names.clear()
            watched.names.update(held)
            found.append(watched.owner)
    # `audit` lets nobody replace code, unless it was replaced itself.
    for function, code in inventory.functions if is_suspected else ():
        if function.__code__ is not code:
            function.__code__ = code
            found.append(f"{function.__module__}.{function.__qualname__}")
    for (name, members), kept in zip(inventory.sets, sets, strict=True):
        if members != kept:
            members.clear()
            members.update(kept)
            found.append(name)
    return found


def _is_same(names: dict, held: Held) -> bool:
    """Return whether a dict holds these objects in this order. == would trust __eq__."""
    return tuple(names) == held.names and all(map(operator.is_, names.values(), held.values))


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
