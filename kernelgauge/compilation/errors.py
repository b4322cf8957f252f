"""What the compiler rejects: in its own words, at the learner's line, with what to do."""

from __future__ import annotations

import ast
import linecache
import os
import re
import traceback
from dataclasses import replace
from pathlib import Path
from types import CodeType

import triton
from triton.compiler.errors import CompilationError

from kernelgauge.compilation import evidence
from kernelgauge.compilation.advice import advice
from kernelgauge.compilation.worker import describe
from kernelgauge.core.blame import is_graded_file
from kernelgauge.words.fault import Fault, Note, Place, note

LIBRARY = os.path.dirname(os.path.abspath(triton.__file__)) + os.sep

# A diagnostic of MLIR. Before Triton 3.8 its column does not count the indentation.
DIAGNOSTIC = re.compile(r"^(/[^\n:]+):(\d+):\d+: error: (?!Failures have been)(.+)$", re.MULTILINE)
CALL = re.compile(r"^(/[^\n:]+):(\d+):\d+: note: called from", re.MULTILINE)
ASSERTION = re.compile(r"^.*?([\w.]+:\d+): .*?(Assertion `.*' failed)", re.MULTILINE)
FATAL = re.compile(r"^.*(?:LLVM ERROR|[Ff]atal error|terminate called).*$", re.MULTILINE)
# All that Triton says of a function that calls itself: the name by which it would be linked.
RECURSION = re.compile(r"^\S+?\.(\w+?)__\S*$")
FAILED_PASS = re.compile(r"Pipeline failed while executing \[`(\w+)`")


def rejection(
    error: dict, printed: str, kernel: tuple[str, int], head: Note, *launched: Note
) -> Fault:
    """Return why the compiler rejected a kernel, at the place where it did.

    error: what worker.describe returned
    printed: what the compiler wrote to its output
    kernel: file and line of the kernel's definition
    head: what happened
    launched: how the kernel was launched
    """
    message, frames = error["message"], error["frames"]
    if not frames and (diagnostic := _diagnostic(printed)):
        message, frames = diagnostic
    elif not frames:
        frames = _search(message, printed, *kernel)
    message, part = _plain(message) or error["kind"], ""
    if message == "PassManager::run failed":
        part = crash(printed)
    own = [frame for frame in frames if not frame[0].startswith(LIBRARY)] or [(*kernel, None)]
    file, line, column = own[-1][:3]
    callers = tuple(_caller(frame[0], frame[1]) for frame in own[-2::-1])
    place = Place(file, line, 0 if column is None else column + 1, callers=callers)
    said = (head, *_rejected_line(file, line, column), _what(message, part), *launched)
    variables = error.get("variables") or evidence.Variables()
    shown = evidence.remedy(message, file, line, variables, printed)
    return Fault("not-compiled", said, place, remedy=shown or advice(f"{message} {part}".rstrip()))


def explain(error: CompilationError, path: Path) -> Fault:
    """Return why a launch on a GPU raised, like the compile check.

    path: the learner's file
    """
    head = note("launch-does-not-compile")
    fault = rejection(describe(error, str(path)), "", (str(path), 1), head)
    launches = [
        Place(frame.filename, frame.lineno or 0, source=frame.line or "")
        for frame in traceback.extract_tb(error.__traceback__)
        if is_graded_file(frame.filename) or Path(frame.filename) == path.resolve()
    ]
    assert fault.place
    callers = (*fault.place.callers, *launches[-1:])
    return fault.but(place=replace(fault.place, callers=callers))


def remedy(error: BaseException | None, place: Place | None) -> Note | None:
    """Return what to do about an error in the interpreter that the compiler would raise too."""
    if error is None or place is None:
        return None
    message = _message(error)
    variables = evidence.variables_at(error.__traceback__)
    return evidence.remedy(message, place.file, place.line, variables) or advice(message)


