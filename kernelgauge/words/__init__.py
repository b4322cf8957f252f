"""The one room that makes sentences of faults: terminal, page and JSON take their words from here.

A Fault is data (fault.py) of a kind (kinds.py). The tables of words are divided by what they are
about; each entry is a format string, or a function where the words depend on the values. No other
room writes to a learner what is wrong, and none reads what is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernelgauge.words import (
    common,
    compiling,
    diagnosing,
    grading,
    launching,
    synchronising,
    touching,
)
from kernelgauge.words.common import display_path, show_place
from kernelgauge.words.fault import OWN, OWN_WORDS, PROVEN, SHOWN, Cause, Fault, Note
from kernelgauge.words.kinds import KINDS, ORDER
from kernelgauge.words.symptoms import symptom

Words = str | Callable[..., str]

TABLES: tuple[Mapping[str, Words], ...] = (
    common.WORDS,
    compiling.WORDS,
    diagnosing.WORDS,
    grading.WORDS,
    launching.WORDS,
    synchronising.WORDS,
    touching.WORDS,
)
WORDS: dict[str, Words] = {id: words for table in TABLES for id, words in table.items()}


def say(note: Note) -> str:
    """Return the words of a note."""
    words = note.values[OWN_WORDS] if note.id.startswith(OWN) else WORDS[note.id]
    values = {name: _said(it) for name, it in note.values.items()}
    return words(**values) if callable(words) else words.format(**values)


def _said(value: Any) -> Any:
    """Return a value as words take it: notes in words, and tuples also where JSON made lists."""
    if isinstance(value, Note):
        return say(value)
    return tuple(map(_said, value)) if isinstance(value, (list, tuple)) else value


# What a part of a message is besides the id of the note that it says.
HEAD, CALLER, CAUSE, REMEDY = "head", "caller", "cause", "remedy"


def message(fault: Fault) -> str:
    """Return what a learner reads: place or call, what happened, the cause, and the remedy."""
    return "\n".join(text for _, text in parts(fault))


def parts(fault: Fault) -> list[tuple[str, str]]:
    """Return the parts of a message, each with what it is: the id of a note, HEAD, CAUSE, ..."""
    found = _with_head(fault)
    if fault.place:
        callers = fault.place.callers
        found += [(CALLER, f"  called from {show_place(caller)}") for caller in callers]
    if fault.instead:
        found += parts(fault.instead)
    if fault.cause:
        start = "cause" if fault.cause.known == SHOWN else "likely cause"
        found.append((CAUSE, f"{start}: {_cause(fault.cause)}"))
    if fault.remedy:
        found.append((REMEDY, f"hint: {say(fault.remedy)}"))
    return [(what, text) for what, text in found if text]


def _cause(cause: Cause) -> str:
    """Return a cause, and the evidence for it among the wrong results of a file."""
    said, others = say(cause.note), cause.explains - 1
    if cause.known == PROVEN:
        given = say(cause.given) if cause.given else "this mistake"
        gives = "gives your result here"
        if others > 0:
            cases = "case" if others == 1 else "cases"
            gives = f"gives exactly your result, and so it does in {others} other {cases}"
        said += f" (with {given}, the reference {gives})"
    if 0 < cause.explains < cause.of:
        said += f"; it explains {cause.explains} of {cause.of} wrong results"
    return said


def reason(fault: Fault) -> str:
    """Return the cause in words, or else the remedy; "" if neither is known."""
    if fault.cause:
        return _cause(fault.cause)
    return say(fault.remedy) if fault.remedy else ""


def cause(fault: Fault) -> str:
    """Return the cause alone, "" if it is not known."""
    return say(fault.cause.note) if fault.cause else ""


def title(fault: Fault) -> str:
    """Return what the kind of a fault is called in a heading."""
    # What is said before the fault's own note, such as which call came first, has none of these.
    values = {name: value for it in reversed(fault.said) for name, value in it.values.items()}
    return KINDS[fault.kind].title.format(**values | {"tensor": fault.tensor or "a tensor"})


def _with_head(fault: Fault) -> list[tuple[str, str]]:
    """Return what is said below what it is about: the place and what stands there, or the call.

    What a place or a call leaves room for, the first of the notes follows in the same line.
    """
    said = [(it.id, say(it)) for it in fault.said]
    if fault.place:
        head, joint = show_place(fault.place), "  "
        if fault.place.source:
            return [(HEAD, head), *said]
    elif fault.call:
        head, joint = (
            ": ".join(filter(None, (display_path(fault.call.file), fault.call.function))),
            ": ",
        )
        if fault.call.arguments:
            return [(HEAD, f"{head}({fault.call.arguments})"), *said]
    else:
        return said
    return [(HEAD, joint.join([head, *(text for _, text in said[:1])])), *said[1:]]


__all__ = [
    "KINDS",
    "ORDER",
    "PROVEN",
    "SHOWN",
    "Fault",
    "Note",
    "cause",
    "display_path",
    "message",
    "parts",
    "reason",
    "say",
    "show_place",
    "symptom",
    "title",
]
