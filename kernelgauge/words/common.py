"""What more than one room says."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence

from kernelgauge.words.fault import Place

WORDS: Mapping[str, str | Callable[..., str]] = {
    "text": "{text}",
}


def show_place(place: Place) -> str:
    """Return a place as editors and terminals link it, and what stands there."""
    where = display_path(place.file)
    where += f":{place.line}" if place.line else ""
    where += f":{place.column}" if place.column else ""
    return f"{where}  {place.source}" if place.source else where


def show_lines(lines: Sequence[int]) -> str:
    """Name lines: line 3, or lines 3, 5 and 8."""
    *most, last = map(str, lines)
    return f"lines {', '.join(most)} and {last}" if most else f"line {last}"


def display_path(path: os.PathLike | str) -> str:
    """Return a path as a learner would type it, relative where that is short."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("../..") else relative


def plain_numbers(text: str) -> str:
    """Replace Triton's constexpr[16], which a list of sizes shows in quotes, by 16."""
    return re.sub(r"('?)constexpr\[(-?\d+)\]\1", r"\2", text)
