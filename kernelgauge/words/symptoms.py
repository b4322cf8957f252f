"""What is seen of a fault, where a learner is to find out why: its cause is left out."""

from __future__ import annotations

from dataclasses import replace

from kernelgauge.words.fault import Call, Fault
from kernelgauge.words.kinds import KINDS, STARTS

# What a kind that names a cause looks like to whoever does not know it.
LOOKS_LIKE = dict.fromkeys(("race", "thread-race", "unordered-sum"), "differs-between-runs")
# An offset that wraps around is seen where it leads outside.
OUTSIDE = {"reads": "out-of-bounds-load", "writes": "out-of-bounds-store"}

# The note to say instead of one that explains.
SEEN = {
    "race": "order-of-programs-matters",
    "sum-in-no-order": "order-of-programs-matters",
    "lanes-meet": "order-of-threads-matters",
    "threads-meet": "order-of-threads-matters",
    "integer-overflow": "wrong-beyond-32-bits",
    "sectors-mostly-unused": "sectors-beyond-budget",
    "bytes-spilled": "bytes-spilled-beyond-budget",
}
# Notes that say nothing but why.
WHY = {
    "comes-from",
    "depends",
    "address-from-memory",
    "begins-among",
    "address-of-another-axis",
    "address-of-no-program",
    "arrives-before-reading",
    "factor-is-no-stride",
    "index-is-made",
    "index-leads-into-another-row",
    "index-leaves-its-dimension",
    "indices-have-one-stride",
    "flag-before-the-store",
    "flag-ignored",
    "flag-not-awaited",
    "flag-of-another",
    "flag-raised-too-early",
    "flag-set-from-the-start",
    "split-alike",
    "split-by-two-numbers",
    "indices-meet",
    "lanes-share-elements",
    "launches-share-elements",
    "loads-too-much",
    "mask-leaves-out",
    "no-store-to-result",
    "overwritten",
    "grid-counts-blocks",
    "lanes-lie-apart",
    "no-tile-has-them",
    "phase-without-reader",
    "product-passes-int32",
    "turns-overlap",
    "wait-is-open",
    "wait-leaves-group",
    "program-repeats-elements",
    "programs-meet-at-elements",
    "programs-share-elements",
    "row-of-a-tile",
    "tensor-handed-on",
    "tile-across-memory",
    "mask-goes-past-the-loop",
    "tile-covers-another",
    "tiles-are-the-same",
    "tiles-begin",
    "tiles-of-idle-programs",
    "tiles-overlap",
}
# Where one of them was found is the cause already.
FOUND_AT_THE_CAUSE = {
    "race", "integer-overflow", "sum-in-no-order", "lanes-meet", "threads-meet",
}  # fmt: skip


def symptom(fault: Fault) -> Fault:
    """Return what is seen of a fault without knowing its cause."""
    if KINDS[fault.kind].group == STARTS:
        # Its remedy is about the run.
        return fault
    kind = LOOKS_LIKE.get(fault.kind, fault.kind)
    if kind == "offset-overflow":
        kind = OUTSIDE.get(fault.said[0].values.get("verb", ""), "wrong-result")
    said = [it for it in fault.said if it.id not in WHY]
    place, call = fault.place, fault.call
    if fault.place and any(it.id in FOUND_AT_THE_CAUSE for it in fault.said):
        place, call = None, Call(fault.place.file)
    return fault.but(
        kind=kind,
        said=tuple(replace(it, id=SEEN.get(it.id, it.id)) for it in said),
        place=place,
        call=call,
        cause=None,
        remedy=None,
        instead=symptom(fault.instead) if fault.instead else None,
    )
