"""The one room that makes sentences of faults: terminal, page and JSON take their words from here.

A Fault is data (fault.py) of a kind (kinds.py). The tables of words are divided by what they are
about; each entry is a format string, or a function where the words depend on the values. No other
room writes to a learner what is wrong, and none reads what is written here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from kernelgauge.words import common, compiling, diagnosing, launching, touching
from kernelgauge.words.fault import PROVEN, SHOWN, Fault, Note, Place
from kernelgauge.words.kinds import KINDS, ORDER

Words = str | Callable[..., str]

TABLES: tuple[Mapping[str, Words], ...] = (
    common.WORDS,
    compiling.WORDS,
    diagnosing.WORDS,
    launching.WORDS,
    touching.WORDS,
)
WORDS: dict[str, Words] = {id: words for table in TABLES for id, words in table.items()}


def say(note: Note) -> str:
    """Return the words of a note."""
    words = WORDS[note.id]
    values = {name: say(it) if isinstance(it, Note) else it for name, it in note.values.items()}
    return words(**values) if callable(words) else words.format(**values)


def message(fault: Fault) -> str:
    """Return what a learner reads: place or call, what happened, the cause, and the remedy."""
    lines = _with_head(fault, [say(it) for it in fault.said])
    if fault.place:
        lines += [f"  called from {show_place(caller)}" for caller in fault.place.callers]
    if fault.instead:
        lines.append(message(fault.instead))
    if fault.cause:
        lines.append(reason_line(fault))
    if fault.remedy:
        lines.append(f"hint: {say(fault.remedy)}")
    return "\n".join(line for line in lines if line)


def reason(fault: Fault) -> str:
    """Return the cause in words, or else the remedy; "" if neither is known."""
    if fault.cause:
        return say(fault.cause.note)
    return say(fault.remedy) if fault.remedy else ""


def reason_line(fault: Fault) -> str:
    """Return the line of a message that names the cause."""
    assert fault.cause
    start = "cause" if fault.cause.known == SHOWN else "likely cause"
    return f"{start}: {say(fault.cause.note)}"


def title(fault: Fault) -> str:
    """Return what the kind of a fault is called in a heading."""
    values = {name: value for it in fault.said[:1] for name, value in it.values.items()}
    return KINDS[fault.kind].title.format(**values | {"tensor": fault.tensor or "a tensor"})


def show_place(place: Place) -> str:
    """Return a place as editors and terminals link it, and what stands there."""
    where = display_path(place.file)
    where += f":{place.line}" if place.line else ""
    where += f":{place.column}" if place.column else ""
    return f"{where}  {place.source}" if place.source else where


def display_path(path: os.PathLike | str) -> str:
    """Return a path as a learner would type it, relative where that is short."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("../..") else relative


def _with_head(fault: Fault, said: list[str]) -> list[str]:
    """Return the lines with what they are about: the place and what stands there, or the call.

    What a place or a call leaves room for, the first of the lines follows in the same line.
    """
    first, rest = said[:1], said[1:]
    if fault.place:
        head = show_place(fault.place)
        return [head, *said] if fault.place.source else ["  ".join([head, *first]), *rest]
    if fault.call:
        head = ": ".join(filter(None, (display_path(fault.call.file), fault.call.function)))
        if fault.call.arguments:
            return [f"{head}({fault.call.arguments})", *said]
        return [": ".join([head, *first]), *rest]
    return said


__all__ = [
    "KINDS",
    "ORDER",
    "PROVEN",
    "SHOWN",
    "Fault",
    "Note",
    "display_path",
    "message",
    "reason",
    "reason_line",
    "say",
    "show_place",
    "title",
]
