"""Mistakes in what a kernel reads, made by giving the reference other inputs: see mistakes.py."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from kernelgauge.core.dtypes import dtype_name, rounds
from kernelgauge.diagnosis.what_if import WhatIf
from kernelgauge.diagnosis.wrong_result import Mistake


def of_options(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield numbers, flags and tuples that are not used as they are given."""
    values = {**what_if.defaults, **what_if.arguments.values}
    options = {name: x for name, x in values.items() if not isinstance(x, (torch.Tensor, list))}
    for name, value in options.items():
        for cause, other in _misused(name, value, what_if.defaults):
            shown = f"{other:.4g}" if isinstance(other, float) else other
            given = "" if isinstance(other, tuple) else f"{name} = {shown}"
            mistake = what_if.mistake(cause, given, **{name: other})
            yield replace(mistake, changes_nothing=other == value)
    for first, second in itertools.combinations(options, 2):
        alike = first.rstrip("0123456789") == second.rstrip("0123456789")
        if alike and isinstance(options[first], float) and isinstance(options[second], float):
            yield _swapped(what_if, first, second, options)


def _misused(name: str, value: object, defaults: Mapping) -> Iterator[tuple[str, object]]:
    """Yield mistakes with one option: the cause, and the value that is used instead.

    At its default an option that is not used leaves the result right: with that, a case that fails
    contradicts it.
    """
    if isinstance(value, bool):
        yield f"{name} is not used", defaults.get(name, not value)
        return
    if isinstance(value, tuple):
        yield f"{name} is used in reverse order", value[::-1]
        if len(value) > 1:
            yield f"the last of {name} is left out", value[:-1]
            yield f"the first of {name} is left out", value[1:]
        return
    if isinstance(value, int) and abs(value) >= 2**31:
        yield f"{name} is truncated to 32 bits", (value + 2**31) % 2**32 - 2**31
    if name in defaults:
        yield f"{name} is not used", defaults[name]
    if isinstance(value, int):
        cause = f"{name} is off by one"
        if name in defaults:
            # The call may not even have given it.
            cause += ", or what it is compared with"
        yield cause, value - 1
        yield cause, value + 1
    if isinstance(value, float):
        yield f"{name} is left out", 0.0
        yield f"the sign of {name} is lost", -value


