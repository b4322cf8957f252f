"""What a subject keeps from call to call, in its own module.

A kernel that answers from what an earlier test left must not pass or fail by the order of tests. A
module that holds anything new after a test is executed anew for the next one.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
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
# What cases have put into modules for a time: the module's names, one of them, what stands for it,
# and what does otherwise.
_lent: list[tuple[dict[str, Any], str, Any, Any]] = []


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


@contextlib.contextmanager
def lending(names: dict[str, Any], lent: dict[str, Any]) -> Iterator[None]:
    """Let names of a module stand for other values in the body; the module does not keep them."""
    count = len(_lent)
    try:
        # Name by name: what the interpreter adds to them meanwhile must stay.
        for name, value in lent.items():
            _lent.append((names, name, value, names.get(name, _lent)))
            names[name] = value
        yield
    finally:
        for _, name, _, original in reversed(_lent[count:]):
            if original is _lent:
                names.pop(name, None)
            else:
                names[name] = original
        del _lent[count:]


def _held(module: ModuleType) -> Iterator[tuple]:
    """Yield what the code of a module can find again in its next call."""
    seen: set[int] = set()
    name_of_module = vars(module).get("__name__")
    # What the interpreter puts into a kernel's module, all its own names, is not the subject's.
    interpreter = sys.modules.get("triton.runtime.interpreter")
    lent = vars(interpreter) if interpreter else {}
    names = vars(module).copy()
    for whose, name, value, original in reversed(_lent):
        if whose is vars(module) and names.get(name) is value:
            names[name] = original
    own = {
        name: value
        for name, value in names.items()
        if not _is_librarys(value) and value is not _lent and lent.get(name) is not value
    }
    yield tuple(own)
    waiting: list[Any] = [own]
    while waiting and len(seen) < MAX_OBJECTS:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        parts = _parts(thing, name_of_module)
        if parts is not None:
            yield tuple(map(id, parts))
            waiting += parts
        elif isinstance(thing, torch.Tensor):
            yield id(thing), thing._version


def _parts(thing: Any, module: Any) -> list[Any] | None:
    """Return what a container holds, or an object that this module defines; None of others."""
    if isinstance(thing, CONTAINERS):
        # Two small ints are one object, and so are two equal bytes.
        return [*thing, *thing.values()] if isinstance(thing, dict) else list(thing)
    if isinstance(thing, FunctionType) and _get(thing, "__module__") == module:
        cells = [cell.cell_contents for cell in thing.__closure__ or () if _is_set(cell)]
        return [*cells, *(thing.__defaults__ or ()), thing.__dict__, thing.__kwdefaults__]
    count = _get(thing, "cache_info")
    if callable(count) and _get(thing, "__module__") == module:
        return [count().currsize]
    if isinstance(thing, type) and _get(thing, "__module__") == module:
        return [value for name, value in vars(thing).items() if name != "__weakref__"]
    if _get(type(thing), "__module__") == module and isinstance(_get(thing, "__dict__"), dict):
        return [thing.__dict__]
    return None


def _get(thing: Any, name: str) -> Any:
    """Return an attribute, None where the subject's own code answers with an exception."""
    try:
        return getattr(thing, name, None)
    except Exception:
        return None


def _is_librarys(thing: Any) -> bool:
    name = _get(thing, "__module__") or _get(type(thing), "__module__")
    if not isinstance(name, str):
        return False
    return name.partition(".")[0] in ("triton", *settings.packages)


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
