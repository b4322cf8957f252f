"""What partitions and asynchronous operations do to shared memory, and to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kernelgauge.words.common import show_place
from kernelgauge.words.fault import Place


def _reads_before_write(
    buffer: str, reader: str, other: str, verb: str, file: str, line: int
) -> str:
    return (
        f"{reader} reads {buffer}, and nothing makes sure that what {other} {verb} there "
        f"({show_place(Place(file, line))}) has landed"
    )


def _reads_without_fence(
    buffer: str, reader: str, other: str, verb: str, file: str, line: int
) -> str:
    return (
        f"{reader} reads {buffer}, which {other} stored ({show_place(Place(file, line))}), and "
        "there is no fence_async_shared() in between: it may read what was there before"
    )


def _writes_too_early(buffer: str, writer: str, other: str, verb: str, file: str, line: int) -> str:
    return (
        f"{writer} writes {buffer}, and nothing makes sure that {other} has finished: it {verb} "
        f"the same elements ({show_place(Place(file, line))})"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


def _arrives_too_often(barrier: str, count: int, missing: int, more: int) -> str:
    return (
        f"{_count(more, 'arrival')} at {barrier}, whose phase of {_count(count, 'arrival')} lacks "
        f"{missing}: a phase takes no more"
    )


def _partitions_wait(waits: Sequence[Sequence], ended: Sequence[str]) -> str:
    lines = ["every partition waits, and nothing is under way that could end it:"]
    for who, line, barrier, parity, phase, missing, count, size in waits:
        lacks = [f"{missing} of {_count(count, 'arrival')}"] * (missing > 0)
        lacks += [_count(size, "byte")] * (size > 0)
        lines.append(
            f"  {who} waits in line {line} for phase {parity} of {barrier}, which has completed "
            f"{_count(phase, 'phase')} and lacks {' and '.join(lacks)} of phase {phase % 2}"
        )
    lines += [f"  {who} has ended" for who in ended]
    return "\n".join(lines)


WORDS: Mapping[str, str | Callable[..., str]] = {
    "reads-unset-shared": "{reader} reads {buffer}, to which nothing was written so far",
    "reads-before-write": _reads_before_write,
    "wait-is-open": (
        "why: the wait for phase 1 of {barrier} in line {line} went on at once: no phase was "
        "complete, and the one before the first counts as complete"
    ),
    "phase-without-reader": lambda barrier, count, names, reader, other: (
        f"why: {barrier} has a count of {count}, so its phase was complete when "
        f"{' and '.join(names)} had arrived, and {reader}, which waited for the same phase of "
        f"{other}, had not"
    ),
    "arrives-before-reading": (
        "why: {reader} arrives at {barrier} in line {line} and reads afterwards, and that arrival "
        "is what {writer} waits for"
    ),
    "wait-leaves-group": lambda later, left, line: (
        f"why: {_count(later, 'group') if later else 'no group'} "
        f"{'was' if later < 2 else 'were'} committed after that of this copy, so that "
        f"wait_group({left}) in line {line} may leave it under way"
    ),
    "wait-before-reading": (
        "wait for the barrier of the copy, in the phase of this round, before you read, and give "
        "the buffer back for the next copy only after that; for cp.async it is wait_group"
    ),
    "uses-before-wait": (
        "{user} uses the result of {product}, and nothing has waited for it: its registers may not "
        "hold the sum yet"
    ),
    "wait-for-the-product": (
        "call warpgroup_mma_wait before you use the result, with as many outstanding as products "
        "were issued after this one, or 0"
    ),
    "reads-without-fence": _reads_without_fence,
    "fence-after-store": (
        "call fence_async_shared() after the store and before the copy or warpgroup_mma that "
        "reads it"
    ),
    "writes-too-early": _writes_too_early,
    "wait-before-overwriting": (
        "wait until the buffer is free before you write it again: for a barrier at which its "
        "readers arrive, for warpgroup_mma_wait, or for tma.store_wait"
    ),
    "ends-before": (
        "the kernel ends, and nothing has waited for {operation}: its shared memory goes to the "
        "next program"
    ),
    "wait-before-the-end": (
        "wait for all that is under way before the kernel ends: tma.store_wait(0), "
        "warpgroup_mma_wait(0), wait_group(0), or the barrier of a load"
    ),
    "bytes-do-not-match": (
        "{barrier} is told to expect {expected} bytes, but the copies of this phase bring {issued}"
    ),
    "copy-after-its-phase": (
        "a copy brings {bytes} bytes to {barrier} when phase {phase}, for which it was issued, is "
        "complete: fewer bytes were expected than its copies bring"
    ),
    "expect-all-bytes": (
        "expect the bytes of all copies that name the barrier: the sum of their buffers' nbytes"
    ),
    "barrier-without-init": "{barrier} is used as a barrier, and was not initialised",
    "init-every-barrier": "call mbarrier.init(bar, count=...) for each barrier before its use",
    "arrives-too-often": _arrives_too_often,
    "refill-after-the-readers": (
        "the copies of this phase are still under way: expect once a phase, and fill a buffer "
        "again only after its readers have given it back, which is a wait for their barrier in the "
        "phase of this round"
    ),
    "count-the-arrivals": (
        "count the arrivals of one phase: each partition's arrive, and each expect, is one"
    ),
    "partitions-wait": _partitions_wait,
    "arrive-once-a-phase": (
        "look for what should complete these phases: an arrive or an expect may be missing, the "
        "count of an init too high, or the phase of a wait off by one (it is a parity, 0 at first, "
        "that flips each time around the ring)"
    ),
}
