"""What a check asks of a result and of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping


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
        f"keeps {bytes} bytes for the backward pass beside its inputs and its result, the budget "
        f"is {budget}: {', '.join(tensors)}"
    )


WORDS: Mapping[str, str | Callable[..., str]] = {
    "must-raise": _must_raise,
    "check-inputs-first": "check the inputs before you allocate",
    "kept-for-backward": _kept,
    "make-again-in-backward": "what is cheap to make again in the backward pass need not be kept",
}
