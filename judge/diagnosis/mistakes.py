"""What the result would be if one thing were done wrong: the reference, on changed inputs.

Such a result is computed in float64 and compared with the learner's. Where it is the same in nearly
every element, that is as sure as a diagnosis can be; where it is not, nothing is said of it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence

import torch

from judge.core.arguments import Arguments
from judge.core.dtypes import wide
from judge.core.tensors import on_cpu
from judge.diagnosis import mistakes_in_inputs, mistakes_in_sums
from judge.diagnosis.what_if import IMPOSSIBLE, Question
from judge.diagnosis.wrong_result import Evidence, Mistake
from judge.numerics.compare import Mismatch

# Above so many elements of the inputs a diagnosis is not worth its time.
LARGEST = 2**19


def asked(
    function: Callable,
    reference: Callable[[Arguments], Sequence[torch.Tensor]],
    arguments: Arguments,
    *,
    got: Sequence[torch.Tensor],
    truth: Sequence[torch.Tensor],
    mismatch: Callable[[int, torch.Tensor], Mismatch | None],
    number: int,
    blocks: Sequence[int],
) -> Question:
    """What made this one of the results wrong?

    function: the reference as it stands, for its signature; see Question for `reference`
    mismatch: what is wrong with a tensor that is taken for one of the results
    """

    def is_this(other: int, alternative: torch.Tensor) -> bool:
        """Whether the subject returned this, or what it returned is right, and so is this."""
        if found := mismatch(other, got[other]):
            return Evidence.of(got[other], truth[other], found).is_made_by(alternative)
        return mismatch(other, alternative.to(got[other])) is None

    parameters = inspect.signature(function).parameters.values()
    return Question(
        reference,
        arguments.map(lambda _, tensor: on_cpu(tensor)),
        {x.name: x.default for x in parameters if x.default is not x.empty},
        blocks,
        number,
        [functools.partial(is_this, other) for other in range(len(got))],
    )


def tried(
    question: Question,
    names: Sequence[str],
    truth: Sequence[torch.Tensor],
    own: Callable[..., Iterator] | None,
) -> Iterator[Mistake]:
    """All that are tried on one result, the simplest first.

    names, truth: of all results of the call
    own: the mistakes of this puzzle; from its arguments and the kernels' blocks it gives sentences,
        each with the results, None for one that it leaves right
    """
    if sum(x.numel() for x in question.arguments.tensors.values()) > LARGEST:
        return
    name = names[question.number]
    for other, alternative in zip(names, truth, strict=True):
        if other != name and alternative.shape == truth[question.number].shape:
            yield Mistake(f"{name} and {other} exchanged", lambda made=alternative: made)
    for kind in (*mistakes_in_inputs.KINDS, *mistakes_in_sums.KINDS):
        yield from kind(question)
    if own:
        # Written for what the tests give, and here is whatever a learner's own test gives.
        with contextlib.suppress(*IMPOSSIBLE):
            yield from _own(question, own)


def _own(question: Question, own: Callable[..., Iterator]) -> Iterator[Mistake]:
    given = question.arguments.map(lambda _, x: wide(x.detach()))
    values = {**question.defaults, **given.values}
    for cause, made in own(**values, blocks=question.blocks):
        if made[question.number] is not None:
            yield Mistake(cause, lambda made=made: question.chosen(made))
