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
from judge.diagnosis.what_if import IMPOSSIBLE, WhatIf
from judge.diagnosis.wrong_result import Mistake, WrongResult
from judge.numerics.compare import Mismatch

# Above so many elements of the inputs a diagnosis is not worth its time.
MAX_DIAGNOSED_ELEMENTS = 2**19


def build_what_if(
    function: Callable,
    reference: Callable[[Arguments], Sequence[torch.Tensor]],
    arguments: Arguments,
    *,
    got: Sequence[torch.Tensor],
    truth: Sequence[torch.Tensor],
    mismatch: Callable[[int, torch.Tensor], Mismatch | None],
    number: int,
    blocks: Sequence[int],
) -> WhatIf:
    """What made this one of the results wrong?

    function: the reference as it stands, for its signature; see WhatIf for `reference`
    mismatch: what is wrong with a tensor that is taken for one of the results
    """

    def is_this(other: int, alternative: torch.Tensor) -> bool:
        """Whether the subject returned this, or what it returned is right, and so is this."""
        if found := mismatch(other, got[other]):
            return WrongResult.of(got[other], truth[other], found).is_made_by(alternative)
        return mismatch(other, alternative.to(got[other])) is None

    parameters = inspect.signature(function).parameters.values()
    return WhatIf(
        reference,
        arguments.map(lambda _, tensor: on_cpu(tensor)),
        {x.name: x.default for x in parameters if x.default is not x.empty},
        blocks,
        number,
        [functools.partial(is_this, other) for other in range(len(got))],
    )


def candidates(
    what_if: WhatIf,
    names: Sequence[str],
    truth: Sequence[torch.Tensor],
    own: Callable[..., Iterator] | None,
) -> Iterator[Mistake]:
    """All that are tried on one result, the simplest first.

    names, truth: of all results of the call
    own: the mistakes of this puzzle; from its arguments and the kernels' blocks it gives sentences,
        each with the results, None for one that it leaves right
    """
    if sum(x.numel() for x in what_if.arguments.tensors.values()) > MAX_DIAGNOSED_ELEMENTS:
        return
    name = names[what_if.number]
    for other, alternative in zip(names, truth, strict=True):
        if other != name and alternative.shape == truth[what_if.number].shape:
            yield Mistake(f"{name} and {other} exchanged", lambda made=alternative: made)
    for kind in (*mistakes_in_inputs.KINDS, *mistakes_in_sums.KINDS):
        yield from kind(what_if)
    if own:
        # Written for what the tests give, and here is whatever a learner's own test gives.
        with contextlib.suppress(*IMPOSSIBLE):
            yield from _own(what_if, own)


def _own(what_if: WhatIf, own: Callable[..., Iterator]) -> Iterator[Mistake]:
    given = what_if.arguments.map(lambda _, x: wide(x.detach()))
    values = {**what_if.defaults, **given.values}
    for cause, made in own(**values, blocks=what_if.blocks):
        if made[what_if.number] is not None:
            yield Mistake(cause, lambda made=made: what_if.select(made))
