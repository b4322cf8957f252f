"""Mistakes in a loop that sums: it covers only some of its steps, or its sum loses bits.

The dimensions that are summed over are found by trial: they can shrink while the result keeps its
shape.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator

import torch

from kernelgauge.core.dtypes import dtype_name
from kernelgauge.diagnosis.what_if import Tensors, WhatIf
from kernelgauge.diagnosis.wrong_result import Mistake
from kernelgauge.words.fault import note

# A size that more dimensions than this share is not tried.
MAX_SHARING_DIMS = 6
# Of so many numbers the reference is run on the inputs themselves. On meta tensors, which cost
# nothing at any size, torch first imports its compiler, which takes seconds.
MAX_NUMEL = 2**16
# Longest loop whose sum is computed step by step.
MAX_STEPS = 128

Dims = list[tuple[str, int]]

# What `reduced` found for inputs of these shapes, since it is asked again and again.
_reduced: dict[tuple, list[tuple[int, Dims]]] = {}
MAX_KEPT = 256


def partial(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield sums over a part of the loop's steps."""
    early, late = note("ends-too-early"), note("accumulator-overwritten")
    for length, dims in reduced(what_if):
        name, dim = dims[0]
        for block in what_if.blocks:
            if not 1 < block < length:
                continue
            rest = (length - 1) // block * block
            parts = [(0, end, early) for end in sorted({block, rest})]
            for begin, end, cause in (*parts, (rest, length, late)):
                given = note(
                    "given-last" if begin else "given-first",
                    count=end - begin,
                    length=length,
                    dim=dim,
                    name=name,
                )
                yield what_if.mistake(cause, given, **_narrowed(what_if, dims, begin, end))


def advanced_without_stride(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield pointers that advance by the block's size from step to step, and not by its stride."""
    for length, dims in reduced(what_if):
        for block in what_if.blocks:
            if not 1 < block < length:
                continue
            strided = [it for it in dims if what_if.arguments.tensors[it[0]].stride(it[1]) != 1]
            for chosen in filter(None, [*([it] for it in strided), strided]):
                yield Mistake(
                    note("advanced-without-stride", tensors=[name for name, _ in chosen]),
                    functools.partial(_with_advanced, what_if, chosen, block),
                    note("given-steps", block=block),
                )


def _with_advanced(what_if: WhatIf, dims: Dims, block: int) -> torch.Tensor:
    tensors = what_if.arguments.tensors
    read = {name: _advanced(tensors[name], dim, block) for name, dim in dims}
    return what_if.evaluate(what_if.arguments.replaced(read))


def _advanced(tensor: torch.Tensor, dim: int, block: int) -> torch.Tensor:
    """Return what is read at the strides of a tensor within blocks, and every `block` elements."""
    length, step = tensor.shape[dim], tensor.stride(dim)
    along = torch.arange(length)
    along = (along // block * block + along % block * step).view(
        -1, *[1] * (tensor.dim() - dim - 1)
    )
    index = along + tensor.storage_offset()
    for other, size in enumerate(tensor.shape):
        if other != dim:
            places = torch.arange(size) * tensor.stride(other)
            index = index + places.view(-1, *[1] * (tensor.dim() - other - 1))
    memory = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    return memory[index]


def in_few_bits(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield sums that are rounded to the inputs' dtype after each step, and before it too."""
    dtypes = {x.dtype for x in what_if.arguments.tensors.values()} & {torch.float16, torch.bfloat16}
    for length, dims in reduced(what_if) if dtypes else ():
        for block in what_if.blocks:
            if not 1 < block < length <= MAX_STEPS * block:
                continue
            parts = functools.cache(functools.partial(_parts, what_if, dims, length, block))
            for dtype in dtypes:
                word = dtype_name(dtype)
                for each, given in (
                    (False, "given-rounding-after"),
                    (True, "given-rounding-around"),
                ):
                    yield Mistake(
                        note("sum-in-few-bits", dtype=word),
                        functools.partial(_summed, parts, dtype, each),
                        note(given, dtype=word, block=block, length=length),
                    )


def _parts(what_if: WhatIf, dims: Dims, length: int, block: int) -> list[torch.Tensor]:
    """Return the results of each step alone. Raises ValueError unless they add up to the whole."""
    parts = []
    for begin in range(0, length, block):
        values = _narrowed(what_if, dims, begin, min(begin + block, length))
        parts.append(what_if.evaluate(what_if.arguments.replaced(values)))
    if not torch.allclose(torch.stack(parts).sum(0), what_if.evaluate(what_if.arguments)):
        raise ValueError("the reference is not the sum of its parts")
    return parts


def _summed(
    parts_of: Callable[[], list[torch.Tensor]], dtype: torch.dtype, each: bool
) -> torch.Tensor:
    """Return the sum, rounded after each step; each: whether the step's own part is rounded too."""
    parts = parts_of()
    total = torch.zeros_like(parts[0])
    for part in parts:
        total = (total + (part.to(dtype).double() if each else part)).to(dtype).double()
    return total


def _narrowed(what_if: WhatIf, dims: Dims, begin: int, end: int) -> Tensors:
    values: dict[str, torch.Tensor] = {}
    for name, dim in dims:
        whole = values.get(name, what_if.arguments.tensors[name])
        values[name] = whole.narrow(dim, begin, end - begin)
    return values


def reduced(what_if: WhatIf) -> list[tuple[int, Dims]]:
    """Return each size that the result does not have, and the dimensions of inputs that have it."""
    given = what_if.arguments
    kinds = [(name, x.dtype, x.shape, x.stride()) for name, x in given.tensors.items()]
    options = [x for x in given.values.values() if not isinstance(x, (torch.Tensor, list))]
    key = inspect.unwrap(what_if.function), what_if.number, repr((kinds, options))
    if key not in _reduced:
        if len(_reduced) >= MAX_KEPT:
            _reduced.clear()
        _reduced[key] = list(_shrinking(what_if))
    return _reduced[key]


def _shrinking(what_if: WhatIf) -> Iterator[tuple[int, Dims]]:
    tensors = dict(what_if.arguments.tensors)
    if len(what_if.numbers) < len(tensors) or sum(map(torch.numel, tensors.values())) > MAX_NUMEL:
        tensors = {
            name: torch.empty(x.shape, dtype=x.dtype, device="meta") for name, x in tensors.items()
        }
    expected = what_if.shape(tensors)
    by_length: dict[int, Dims] = {}
    for name, tensor in tensors.items():
        for dim, length in enumerate(tensor.shape):
            by_length.setdefault(length, []).append((name, dim))
    for length, sharing in by_length.items():
        if length < 2 or len(sharing) > MAX_SHARING_DIMS or expected is None:
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


def once_more(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield sums that are added up again over a block in which each element has them."""
    if not list(reduced(what_if)):
        return
    # A tile's length is a power of two, and one that the caller gives, such as k, is no tile's.
    given = [it for it in what_if.arguments.values.values() if isinstance(it, int)]
    tiles = {it for it in what_if.blocks if it > 1 and not it & (it - 1)}
    for block in sorted(tiles.difference(given)):

        def made(block: int = block) -> torch.Tensor:
            return what_if.evaluate(what_if.arguments) * block

        yield Mistake(note("summed-once-more", block=block), made)


KINDS = (partial, in_few_bits, advanced_without_stride)
# What is tried after the mistakes of one puzzle alone.
LAST = (once_more,)
