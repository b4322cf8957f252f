"""Load files by path, so that names never collide, and say where they are."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType

from kernelgauge.words import display_path

_modules: dict[Path, ModuleType] = {}
# What is executed in place of a file.
_replaced: dict[Path, ast.Module] = {}


def load(path: Path, watched: AbstractContextManager | None = None) -> ModuleType:
    """Return the module at this path, executed once per process under a private name.

    watched: a context entered around the execution; if it raises, the module is not loaded
    """
    path = path.resolve()
    if path not in _modules:
        name = "kata:" + display_path(path).removesuffix(".py").replace(os.sep, ":")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            with watched or nullcontext():
                # Python's own cache does not see an edit of the same length within a second.
                source = _replaced.get(path) or path.read_bytes()
                exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
        except BaseException:
            sys.modules.pop(name, None)
            raise
        _modules[path] = module
    return _modules[path]


def forget(path: Path) -> None:
    """Let the next `load` execute a module anew."""
    _modules.pop(path.resolve(), None)


def discard(path: Path) -> None:
    """Keep nothing of a module that is not needed any more."""
    if module := _modules.pop(path.resolve(), None):
        sys.modules.pop(module.__name__, None)


@contextmanager
def replaced(path: Path, tree: ast.Module) -> Iterator[None]:
    """Let `load` execute this syntax tree in place of a file, in the body.

    Its functions are those of the file to whoever asks for their source.
    """
    path = path.resolve()
    before = _modules.pop(path, None)
    _replaced[path] = tree
    try:
        yield
    finally:
        del _replaced[path]
        _modules.pop(path, None)
        if before is not None:
            _modules[path] = before
