"""What the compiler rejects, in its own words at the learner's line, and what to do about it."""

from __future__ import annotations

import ast
import linecache
import os
import re
from pathlib import Path
from types import CodeType

import triton
from triton.compiler.errors import CompilationError

from judge.compilation.advice import advice
from judge.compilation.worker import describe
from judge.core.blame import graded_frame
from judge.core.paths import display_path

LIBRARY = os.path.dirname(os.path.abspath(triton.__file__)) + os.sep

# A diagnostic of MLIR. Its column is off by the indentation in Triton before 3.8.
DIAGNOSTIC = re.compile(r"^(/[^\n:]+):(\d+):\d+: error: (?!Failures have been)(.+)$", re.MULTILINE)
CAUGHT = re.compile(r"^.*?([\w.]+:\d+): .*?(Assertion `.*' failed)", re.MULTILINE)
FAILED_PASS = re.compile(r"Pipeline failed while executing \[`(\w+)`")


def rejection(error: dict, printed: str, kernel: tuple[str, int], launched: str) -> tuple[str, str]:
    """Where the compiler rejected a kernel, and the message below.

    error: what worker.describe gave
    printed: what the compiler wrote to its output
    kernel: the file and line of its definition
    launched: what the launch chose, a line for the message
    """
    message, frames = error["message"], error["frames"]
    if not frames and (diagnostic := _diagnostic(printed)):
        message, frames = diagnostic[0], [diagnostic[1]]
    elif not frames:
        frames = _searched(message, *kernel)
    message = _plain(message) or error["kind"]
    if message == "PassManager::run failed" and (part := crash(printed)):
        message += f" in {part}"
    own = [frame for frame in frames if not frame[0].startswith(LIBRARY)] or [(*kernel, None)]
    file, line, column = own[-1][:3]
    place = f"{display_path(file)}:{line}" + (f":{column + 1}" if column is not None else "")
    body = [*_excerpt(file, line, column), message]
    body += [f"called from {display_path(frame[0])}:{frame[1]}" for frame in own[-2::-1]]
    body += [launched] if launched else []
    if sentence := advice(message):
        body.append(f"hint: {sentence}")
    return place, "\n".join(body)


def explained(error: CompilationError, path: Path) -> str:
    """What a launch on a GPU raised, in the words of the compile check."""
    launched = f"launched at {graded_frame(error.__traceback__, path)}"
    place, body = rejection(describe(error, str(path)), "", (str(path), 1), launched)
    return f"{place}  does not compile\n{body}"


def definition(code: CodeType) -> tuple[str, int]:
    """File and line of a kernel's `def`, which its decorators precede."""
    file, line = os.path.abspath(code.co_filename), code.co_firstlineno
    while linecache.getline(file, line).lstrip().startswith(("@", "#")):
        line += 1
    return file, line


def crash(printed: str) -> str:
    """Which part of the compiler failed an assertion of its own, if that is what it printed."""
    assertion, failed = CAUGHT.search(printed), FAILED_PASS.search(printed)
    part = f"{failed[1]}, " if failed else ""
    if assertion:
        return f"{part}{assertion[1]}: {assertion[2]}"
    fatal = re.search(
        r"^.*(?:LLVM ERROR|[Ff]atal error|terminate called).*$", printed, re.MULTILINE
    )
    return fatal[0].strip() if fatal else part.rstrip(", ")


def _diagnostic(printed: str) -> tuple[str, tuple] | None:
    """What MLIR printed, and where: in the learner's code rather than in Triton's library."""
    found = DIAGNOSTIC.search(printed)
    if not found:
        return None
    file, line = found[1], int(found[2])
    if file.startswith(LIBRARY):
        calls = re.findall(r"^(/[^\n:]+):(\d+):\d+: note: called from", printed, re.MULTILINE)
        file, line = next(
            ((path, int(number)) for path, number in calls if not path.startswith(LIBRARY)),
            (file, line),
        )
    return found[3], (file, line, None)


def _searched(message: str, file: str, first: int) -> list[tuple]:
    """The place that an error without one speaks of: where a name stands, or `a = b = c`."""
    named = re.search(r"(?:<function |method )(\w+)|no attribute '(\w+)'", message)
    wanted = (named[1] or named[2]) if named else None
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return []
    found = []
    for node in ast.walk(tree):
        double = isinstance(node, ast.Assign) and len(node.targets) > 1
        if double and "multiple assignment" in message:
            found.append(node)
        if wanted and wanted in (getattr(node, "id", None), getattr(node, "attr", None)):
            found.append(node)
    found = [node for node in found if node.lineno >= first] or found
    if not found:
        return []
    node = min(found, key=lambda node: (node.lineno, node.col_offset))
    return [(file, node.lineno, node.col_offset, "")]


def _excerpt(file: str, line: int, column: int | None) -> list[str]:
    text = linecache.getline(file, line).rstrip()
    indentation = len(text) - len(text.lstrip())
    if not text.strip():
        return []
    excerpt = ["    " + text.strip()]
    if column is not None and column >= indentation:
        excerpt.append("    " + " " * (column - indentation) + "^")
    return excerpt


def _plain(message: str) -> str:
    """Without the noise of C++ and of Python's reprs."""
    message = re.sub(
        r"<\[([^\]]*)\], (\w+)>", lambda m: f"{m[2]}[{m[1]}]".replace("'", ""), message
    )
    message = re.sub(r"<(?:class|function) '?([\w.]+)[^>]*>", r"\1", message)
    message = re.sub(r"<built-in \w+ (\w+)[^>]*>", r"\1", message)
    message = re.sub(r"^kata:\S+?\.(\w+?)__\S*$", r"\1 is called before it is compiled", message)
    message = re.sub(r"<triton\.language\.core\.(\w+) object at \w+>", r"\1", message)
    message = re.sub(r"\s*Repro command:.*", "", message, flags=re.DOTALL)
    if "Cannot access global variable" in message:
        message = message.split(". Triton kernels")[0]
    lines = [line for line in message.splitlines() if line.strip()]
    return "\n".join(lines[:12])
