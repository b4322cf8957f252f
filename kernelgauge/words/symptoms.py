"""What is seen of a fault, where a learner is to find out why: its cause is left out."""

from __future__ import annotations

from dataclasses import replace

from kernelgauge.words.fault import Call, Fault, Note

# Kinds of fault whose remedies are about the run, and not about a cause.
ABOUT_THE_RUN = {"debugger-left", "endless", "process-ended", "syntax-error", "no-function"}

# What a kind that names a cause looks like to whoever does not know it.
LOOKS_LIKE = {"race": "differs-between-runs"}
# An offset that wraps around is seen where it leads outside.
OUTSIDE = {"reads": "out-of-bounds-load", "writes": "out-of-bounds-store"}

# The note to say instead of one that explains, None where nothing is left to say.
SEEN = {
    "comes-from": None,
    "race": "order-of-programs-matters",
    "integer-overflow": "wrong-beyond-32-bits",
    "sectors-mostly-unused": "sectors-beyond-budget",
    "bytes-spilled": "bytes-spilled-beyond-budget",
}
# Where one of them was found is the cause already.
FOUND_AT_THE_CAUSE = {"race", "integer-overflow"}


def symptom(fault: Fault) -> Fault:
    """Return what is seen of a fault without knowing its cause."""
    if fault.kind in ABOUT_THE_RUN:
        return fault
    kind = LOOKS_LIKE.get(fault.kind, fault.kind)
    if kind == "offset-overflow":
        kind = OUTSIDE.get(fault.said[0].values.get("verb", ""), "wrong-result")
    said = tuple(filter(None, map(_seen, fault.said)))
    place, call = fault.place, fault.call
    if fault.place and any(it.id in FOUND_AT_THE_CAUSE for it in fault.said):
        place, call = None, Call(fault.place.file)
    return fault.but(
        kind=kind,
        said=said,
        place=place,
        call=call,
        cause=None,
        remedy=None,
        instead=symptom(fault.instead) if fault.instead else None,
    )


def _seen(said: Note) -> Note | None:
    id = SEEN.get(said.id, said.id)
    return replace(said, id=id) if id else None
