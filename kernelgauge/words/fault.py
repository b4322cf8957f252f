"""What is wrong with a kernel, as data. `words.message` makes the sentences of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True, eq=False)
class Note:
    """Something to be said: the id of its words, and what stands in them.

    id: of an entry in one of the tables of words
    values: what the words mention, by name: numbers, names of the learner's, lists of them, and
        other notes. Only what JSON can hold
    """

    id: str
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple:
        """What this has in common with the same note of another case, whose numbers differ."""
        keys = ((name, _key(value)) for name, value in sorted(self.values.items()))
        return self.id, *((name, key) for name, key in keys if key)

    def plain(self) -> dict[str, Any]:
        """Return it in Python's own types."""
        return {"id": self.id, "values": {name: _plain(x) for name, x in self.values.items()}}


def note(id: str, /, **values: Any) -> Note:
    """Return a note with these values."""
    return Note(id, values)


def _key(value: Any) -> Any:
    """Return a value's part in the key of its note, nothing for numbers."""
    if isinstance(value, Note):
        return value.key
    if isinstance(value, (list, tuple)):
        return tuple(filter(None, map(_key, value)))
    return value if isinstance(value, str) else None


# What the id begins with of a note that brings its words along, as the value of this name: the
# mistakes of one puzzle are named where they are computed.
OWN, OWN_WORDS = "mistake:", "words"

# How a cause is known. PROVEN: the reference with this mistake gives exactly the result. SHOWN: a
# run without it is right. CONSISTENT: it explains what failed, and no case contradicts it.
PROVEN, SHOWN, CONSISTENT = "proven", "shown", "consistent"


@dataclass(frozen=True, eq=False)
class Cause:
    """Why something is wrong.

    note: the cause
    known: how it is known, one of the words above
    explains, of: how many of the failing cases of a file it explains; 0 of a case by itself
    given: how the reference is made to make a mistake that is PROVEN, where the note does not say
    """

    note: Note
    known: str = CONSISTENT
    explains: int = 0
    of: int = 0
    given: Note | None = None

    def plain(self) -> dict[str, Any]:
        """Return it in Python's own types."""
        return self.note.plain() | {
            "known": self.known,
            "explains": self.explains,
            "of": self.of,
            "given": self.given.plain() if self.given else None,
        }


@dataclass(frozen=True)
class Place:
    """A line of the learner's code.

    file: its path, absolute
    line, column: counted from 1; 0 where there is none to name
    source: the call or the line that stands there
    callers: the places that led there, the innermost first
    """

    file: str
    line: int = 0
    column: int = 0
    source: str = ""
    callers: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Call:
    """What was called.

    file: the subject's path, absolute
    function: its name
    arguments: their dtypes, shapes, strides and values, in words; "" where they do not matter
    """

    file: str
    function: str = ""
    arguments: str = ""


@dataclass(frozen=True, eq=False)
class Fault:
    """One thing that is wrong.

    kind: one of `kinds.KINDS`
    said: what happened. The first note stands in the line of the place or of the call
    place, call: where it happened, and in which call
    program, grid, config: the program, the programs of its launch, and the autotuner's config
    tensor: the tensor that it is about
    numbers: what was measured: elements, bytes, seconds, and what is allowed
    cause, remedy: why, and what to do about it, where that is known
    instead: the fault that came where the spec asks for an error
    """

    kind: str
    said: tuple[Note, ...] = ()
    place: Place | None = None
    call: Call | None = None
    program: tuple[int, ...] | None = None
    grid: tuple[int, ...] | None = None
    config: str = ""
    tensor: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    cause: Cause | None = None
    remedy: Note | None = None
    instead: Fault | None = None

    def but(self, **changes: Any) -> Fault:
        """Return the same fault with other values of some fields."""
        return replace(self, **changes)

    @property
    def key(self) -> tuple:
        """What faults that are one block have in common: kind, place, and cause or remedy.

        Of rules that only one puzzle has, nothing but their words tells which is broken.
        """
        why = self.cause.note if self.cause else self.remedy
        if self.kind == "own-rule":
            why = why or self.said[0]
        place = self.place and (self.place.file, self.place.line)
        return self.kind, place, why and why.key

    def plain(self) -> dict[str, Any]:
        """Return it in Python's own types, which JSON and xdist carry."""
        return {
            "kind": self.kind,
            "said": [it.plain() for it in self.said],
            "place": _plain_place(self.place),
            "call": vars(self.call) if self.call else None,
            "program": _plain(self.program),
            "grid": _plain(self.grid),
            "config": self.config,
            "tensor": self.tensor,
            "numbers": _plain(self.numbers),
            "cause": self.cause.plain() if self.cause else None,
            "remedy": self.remedy.plain() if self.remedy else None,
            "instead": self.instead.plain() if self.instead else None,
        }


def _plain_place(place: Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return vars(place) | {"callers": [_plain_place(caller) for caller in place.callers]}


def revived(plain: Any) -> Any:
    """Return the fault, or the part of one, that `plain` made this of, also where it was JSON."""
    if isinstance(plain, (list, tuple)):
        return tuple(map(revived, plain))
    if not isinstance(plain, dict):
        return plain
    values = {name: revived(value) for name, value in plain.items()}
    if "known" in values:
        return Cause(Note(values.pop("id"), values.pop("values")), **values)
    for part in (Fault, Place, Call, Note):
        if values.keys() == {it.name for it in fields(part)}:
            return part(**values)
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, Note):
        return value.plain()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        # JSON has no such numbers.
        return str(value)
    # NumPy's numbers are not Python's.
    return value.item() if hasattr(value, "item") else value
