"""Where in a learner's kernel something happens: file, line, and the call as it stands there."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
import traceback
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType

import numpy as np
import torch
import triton

import judge
from judge.core.paths import display_path

LIBRARIES = tuple(
    os.path.dirname(os.path.abspath(file)) + os.sep
    for file in (judge.__file__, os.__file__, triton.__file__, np.__file__, torch.__file__)
)

MAX_CALL_WIDTH = 80

# By id, for the hash of a code object is slow; the object is kept, so that its id stays its own.
_is_user_code: dict[int, tuple[bool, CodeType]] = {}


@dataclass(frozen=True)
class CallSite:
    """A line of a kernel, or of a function that the kernel calls.

    caller: the line of the kernel from which that function was reached, None in the kernel itself
    """

    file: str
    line: int
    function: str
    caller: CallSite | None = None

    @property
    def place(self) -> str:
        """path:line, the path relative to the current directory if the file lies under it."""
        return f"{display_path(self.file)}:{self.line}"

    @property
    def short(self) -> str:
        """file name:line."""
        return f"{os.path.basename(self.file)}:{self.line}"

    def call(self, *names: str) -> str:
        """The source of the call of one of these names on this line, else the whole line."""
        text = self.whole_call(*names)
        return text if len(text) <= MAX_CALL_WIDTH else text[: MAX_CALL_WIDTH - 3] + "..."

    def whole_call(self, *names: str) -> str:
        """The same, however long."""
        calls = [node for node in _calls(self.file) if node.lineno <= self.line <= node.end_lineno]
        calls = [node for node in calls if not names or node.func.attr in names] or calls
        if calls:
            least = min(node.end_lineno - node.lineno for node in calls)
            calls = [node for node in calls if node.end_lineno - node.lineno == least]
        if len(calls) == 1:
            text = ast.get_source_segment(_source(self.file), calls[0])
        else:
            text = linecache.getline(self.file, self.line)
        return " ".join(text.split())

    def describe(self, *names: str) -> str:
        """Place and call, and the kernel's line that led here."""
        text = f"{self.place}  {self.call(*names)}"
        if self.caller:
            text += (
                f"\n  in {self.function}, called from {self.caller.place}  {self.caller.line_text}"
            )
        return text

    def has(self, text: str) -> bool:
        """Whether this text stands anywhere in the file."""
        return text in _source(self.file)

    @property
    def line_text(self) -> str:
        return linecache.getline(self.file, self.line).strip()


class CallSites:
    """Numbers for the lines that access memory, found by walking up from the running frame."""

    def __init__(self):
        self.found: list[CallSite] = []
        self._numbers: dict[tuple, int] = {}

    def __getitem__(self, number: int) -> CallSite:
        return self.found[number]

    def here(self, kernel: CodeType) -> int:
        """The number of the innermost line of the learner's own code that is running now."""
        frame = sys._getframe(2)
        while frame.f_code is not kernel and not is_user_code(frame.f_code):
            frame = frame.f_back
            if frame is None:
                return self._number((), None, None)
        outer = frame
        while outer is not None and outer.f_code is not kernel:
            outer = outer.f_back
        if outer is None or outer is frame:
            return self._number((id(frame.f_code), frame.f_lasti), frame, None)
        return self._number((id(frame.f_code), frame.f_lasti, outer.f_lasti), frame, outer)

    def _number(self, key: tuple, frame: FrameType | None, outer: FrameType | None) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.found)
            self.found.append(_site(frame, _site(outer, None)) or CallSite("", 0, ""))
        return number


def _site(frame: FrameType | None, caller: CallSite | None) -> CallSite | None:
    if frame is None:
        return None
    return CallSite(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, caller)


def is_user_code(code: CodeType) -> bool:
    """Whether this is a function of a kernel's author: no library's, no judge's.

    A lambda or a comprehension counts as part of the function that it stands in.
    """
    known = _is_user_code.get(id(code))
    if known is None:
        file = os.path.abspath(code.co_filename)
        named = not (code.co_filename.startswith("<") or code.co_name.startswith("<"))
        theirs = named and not file.startswith(LIBRARIES)
        known = _is_user_code[id(code)] = (theirs, code)
    return known[0]


def raised_at(trace: TracebackType | None) -> CallSite | None:
    """The innermost line of the learner's code that an exception went through."""
    site = None
    for frame, line in traceback.walk_tb(trace):
        if is_user_code(frame.f_code):
            site = CallSite(frame.f_code.co_filename, line, frame.f_code.co_name)
    return site


def _source(file: str) -> str:
    return "".join(linecache.getlines(file))


@functools.lru_cache(maxsize=64)
def _parsed(source: str) -> tuple[ast.Call, ...]:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ()
    nodes = ast.walk(tree)
    return tuple(
        node
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )


def _calls(file: str) -> tuple[ast.Call, ...]:
    return _parsed(_source(file))
