"""Mistakes in a loop that sums: it takes some of its steps only, or its sum loses bits.

Which dimensions are summed over is found out: those that may shrink while the result keeps its
shape.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch

from judge.core.dtypes import dtype_name
from judge.diagnosis.what_if import Tensors, WhatIf
from judge.diagnosis.wrong_result import Mistake

# Tensors that a size is looked for in, and narrowed in together.
MAX_SHARING_TENSORS = 6
# Steps of a sum that is added up one by one.
MAX_STEPS = 128

Places = list[tuple[str, int]]


def partial(what_if: WhatIf) -> Iterator[Mistake]:
    """A sum over some of the steps of its loop."""
    for length, places in reduced(what_if):
        name, dim = places[0]
        along = f"the {length} along dimension {dim} of {name}"
        for block in what_if.blocks:
            if not 1 < block < length:
                continue
            rest = (length - 1) // block * block
            early = "a loop or a mask that ends too early"
            parts = [(0, block, f"the first {block} of {along} only", early)]
            if block < rest < length:
                parts.append((0, rest, f"the first {rest} of {along} only", early))
            why = "an accumulator that each step replaces: nothing is added to it"
            given = f"the last {length - rest} of {along} only"
            parts.append((rest, length, given, why))
            for begin, end, given, cause in parts:
                values = _narrowed(what_if, places, begin, end)
                yield what_if.mistake(cause, given, **values)


def in_few_bits(what_if: WhatIf) -> Iterator[Mistake]:
    """A sum that is rounded to the dtype of the inputs after each step."""
    dtypes = {x.dtype for x in what_if.arguments.tensors.values()}
    for dtype in dtypes & {torch.float16, torch.bfloat16}:
        word = dtype_name(dtype)
        for length, places in reduced(what_if):
            for block in what_if.blocks:
                if 1 < block < length <= MAX_STEPS * block:
                    yield Mistake(
                        f"a sum accumulated in {word} and not in float32",
                        lambda p=places, n=length, b=block, d=dtype: _summed(what_if, p, n, b, d),
                        f"a sum rounded to {word} after every {block} of {length}",
                    )


def _summed(
    what_if: WhatIf, places: Places, length: int, block: int, dtype: torch.dtype
) -> torch.Tensor:
    total = exact = 0.0
    for begin in range(0, length, block):
        values = _narrowed(what_if, places, begin, min(begin + block, length))
        part = what_if.evaluate(what_if.arguments.replaced(values))
        exact = exact + part
        total = (total + part).to(dtype).double()
    if not torch.allclose(exact, what_if.evaluate(what_if.arguments)):
        raise ValueError("the reference is no sum of its parts")
    return total


def _narrowed(what_if: WhatIf, places: Places, begin: int, end: int) -> Tensors:
    values: dict[str, torch.Tensor] = {}
    for name, dim in places:
        whole = values.get(name, what_if.arguments.tensors[name])
        values[name] = whole.narrow(dim, begin, end - begin)
    return values


def reduced(what_if: WhatIf) -> Iterator[tuple[int, Places]]:
    """Sizes that the result does not have, with the dimensions of the inputs that have them."""
    tensors = {n: torch.empty(x.shape, dtype=x.dtype, device="meta") for n, x in
               what_if.arguments.tensors.items()}  # fmt: skip
    expected = what_if.shape(tensors)
    places: dict[int, Places] = {}
    for name, tensor in tensors.items():
        for dim, length in enumerate(tensor.shape):
            places.setdefault(length, []).append((name, dim))
    for length, sharing in places.items():
        if length < 2 or len(sharing) > MAX_SHARING_TENSORS or expected is None:
            continue
        found: list[set] = []
        for count in range(1, len(sharing) + 1):
            for chosen in itertools.combinations(sharing, count):
                if any(known <= set(chosen) for known in found):
                    continue
                half = dict(tensors)
                for name, dim in chosen:
                    half[name] = half[name].narrow(dim, 0, length // 2)
                if what_if.shape(half) == expected:
                    found.append(set(chosen))
                    yield length, list(chosen)


KINDS = (partial, in_few_bits)
