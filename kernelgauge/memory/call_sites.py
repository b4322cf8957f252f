"""The line of a learner's kernel that is running: file, line, and the source of the call."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
import traceback
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Literal

from kernelgauge.core.blame import is_library
from kernelgauge.words.fault import Place

# What an access does. An atomic "updates", whether it loads, stores or both.
Verb = Literal["reads", "writes", "updates"]

# The functions of triton.language, and methods of a descriptor, that make an access of each kind.
ACCESS_CALLS: dict[Verb, tuple[str, ...]] = {
    "reads": ("load", "gather"),
    "writes": ("store", "scatter"),
    "updates": tuple(
        f"atomic_{operation}"
        for operation in ("add", "max", "min", "and", "or", "xor", "xchg", "cas")
    ),
}

MAX_CALL_WIDTH = 80

# By id, because hashing a code object is slow. Keeping the object keeps its id from being reused.
_is_user_code: dict[int, tuple[bool, CodeType]] = {}


@dataclass(frozen=True)
class CallSite:
    """A line of a kernel, or of a function that the kernel calls.

    caller: the kernel's line that led to that function; None in the kernel itself
    """

    file: str
    line: int
    function: str
    caller: CallSite | None = None

    @property
    def short(self) -> str:
        """file name:line."""
        return f"{os.path.basename(self.file)}:{self.line}"

    @property
    def line_text(self) -> str:
        """The source of the line, stripped."""
        return linecache.getline(self.file, self.line).strip()

    def call(self, *names: str) -> str:
        """Return `whole_call`, cut to MAX_CALL_WIDTH characters."""
        text = self.whole_call(*names)
        return text if len(text) <= MAX_CALL_WIDTH else text[: MAX_CALL_WIDTH - 3] + "..."

    def whole_call(self, *names: str) -> str:
        """Return the source of the call on this line of a method with one of these names.

        Any name will do if none matches; the whole line is returned if no single call fits.
        """
        calls = [node for node in _calls(self.file) if self.line in lines_of(node)]
        named = [node for node in calls if getattr(node.func, "attr", "") in names]
        calls = named or calls
        if calls:
            least = min(len(lines_of(node)) for node in calls)
            calls = [node for node in calls if len(lines_of(node)) == least]
        text = ast.get_source_segment(source_of(self.file), calls[0]) if len(calls) == 1 else None
        return " ".join((text or self.line_text).split())

    def place_of(self, *names: str) -> Place:
        """Return the place with the call, as in `call`, and the kernel's line that led here."""
        return Place(
            self.file,
            self.line,
            source=self.call(*names),
            callers=(self.caller.place,) if self.caller else (),
        )

    @property
    def place(self) -> Place:
        """The place with the whole line."""
        return Place(self.file, self.line, source=self.line_text)

    def has(self, text: str) -> bool:
        """Return whether this text occurs anywhere in the file."""
        return text in source_of(self.file)


class CallSites:
    """The call sites of one run, numbered in the order in which they were first seen."""

    def __init__(self) -> None:
        self._sites: list[CallSite] = []
        self._numbers: dict[tuple | None, int] = {}

    def __getitem__(self, number: int) -> CallSite:
        return self._sites[number]

    def current(self, kernel: CodeType) -> int:
        """Return the number of the innermost line of the learner's code that is running."""
        frame = outer = user_frame(kernel)
        while outer is not None and outer.f_code is not kernel:
            outer = outer.f_back
        caller = None if outer is frame else outer
        key = frame and (id(frame.f_code), frame.f_lasti, caller and caller.f_lasti)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._sites)
            self._sites.append(_site(frame, _site(caller)) or CallSite("", 0, ""))
        return number


def _site(frame: FrameType | None, caller: CallSite | None = None) -> CallSite | None:
    if frame is None:
        return None
    return CallSite(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, caller)


def user_frame(kernel: CodeType | None) -> FrameType | None:
    """Return the innermost running frame of the kernel or of other code of its author."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        # This runs at each access, some ten frames deep.
        known = _is_user_code.get(id(code))
        if code is kernel or (known[0] if known else is_user_code(code)):
            break
        frame = frame.f_back
    return frame


def is_user_code(code: CodeType) -> bool:
    """Return whether this is a function of a kernel's author, not of a library or the judge.

    A lambda or a comprehension counts as part of the function around it.
    """
    known = _is_user_code.get(id(code))
    if known is None:
        file = os.path.abspath(code.co_filename)
        named = not (code.co_filename.startswith("<") or code.co_name.startswith("<"))
        known = _is_user_code[id(code)] = (named and not is_library(file), code)
    return known[0]


def raised_at(trace: TracebackType | None) -> CallSite | None:
    """Return the innermost line of the learner's code that an exception passed through."""
    site = None
    for frame, line in traceback.walk_tb(trace):
        if is_user_code(frame.f_code):
            site = CallSite(frame.f_code.co_filename, line, frame.f_code.co_name)
    return site


def source_of(file: str) -> str:
    """Return the text of a file, "" if there is none."""
    return "".join(linecache.getlines(file))


def lines_of(node: ast.expr | ast.stmt) -> range:
    """Return the numbers of the lines of a part of a file."""
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _calls(file: str) -> tuple[ast.Call, ...]:
    return _method_calls(source_of(file))


@functools.lru_cache(maxsize=64)
def _method_calls(source: str) -> tuple[ast.Call, ...]:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ()
    return tuple(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )
