"""How the partitions of a Gluon kernel wait for one another: barriers, copies, shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

HOW = {
    "load": "a load",
    "store": "a store",
    "copy": "a copy by TMA",
}


def _unordered(
    buffer: str, how: str, partition: str, other: str, other_partition: str, line: int
) -> str:
    return (
        f"{HOW[how]} in {partition} touches {buffer}, and nothing makes it wait until {HOW[other]} "
        f"of line {line}, in {other_partition}, is done with it"
    )


def _partition_waits(
    partition: str, line: int, barrier: str, parity: int, phase: int, pending: int, count: int,
    came: tuple[str, ...],
) -> str:  # fmt: skip
    missing = f"{pending} of {count} arrivals missing"
    who = (
        f", on which until now {' and '.join(came)} arrived"
        if came
        else ", on which nobody arrived"
    )
    return (
        f"{partition} waits in line {line} for the end of a phase of parity {parity} of {barrier}: "
        f"it is in phase {phase}, with {missing}{who}"
    )


def _more_bytes(partition: str, barrier: str, expected: int, missing: int) -> str:
    return (
        f"{partition} waits for {barrier}, which expects {expected} bytes in this phase: "
        f"{missing} of them never come"
    )


def _fewer_bytes(partition: str, barrier: str, expected: int, missing: int = 0) -> str:
    said = f"{barrier} expects {expected} bytes in a phase, but the copies that arrive on it bring "
    return said + (f"{-missing} more" if missing else "more")


WORDS: Mapping[str, str | Callable[..., str]] = {
    "unordered": _unordered,
    "nothing-there": lambda buffer, how, partition: (
        f"{HOW[how]} in {partition} reads {buffer}, where nothing has been written"
    ),
    "no-init": lambda partition, barrier: f"{partition} uses {barrier}, which nobody initialised",
    "more-bytes-expected": _more_bytes,
    "fewer-bytes-expected": _fewer_bytes,
    "partitions-wait": lambda partition: "nobody can go on",
    "partition-waits": _partition_waits,
    "wait-until-free": "wait for a barrier on which the readers arrive once they are done",
    "wait-until-full": "wait for the barrier on which the copy arrives, and for its right phase",
    "count-the-bytes": "expect the size of all tiles that arrive on the barrier in one phase",
    "init-before-use": "call mbarrier.init on each slot, before the partitions begin",
    "arrive-once-a-phase": "follow one slot by hand: which arrival ends which phase, and which "
    "parity is waited for",
}