def _message(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    bare = isinstance(error, AssertionError) and not str(error) and frames
    return frames[-1].line or "" if bare else str(error)


def definition(code: CodeType) -> tuple[str, int]:
    """Return file and line of a kernel's `def`, below its decorators."""
    file, line = os.path.abspath(code.co_filename), code.co_firstlineno
    while linecache.getline(file, line).lstrip().startswith(("@", "#")):
        line += 1
    return file, line


def crash(printed: str) -> str:
    """Return which part of the compiler failed, from what it printed; "" if that does not say."""
    failed = FAILED_PASS.search(printed)
    part = f"{failed[1]}, " if failed else ""
    if assertion := ASSERTION.search(printed):
        return f"{part}{assertion[1]}: {assertion[2]}"
    fatal = FATAL.search(printed)
    return fatal[0].strip() if fatal else part.rstrip(", ")


def _diagnostic(printed: str) -> tuple[str, list[tuple]] | None:
    """Return the error that MLIR printed and its frame, at the call if it is in the library."""
    found = DIAGNOSTIC.search(printed)
    if not found:
        return None
    places = [found.groups()[:2], *CALL.findall(printed)]
    own = (place for place in places if not place[0].startswith(LIBRARY))
    file, line = next(own, places[0])
    return found[3], [(file, int(line), None)]


def _search(message: str, printed: str, file: str, first: int) -> list[tuple]:
    """Find the place of an error that has none: the name that it mentions, or `a = b = c`.

    first: the line from which to search, in preference to earlier lines
    """
    named = re.search(r"(?:<function |method )(\w+)|no attribute '(\w+)'", message)
    wanted = (named[1] or named[2]) if named else None
    if evidence.HISTOGRAM_OF_OTHERS.search(printed):
        wanted = "histogram"
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return []
    found = []
    for node in (it for it in ast.walk(tree) if isinstance(it, (ast.stmt, ast.expr))):
        chained = isinstance(node, ast.Assign) and len(node.targets) > 1
        names = (getattr(node, "id", None), getattr(node, "attr", None))
        if (chained and "multiple assignment" in message) or (wanted and wanted in names):
            found.append((node.lineno, node.col_offset))
    found = [place for place in found if place[0] >= first] or found
    return [(file, *min(found), "")] if found else []


def _caller(file: str, line: int) -> Place:
    return Place(file, line, source=linecache.getline(file, line).strip())


def _rejected_line(file: str, line: int, column: int | None) -> list[Note]:
    text = linecache.getline(file, line).rstrip()
    indentation = len(text) - len(text.lstrip())
    if not text.strip():
        return []
    # Before the indentation there is nothing to point at.
    mark = None if column is None or column < indentation else column - indentation
    return [note("rejected-line", line=text.strip(), column=mark)]


def _what(message: str, part: str) -> Note:
    """Return what the compiler said. part: of the compiler, if one is known to have failed"""
    if recursive := RECURSION.match(message):
        return note("called-before-compiled", function=recursive[1])
    if part:
        return note("pass-failed", text=message, part=part)
    return note("compiler-said", text=message)


def _plain(message: str) -> str:
    """Remove the noise of C++ and of Python's reprs from a message."""
    message = re.sub(
        r"<\[([^\]]*)\], (\w+)>", lambda m: f"{m[2]}[{m[1]}]".replace("'", ""), message
    )
    message = re.sub(r"<(?:class|function) '?([\w.]+)[^>]*>", r"\1", message)
    message = re.sub(r"<built-in \w+ (\w+)[^>]*>", r"\1", message)
    message = re.sub(r"<triton\.language\.core\.(\w+) object at \w+>", r"\1", message)
    message = re.sub(r"\s*Repro command:.*", "", message, flags=re.DOTALL)
    if "Cannot access global variable" in message:
        message = message.split(". Triton kernels")[0]
    lines = [line for line in message.splitlines() if line.strip()]
    return "\n".join(lines[:12])
