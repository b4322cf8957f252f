"""What a launcher is called and where it was written, whichever kind of callable it is."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def underlying(launcher: Callable) -> Any:
    """Return the function that a launcher comes down to, below decorators and functools.partial."""
    while True:
        unwrapped = inspect.unwrap(launcher)
        if isinstance(unwrapped, functools.partial):
            launcher = unwrapped.func
        elif hasattr(unwrapped, "__code__") or not hasattr(type(unwrapped).__call__, "__code__"):
            return unwrapped
        else:
            return type(unwrapped).__call__


def launcher_name(launcher: Callable) -> str:
    """Return what a launcher is called: an object that can be called has the name of its class."""
    launcher = getattr(launcher, "func", launcher)
    return getattr(launcher, "__name__", None) or type(launcher).__name__


def launcher_globals(launcher: Callable) -> dict[str, Any]:
    """Return the global names of the module that a launcher was written in; none of a built-in."""
    return getattr(underlying(launcher), "__globals__", {})
