"""What a subject keeps from call to call, in its own module.

A kernel that answers from what an earlier test left must not pass or fail by the order of tests. A
module that holds anything new after a test is executed anew for the next one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch

from kernelgauge.core import paths
from kernelgauge.core.settings import settings

MAX_OBJECTS = 10_000
CONTAINERS = (dict, list, set, bytearray)

# What modules held when they had just been loaded, and those that were asked for since `begin`.
_as_loaded: dict[Path, tuple[ModuleType, list]] = {}
_used: set[Path] = set()


def begin() -> None:
    """Begin a test: let modules that the last one changed be executed anew."""
    for path in _used:
        if keeps(path):
            paths.forget(path)
            del _as_loaded[path]
    _used.clear()


def keeps(path: Path) -> bool:
    """Return whether a module holds anything that it did not hold when it was loaded."""
    module, held = _as_loaded.get(path.resolve(), (None, None))
    return module is not None and list(_held(module)) != held


def use(path: Path, module: ModuleType) -> None:
    """Take notice that a test uses a module."""
    path = path.resolve()
    if _as_loaded.get(path, (None,))[0] is not module:
        _as_loaded[path] = module, list(_held(module))
    _used.add(path)


def _held(module: ModuleType) -> Iterator[tuple]:
    """Yield what the code of a module can find again in its next call."""
    seen: set[int] = set()
    # What the interpreter puts into a kernel's module, all its own names, is not the subject's.
    interpreter = sys.modules.get("triton.runtime.interpreter")
    lent = vars(interpreter) if interpreter else {}
    own = {
        name: value
        for name, value in vars(module).items()
        if not _is_librarys(value) and lent.get(name) is not value
    }
    yield tuple(own)
    waiting: list[Any] = [own]
    while waiting and len(seen) < MAX_OBJECTS:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        parts = _parts(thing, module.__name__)
        if parts is not None:
            yield tuple(map(id, parts))
            waiting += parts
        elif isinstance(thing, torch.Tensor):
            yield id(thing), thing._version


def _parts(thing: Any, module: str) -> list[Any] | None:
    """Return what a container holds, or an object that this module defines; None of others."""
    if isinstance(thing, CONTAINERS):
        # Two small ints are one object, and so are two equal bytes.
        return [*thing, *thing.values()] if isinstance(thing, dict) else list(thing)
    if isinstance(thing, FunctionType) and thing.__module__ == module:
        cells = [cell.cell_contents for cell in thing.__closure__ or () if _is_set(cell)]
        return [*cells, *(thing.__defaults__ or ()), thing.__dict__, thing.__kwdefaults__]
    count: Callable | None = getattr(thing, "cache_info", None)
    if callable(count) and getattr(thing, "__module__", None) == module:
        return [count().currsize]
    if isinstance(thing, type) and thing.__module__ == module:
        return [value for name, value in vars(thing).items() if name != "__weakref__"]
    if type(thing).__module__ == module and hasattr(thing, "__dict__"):
        return [thing.__dict__]
    return None


def _is_librarys(thing: Any) -> bool:
    name = getattr(thing, "__module__", None) or type(thing).__module__
    return str(name).partition(".")[0] in ("triton", *settings.packages)


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