def taken_for_set(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield flags that count as set where they are not."""
    values = {**what_if.defaults, **what_if.arguments.values}
    for name, value in values.items():
        if isinstance(value, bool) and value == what_if.defaults.get(name):
            cause = f"the result is that of {name} = {not value}, but {name} is {value} here"
            yield what_if.mistake(cause, f"{name} = {not value}", **{name: not value})


def left_out(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield tensors that are not used, and indices that are negated."""
    tensors = what_if.arguments.tensors
    for name, tensor in what_if.numbers.items():
        for value in (0, 1):
            same = torch.full_like(tensor, value)
            yield what_if.mistake(f"{name} is left out", f"{name} set to {value}", **{name: same})
    for name, tensor in tensors.items():
        if tensor.dtype in (torch.int32, torch.int64) and len(tensors) > 1:
            cause = f"the sign of {name} is flipped"
            yield what_if.mistake(cause, f"-{name} instead of {name}", **{name: -tensor})


def swapped(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield pairs of tensors that are used for each other, both or only one of them."""
    tensors = what_if.arguments.tensors
    for first, second in itertools.combinations(tensors, 2):
        one, other = tensors[first], tensors[second]
        if (one.shape, one.dtype) == (other.shape, other.dtype):
            yield _swapped(what_if, first, second, tensors)
            for read, meant in ((first, second), (second, first)):
                cause = f"{read} is read where {meant} is meant"
                yield what_if.mistake(cause, **{meant: tensors[read]})


def _swapped(what_if: WhatIf, first: str, second: str, values: dict) -> Mistake:
    exchanged = {first: values[second], second: values[first]}
    return what_if.mistake(f"{first} and {second} are swapped", **exchanged)


def misread(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield tensors that are read with strides other than their own."""
    tensors = what_if.arguments.tensors
    for name, tensor in tensors.items():
        own, dims = tensor.stride(), range(tensor.dim())
        tried = [("as if it were contiguous", torch.empty(tensor.shape, device="meta").stride())]
        tried += [
            (f"with the strides of {other}", value.stride())
            for other, value in tensors.items()
            if value.shape == tensor.shape
        ]
        tried += [
            (f"with a stride of 1 along dimension {i}", (*own[:i], 1, *own[i + 1 :])) for i in dims
        ]
        for i, j in itertools.combinations(dims, 2):
            swap = {i: own[j], j: own[i]}
            strides = tuple(swap.get(dim, own[dim]) for dim in dims)
            tried.append((f"with the strides of dimensions {i} and {j} swapped", strides))
        for how, strides in tried:
            if strides != own and (read := _with_strides(tensor, strides)) is not None:
                yield what_if.mistake(f"{name} is read {how}", **{name: read})


def one_for_all(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield dimensions that are left out of the offset into one tensor, or into two at once."""
    tensors = what_if.arguments.tensors
    pairs = [
        (first, second)
        for first, second in itertools.combinations(tensors, 2)
        if tensors[first].shape == tensors[second].shape
    ]
    for names in [*((name,) for name in tensors), *pairs]:
        shape = tensors[names[0]].shape
        for dim, length in enumerate(shape):
            if length > 1:
                whose = " and ".join(names)
                yield what_if.mistake(
                    f"an offset into {whose} leaves out dimension {dim}, or its stride",
                    f"index 0 of {whose} everywhere along dimension {dim}",
                    **{name: tensors[name].narrow(dim, 0, 1).expand(shape) for name in names},
                )


def padded(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield tensors whose masked lanes take part in the result."""
    for name, tensor in what_if.numbers.items():
        if tensor.dim() == 0:
            continue
        length = tensor.shape[-1]
        for value, block in itertools.product((0.0, 1.0), what_if.blocks):
            whole = -(-length // block) * block
            if block < 8 or whole == length:
                continue
            wider = torch.nn.functional.pad(tensor, (0, whole - length), value=value)
            changed = what_if.arguments.replaced({name: wider})
            yield Mistake(
                f"masked lanes of {name} count as {value:g}",
                lambda changed=changed, length=length: _cut(what_if.evaluate(changed), length),
                f"rows of {length} padded with {value:g} to {whole}",
            )


def rounded(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield casts of one tensor, or of all, to fewer bits than they have."""
    tensors = what_if.arguments.tensors
    for dtype in (torch.int32, torch.float32, torch.bfloat16, torch.float16):
        names = [name for name, x in tensors.items() if _loses(x.dtype, dtype)]
        for chosen in filter(None, [*([name] for name in names), names]):
            source = tensors[chosen[0]].dtype
            values = {name: tensors[name].to(dtype) for name in chosen}
            if rounds(source):
                values = {name: x.to(tensors[name].dtype) for name, x in values.items()}
            changed = what_if.arguments.replaced(values)
            *most, last = chosen
            who = f"{', '.join(most)} and {last} are" if most else f"{last} is"
            yield Mistake(
                f"{who} cast to {dtype_name(dtype)} on the way",
                lambda changed=changed, source=source, dtype=dtype: _as_stored(
                    what_if.evaluate(changed), source, dtype
                ),
            )


def _as_stored(result: torch.Tensor, source: torch.dtype, dtype: torch.dtype) -> torch.Tensor:
    """Return integers computed in a floating dtype as that dtype holds them."""
    if rounds(source) or not rounds(dtype):
        return result
    ends = torch.iinfo(source)
    return result.to(dtype).double().clamp(ends.min, ends.max)


def _loses(source: torch.dtype, dtype: torch.dtype) -> bool:
    """Return whether a cast from `source` to `dtype` rounds or truncates numbers."""
    if not rounds(source):
        wide = source in (torch.int32, torch.int64)
        return source == torch.int64 if dtype == torch.int32 else wide
    return rounds(dtype) and not source.is_complex and _bits(dtype) < _bits(source)


def _bits(dtype: torch.dtype) -> int:
    return round(-math.log2(torch.finfo(dtype).eps))


def _cut(result: torch.Tensor, length: int) -> torch.Tensor:
    return result[..., :length] if result.dim() > 1 else result


def _with_strides(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor | None:
    """Return the elements at these strides, None if they leave the tensor's memory."""
    last = tensor.storage_offset() + sum(
        (n - 1) * step for n, step in zip(tensor.shape, strides, strict=True)
    )
    room = tensor.untyped_storage().nbytes() // tensor.element_size()
    if tensor.numel() == 0 or last >= room:
        return None
    return tensor.as_strided(tensor.shape, strides)


# What the mistakes of single puzzles come before.
LAST = (taken_for_set,)
KINDS = (of_options, left_out, swapped, misread, one_for_all, padded, rounded)
