"""A workspace: a folder of the learner's own, with stubs and lessons, outside of this repository.

Stubs and lessons are copies, the learner's from then on. Tests are links, so they are always those
of the judge that runs. A hidden copy of all that was laid out tells later what the learner changed,
which is never written over, and what a new version changed.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from course.desk.stubs import STUBS
from course.paths import ROOT, WORKSPACE

ORIGINAL = ".original"
SETTINGS = """[pytest]
testpaths = puzzles
addopts = --import-mode=importlib -p no:logging
"""
CONFTEST = f'''"""Grades this folder by the tests in HOME. `pytest --workspace` wrote this file."""

import os
import runpy
import sys

HOME = {str(ROOT)!r}
if not os.path.exists(os.path.join(HOME, "conftest.py")):
    sys.exit(f"Triton Kata is not in {{HOME}} any more: run pytest --workspace there again")
os.environ[{WORKSPACE!r}] = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HOME)
pytest_plugins = ["course.plugin.hooks"]
pytest_addoption = runpy.run_path(os.path.join(HOME, "conftest.py"))["pytest_addoption"]
'''


@dataclass
class Laid:
    """What laying out a workspace did.

    added: puzzles that are new there
    renewed: files that the learner had not touched, and that a new version changed
    outdated: files of the learner whose spec or lesson a new version changed
    """

    added: list[str] = field(default_factory=list)
    renewed: list[str] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)


def lay_out(folder: Path) -> Laid:
    """Write to a folder what is missing there, and bring up to date what nobody touched.

    Raises OSError, and ValueError for a folder that is not for this.
    """
    if folder.is_relative_to(ROOT):
        raise ValueError("a workspace lies outside of Triton Kata's own folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / ORIGINAL).is_dir():
        raise ValueError("the folder is not empty, and no workspace")
    laid = Laid()
    for name, new in _contents():
        file, original = folder / name, folder / ORIGINAL / name
        there, old = _read(file), _read(original)
        if there is None:
            _write(file, new)
            if old is None and _is_stub(name):
                laid.added.append(name.removeprefix("puzzles/").removesuffix(".py"))
        elif there == old != new:
            _write(file, new)
            laid.renewed.append(name)
        elif old is not None and _spec(name, old) != _spec(name, new) != _spec(name, there):
            laid.outdated.append(name)
            continue
        _write(original, new)
    _link(folder)
    return laid


def origin_of(name: str) -> Path:
    """Return the file that a copy in a workspace was made of."""
    return STUBS / name.removeprefix("puzzles/") if _is_stub(name) else ROOT / name


def _contents() -> Iterator[tuple[str, bytes]]:
    """Yield what is copied: its name in a workspace, and its content."""
    yield "pytest.ini", SETTINGS.encode()
    yield "conftest.py", CONFTEST.encode()
    for path in sorted(STUBS.rglob("*.py")):
        yield f"puzzles/{path.relative_to(STUBS)}", path.read_bytes()
    for path in sorted((ROOT / "puzzles").rglob("*")):
        if path.suffix in (".md", ".svg"):
            yield str(path.relative_to(ROOT)), path.read_bytes()


def _link(folder: Path) -> None:
    """Link the tests and what lessons refer to; take away links to tests that are no more."""
    for old in folder.glob("puzzles/**/test_*.py"):
        if old.is_symlink() and not old.exists():
            old.unlink()
    tests = (ROOT / "puzzles").rglob("test_*.py")
    for path in (*tests, ROOT / "docs", ROOT / "reference" / "H200.md"):
        link = folder / path.relative_to(ROOT)
        if link.is_symlink() and link.readlink() != path:
            link.unlink()
        if not os.path.lexists(link):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)


def _is_stub(name: str) -> bool:
    return name.startswith("puzzles/") and name.endswith(".py")


def _spec(name: str, content: bytes) -> str | bytes:
    """Return what a learner reads: the docstring of a stub, all of another file."""
    try:
        return (ast.get_docstring(ast.parse(content)) or "") if _is_stub(name) else content
    except (SyntaxError, ValueError):
        return ""


def _read(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
