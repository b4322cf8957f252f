"""What a check asks of a result and of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def _must_raise(error: str, names: str, answer: bool, instead: str, raised: str) -> str:
    wanted = f"must raise {error} that names {names}" + ", or return the right answer" * answer
    return (
        wanted
        + {
            "fault": "; instead:",
            "result": ", but it returned",
            "message": f'; its message is "{raised}"',
        }[instead]
    )


def _kept(bytes: int, budget: int, tensors: list[str]) -> str:
    return (
        f"keeps {bytes} bytes for the backward pass beside its inputs and its result, but the "
        f"budget is {budget}: {', '.join(tensors)}"
    )


def _limit(
    size: str,
    right: int,
    wrong: int,
    value: int,
    factors: Sequence[int],
    texts: Sequence[str],
    lines: Sequence[int],
    **where: Any,
) -> str:
    found = f"a {value} in line {lines[0]}"
    if len(factors) > 1:
        at = f"line {lines[0]}" if lines[0] == lines[1] else f"lines {lines[0]} and {lines[1]}"
        product = f"{factors[0]} * {factors[1]} is {value}"
        found = f"{texts[0]} and {texts[1]} in {at}, and {product}"
    elif texts[0] != str(value):
        found = f"{texts[0]} in line {lines[0]}, which makes a limit of {value}"
    return f"{_between(size, right, wrong, **where)}; your file has {found}"


def _between(
    size: str,
    right: int,
    wrong: int,
    dtype: str = "",
    of: Sequence[str] = (),
    beside: Mapping[str, int] | None = None,
) -> str:
    where = ", ".join(f"{name} = {value}" for name, value in (beside or {}).items())
    if dtype and len(of) == 1:
        where, dtype = ", ".join(filter(None, [f"{of[0]} is {dtype}", where])), ""
    where = f"{f'in {dtype}, ' if dtype else ''}{f'where {where}, ' if where else ''}"
    return f"{where}with {size} = {right} it is right, with {size} = {wrong} it is not"


WORDS: Mapping[str, str | Callable[..., str]] = {
    "must-raise": _must_raise,
    "limit-in-the-file": _limit,
    "limit-of-a-size": _between,
    "no-limit": "the spec has no such limit: let a loop or the grid cover what is beyond it",
    "check-inputs-first": "check the inputs before you allocate",
    "kept-for-backward": _kept,
    "wrong-count": lambda found, wanted: (
        f"returned {found} tensor{'s' * (found != 1)}, not {wanted}"
    ),
    "size-of-another-input": (
        "{found} is the size of {name} in dimension {dim}, and that of {other} is {wanted}"
    ),
    "shape-of-option": "that is the shape for {name} = {other}, and {name} is {given}",
    "form": "{name} has {aspect} {found}, not {wanted}",
    "not-contiguous": "{name} is not contiguous: its strides are {strides} for shape {shape}",
    "strides-of-another": "those are the strides of {other}: torch.empty_like keeps their order, "
    "and torch.empty with a shape is contiguous",
    "differs-between-runs": "{name} differs between two runs on the same input",
    "sum-in-a-fixed-order": "atomics add in no fixed order; write partial results and sum them in "
    "a second kernel",
    "ranks-differ": "gives rank {rank} and rank 0 results whose last bits differ",
    "add-in-one-order": "let every rank add in the same order, from rank 0 on: rounding makes "
    "another order another sum",
    "wrong-when-late": "wrong when rank {rank} is late, that is, when its GPU gets its inputs and "
    "starts its launches after the others: nobody waits for it",
    "meet-between-launches": "call meet() between a launch that stores and the launch of another "
    "rank that reads it",
    "meet-before-the-first": "call meet() before the first launch: a peer's tensor may not be "
    "there yet",
    "meet-before-return": "call meet() before you return: a peer may still read what its owner "
    "overwrites",
    "make-again-in-backward": "compute again in the backward pass what is cheap, instead of "
    "keeping it",
}
