"""The results that mistakes would give: the reference, evaluated on changed inputs.

Such a result is computed in float64 and compared with the learner's. If the two agree in nearly
every element, that is as certain as a diagnosis can be; if not, the mistake is not mentioned.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence

import torch

from kernelgauge.core.arguments import Arguments
from kernelgauge.core.dtypes import dtype_name, rounds, wide
from kernelgauge.core.tensors import on_cpu
from kernelgauge.diagnosis import mistakes_in_inputs, mistakes_in_sums
from kernelgauge.diagnosis.what_if import IMPOSSIBLE, WhatIf
from kernelgauge.diagnosis.wrong_result import Mistake, WrongResult
from kernelgauge.numerics.compare import Mismatch
from kernelgauge.words.fault import OWN, OWN_WORDS, Note, note

# With more elements than this in the inputs, a diagnosis takes too long.
MAX_DIAGNOSED_ELEMENTS = 2**19


def half_precisions() -> Iterator[tuple[str, Callable[[torch.Tensor], torch.Tensor]]]:
    """Yield the name of each half-precision dtype and a function that rounds float64 to it.

    For the mistakes of single puzzles.
    """
    for dtype in (torch.float16, torch.bfloat16):
        yield dtype_name(dtype), functools.partial(_through, dtype)


def _through(dtype: torch.dtype, x: torch.Tensor) -> torch.Tensor:
    return x.to(dtype).double()


def named(words: str, /, **numbers: float) -> Note:
    """Return a mistake of a single puzzle as a note. Its numbers may differ from case to case.

    words: a clause with the names of the numbers, "blocks of {block} count as full"
    """
    slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    return Note(OWN + slug, {**numbers, OWN_WORDS: words})


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
    """Return the WhatIf of result `number` of a call.

    function, reference, arguments, blocks: see WhatIf
    got, truth: all results of the call, and what they should be
    mismatch: compares a tensor with the truth of one of the results
    """

    @functools.cache
    def wrong(other: int) -> WrongResult | None:
        found = mismatch(other, got[other])
        return WrongResult(got[other], truth[other], found) if found else None

    def matches(other: int, alternative: torch.Tensor) -> bool:
        """Return whether the subject returned this, or both this and what it returned are right."""
        if result := wrong(other):
            return result.is_made_by(alternative)
        return mismatch(other, alternative.to(got[other])) is None

    parameters = inspect.signature(function).parameters.values()
    return WhatIf(
        function,
        reference,
        arguments.map(lambda _, tensor: on_cpu(tensor)),
        {x.name: x.default for x in parameters if x.default is not x.empty},
        blocks,
        number,
        [functools.partial(matches, other) for other in range(len(got))],
    )


def candidates(
    what_if: WhatIf,
    names: Sequence[str],
    truth: Sequence[torch.Tensor],
    own: Callable[..., Iterator] | None,
) -> Iterator[Mistake]:
    """Yield every mistake to try on a result, the simplest first.

    names, truth: of all results of the call
    own: yields the mistakes of this puzzle alone. It takes the puzzle's arguments and the kernels'
        `blocks`; each mistake is its cause and its results, None for a result that it leaves right,
        or a function that returns them where that takes long.
        The cause is a clause, or a note: `named` makes one of a clause with numbers of the case
    """
    if sum(x.numel() for x in what_if.arguments.tensors.values()) > MAX_DIAGNOSED_ELEMENTS:
        return
    number = what_if.number
    for other, alternative in enumerate(truth):
        if other != number and alternative.shape == truth[number].shape:
            results = list(truth)
            results[number], results[other] = truth[other], truth[number]
            cause = note("swapped", first=names[number], second=names[other])
            yield Mistake(cause, functools.partial(what_if.select, results))
    for kind in (*mistakes_in_inputs.KINDS, *mistakes_in_sums.KINDS):
        yield from kind(what_if)
    if not rounds(truth[number].dtype):
        yield from _rounded(names[number], truth[number])
    if own:
        # It is written for what our tests pass, and a learner's own test may pass anything.
        with contextlib.suppress(*IMPOSSIBLE):
            yield from _own(what_if, own)
    for kind in (*mistakes_in_inputs.LAST, *mistakes_in_sums.LAST):
        yield from kind(what_if)


def _rounded(name: str, whole: torch.Tensor) -> Iterator[Mistake]:
    """Yield floating dtypes that a result of whole numbers may have passed through."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        most = round(2 / torch.finfo(dtype).eps)
        cause = note("whole-numbers-rounded", name=name, dtype=dtype_name(dtype), most=most)
        yield Mistake(cause, functools.partial(_through, dtype, whole))


def _own(what_if: WhatIf, own: Callable[..., Iterator]) -> Iterator[Mistake]:
    given = what_if.arguments.map(lambda _, x: wide(x.detach()))
    values = {**what_if.defaults, **given.values}
    for cause, results in own(**values, blocks=what_if.blocks):
        if callable(results):
            yield Mistake(_note(cause), functools.partial(_selected, what_if, results))
        elif results[what_if.number] is not None:
            compute = functools.partial(what_if.select, results)
            yield Mistake(_note(cause), compute, is_computed=True)


def _selected(what_if: WhatIf, results: Callable[[], Sequence]) -> torch.Tensor:
    return what_if.select(results())


def _note(cause: str | Note) -> Note:
    return cause if isinstance(cause, Note) else named(cause)
