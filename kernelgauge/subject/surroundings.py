"""A subject that asks whether it is interpreted or graded, and may do something else then.

This reads the source, so that a name which is put together at run time escapes it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from kernelgauge.core.verdict import Wrong
from kernelgauge.subject.audit import REMEDY
from kernelgauge.words.fault import Fault, Place, note

# Variables of the environment, and modules in sys.modules, that tell where a kernel runs.
TELLTALES = {
    "TRITON_INTERPRET", "PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_WORKER", "pytest",
    "_pytest", "kernelgauge", "triton.runtime.interpreter",
}  # fmt: skip

# The beginnings of names in sys.modules that are the grader's own: what it loads by its path, such
# as the references, and its packages.
GRADERS = ("kata:", "course.", "kernelgauge.")

# Names that only code of the interpreter has, and the ends of what tells that it is on.
TELLING_NAMES = {"InterpretedFunction", "GridExecutor", "InterpreterBuilder", "interpreter_builder"}
SETTING = "runtime.interpret"


def check(path: Path) -> None:
    """Raise Wrong where a file asks what it runs in; what stands under __main__ is not graded."""
    source = path.read_bytes()
    if not any(name.encode() in source for name in (*TELLTALES, *GRADERS, *TELLING_NAMES, SETTING)):
        return
    for node in _graded(ast.parse(source)):
        if asked := _asked(node):
            line, column = node.lineno, node.col_offset + 1  # type: ignore[attr-defined]
            place = Place(str(path), line, column, source=ast.unparse(node))
            said, remedy = note("asks-where-it-runs", asked=asked), note("same-everywhere")
            if asked.startswith(GRADERS):
                said, remedy = note("takes-the-graders", asked=asked), REMEDY
            raise Wrong(Fault("tampering", (said,), place, remedy=remedy))


def _graded(tree: ast.AST) -> Iterator[ast.AST]:
    yield tree
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)):
            yield from _graded(node)


def _asked(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute) and ast.unparse(node).endswith(SETTING):
        return SETTING
    if isinstance(node, (ast.Name, ast.Attribute)):
        name = node.id if isinstance(node, ast.Name) else node.attr
        return name if name in TELLING_NAMES else ""
    if isinstance(node, (ast.Subscript, ast.Compare, ast.Call)):
        source = ast.unparse(node)
        if "environ" in source or "getenv" in source or "modules" in source:
            parts = ast.walk(node)
            found = (it.value for it in parts if isinstance(it, ast.Constant))
            names = (it for it in found if isinstance(it, str))
            return next((it for it in names if it in TELLTALES or it.startswith(GRADERS)), "")
    return ""
