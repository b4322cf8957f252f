"""Where the files of a puzzle are, and how to load them: by path, so that names never collide."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
PUZZLES = ROOT / "puzzles"
SOLUTIONS = ROOT / "reference" / "solutions"

# In each chapter, the folder of the tests of the second level.
PRODUCTION = "production"

_modules: dict[Path, ModuleType] = {}
# What is executed in place of a file.
_replaced: dict[Path, ast.Module] = {}


def display_path(path: Path | str) -> str:
    """Return a path as a learner would type it, relative where that is short."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("../..") else relative


def puzzle_at(test_file: Path) -> tuple[str, str]:
    """Return chapter and name of the puzzle that a test file, of either level, belongs to."""
    folder = test_file.parent
    chapter = folder.parent if folder.name == PRODUCTION else folder
    return chapter.name, test_file.stem.removeprefix("test_")


def load(path: Path, watched: AbstractContextManager | None = None) -> ModuleType:
    """Return the module at this path, executed once per process under a private name.

    watched: a context entered around the execution; if it raises, the module is not loaded
    """
    path = path.resolve()
    if path not in _modules:
        name = "kata:" + display_path(path).removesuffix(".py").replace(os.sep, ":")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            with watched or nullcontext():
                if path in _replaced:
                    exec(compile(_replaced[path], str(path), "exec"), vars(module))
                else:
                    spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        _modules[path] = module
    return _modules[path]


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
