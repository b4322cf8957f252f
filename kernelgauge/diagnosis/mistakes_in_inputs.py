"""Mistakes in what a kernel reads, made by giving the reference other inputs: see mistakes.py."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from kernelgauge.core.arguments import Arguments
from kernelgauge.core.dtypes import dtype_name, rounds
from kernelgauge.diagnosis.what_if import WhatIf
from kernelgauge.diagnosis.wrong_result import Mistake
from kernelgauge.words.fault import Note, note

# Tensors that are padded to whole blocks are tried up to this many elements.
MAX_PADDED = 2**22


def of_options(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield numbers, flags and tuples that are not used as they are given."""
    values = {**what_if.defaults, **what_if.arguments.values}
    options = {name: x for name, x in values.items() if not isinstance(x, (torch.Tensor, list))}
    for name, value in options.items():
        for cause, other in _misused(name, value, what_if.defaults):
            given = None
            if not isinstance(other, tuple):
                shown = str(other) if isinstance(other, torch.dtype) else other
                given = note("given-option", name=name, value=shown)
            mistake = what_if.mistake(cause, given, **{name: other})
            yield replace(mistake, changes_nothing=other == value)
    for first, second in itertools.combinations(options, 2):
        alike = first.rstrip("0123456789") == second.rstrip("0123456789")
        if alike and isinstance(options[first], float) and isinstance(options[second], float):
            yield _swapped(what_if, first, second, options)


def _misused(name: str, value: object, defaults: Mapping) -> Iterator[tuple[Note, object]]:
    """Yield mistakes with one option: the cause, and the value that is used instead.

    At its default an option that is not used leaves the result right: with that, a case that fails
    contradicts it.
    """
    if isinstance(value, bool):
        yield note("not-used", name=name), defaults.get(name, not value)
        return
    if isinstance(value, tuple):
        yield note("in-reverse", name=name), value[::-1]
        if len(value) > 1:
            yield note("last-left-out", name=name), value[:-1]
            yield note("first-left-out", name=name), value[1:]
        return
    if isinstance(value, int) and abs(value) >= 2**31:
        yield note("truncated", name=name), (value + 2**31) % 2**32 - 2**31
    if name in defaults:
        yield note("not-used", name=name), defaults[name]
    if isinstance(value, int):
        # The call may not even have given one with a default.
        cause = note("off-by-one-or-compared" if name in defaults else "off-by-one", name=name)
        yield cause, value - 1
        yield cause, value + 1
    if isinstance(value, float):
        yield note("left-out", name=name), 0.0
        yield note("sign-of-option-lost", name=name), -value


def taken_for_set(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield flags that count as set where they are not."""
    values = {**what_if.defaults, **what_if.arguments.values}
    for name, value in values.items():
        if isinstance(value, bool) and value == what_if.defaults.get(name):
            cause = note("taken-for-set", name=name, value=value, other=not value)
            given = note("given-option", name=name, value=not value)
            yield what_if.mistake(cause, given, **{name: not value})


def negated(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield indices that are negated."""
    tensors = what_if.arguments.tensors
    for name, tensor in tensors.items():
        if tensor.dtype in (torch.int32, torch.int64) and len(tensors) > 1:
            cause, given = note("sign-flipped", name=name), note("given-negated", name=name)
            yield what_if.mistake(cause, given, **{name: -tensor})


def special(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield infinities and subnormal numbers that count as 0, and infinities as the largest."""
    for kind, hits, size in (
        ("infinities-are-0", torch.isinf, 0),
        ("infinities-are-finite", torch.isinf, 1),
        ("subnormals-are-0", _subnormal, 0),
    ):
        changed = {}
        for name, x in what_if.numbers.items():
            if x.itemsize == 1 or x.is_complex():
                continue
            hit = hits(x)
            if hit.any():
                changed[name] = torch.where(hit, x.sign() * (size * torch.finfo(x.dtype).max), x)
        for names in [*([name] for name in changed), *([[*changed]] if len(changed) > 1 else [])]:
            values = {name: changed[name] for name in names}
            yield what_if.mistake(note(kind, tensors=names), None, **values)


def _subnormal(x: torch.Tensor) -> torch.Tensor:
    return (x != 0) & (x.abs() < torch.finfo(x.dtype).tiny)


def left_out(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield tensors that are not used."""
    for name, tensor in what_if.numbers.items():
        for value in (0, 1):
            same = torch.full_like(tensor, value)
            given = note("given-number", name=name, value=value)
            yield what_if.mistake(note("left-out", name=name), given, **{name: same})


def swapped(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield pairs of tensors that are used for each other, both or only one of them."""
    tensors = what_if.arguments.tensors
    for first, second in itertools.combinations(tensors, 2):
        one, other = tensors[first], tensors[second]
        if (one.shape, one.dtype) == (other.shape, other.dtype):
            yield _swapped(what_if, first, second, tensors)
            for read, meant in ((first, second), (second, first)):
                cause = note("read-for-another", read=read, meant=meant)
                yield what_if.mistake(cause, **{meant: tensors[read]})


def _swapped(what_if: WhatIf, first: str, second: str, values: dict) -> Mistake:
    exchanged = {first: values[second], second: values[first]}
    return what_if.mistake(note("swapped", first=first, second=second), **exchanged)


def misread(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield tensors that are read with strides other than their own."""
    tensors = what_if.arguments.tensors
    for name, tensor in tensors.items():
        own, dims = tensor.stride(), range(tensor.dim())
        contiguous = torch.empty(tensor.shape, device="meta").stride()
        tried = [(note("read-as-contiguous", name=name), contiguous)]
        tried += [
            (note("read-with-strides-of", name=name, other=other), value.stride())
            for other, value in tensors.items()
            if value.shape == tensor.shape
        ]
        tried += [
            (note("read-with-stride-1", name=name, dim=i), (*own[:i], 1, *own[i + 1 :]))
            for i in dims
        ]
        for i, j in itertools.combinations(dims, 2):
            swap = {i: own[j], j: own[i]}
            strides = tuple(swap.get(dim, own[dim]) for dim in dims)
            cause = note("read-with-strides-swapped", name=name, first=i, second=j)
            tried.append((cause, strides))
        for cause, strides in tried:
            if strides != own and (read := _with_strides(tensor, strides)) is not None:
                yield what_if.mistake(cause, **{name: read})


def _alone_and_in_pairs(tensors: Mapping[str, torch.Tensor]) -> list[tuple[str, ...]]:
    """Return the name of each tensor, and of each two of one shape."""
    pairs = itertools.combinations(tensors, 2)
    alike = [pair for pair in pairs if tensors[pair[0]].shape == tensors[pair[1]].shape]
    return [*((name,) for name in tensors), *alike]


def one_for_all(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield dimensions that are left out of the offset into one tensor, or into two at once."""
    tensors = what_if.arguments.tensors
    for names in _alone_and_in_pairs(tensors):
        shape = tensors[names[0]].shape
        for dim, length in enumerate(shape):
            if length > 1:
                yield what_if.mistake(
                    note("dimension-left-out", tensors=names, dim=dim),
                    note("given-index-0", tensors=names, dim=dim),
                    **{name: tensors[name].narrow(dim, 0, 1).expand(shape) for name in names},
                )


def index_of_others(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield indices along a dimension that belong to others, in one tensor or in two at once.

    They are halved, as where bytes are counted that hold two numbers each; all of a group have that
    of its first one, in pairs or where another tensor has one for each group or a number says how
    many there are; or each block has those of the first block.
    """
    tensors = what_if.arguments.tensors
    numbers = {it for it in what_if.arguments.values.values() if type(it) is int}
    for names in _alone_and_in_pairs(tensors):
        for dim, length in enumerate(tensors[names[0]].shape):
            index = torch.arange(length)
            pairs = ("index-halved", index // 2), ("index-of-the-first", index // 2 * 2)
            tried = [(what, 2, taken) for what, taken in pairs if length > 1]
            sizes = numbers | {it.shape[dim] for it in tensors.values() if it.dim() > dim}
            for groups in sorted(it for it in sizes if 0 < it < length and length % it == 0):
                group = length // groups
                tried.append(("index-of-the-first", group, index // group * group))
            for block in sorted({it for it in what_if.blocks if 1 < it < length}):
                tried.append(("index-within-the-block", block, index % block))
            for what, group, taken in tried:
                yield what_if.mistake(
                    note(what, tensors=names, dim=dim, group=group),
                    **{name: tensors[name].index_select(dim, taken) for name in names},
                )


def padded(what_if: WhatIf) -> Iterator[Mistake]:
    """Yield tensors whose masked lanes take part in the result."""
    for name, tensor in what_if.numbers.items():
        if tensor.dim() == 0:
            continue
        length = tensor.shape[-1]
        for value, block in itertools.product((0.0, 1.0), what_if.blocks):
            whole = -(-length // block) * block
            # Short rows in long blocks, of which each would take gigabytes.
            if block < 8 or whole == length or tensor.numel() // length * whole > MAX_PADDED:
                continue
            yield Mistake(
                note("masked-lanes-count", name=name, value=value),
                functools.partial(_padded, what_if, name, value, whole),
                note("given-padding", length=length, value=value, whole=whole),
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
                values = {name: _within(x, tensors[name].dtype) for name, x in values.items()}
            changed = what_if.arguments.replaced(values)
            yield Mistake(
                note("cast-on-the-way", tensors=chosen, dtype=dtype_name(dtype)),
                functools.partial(_as_stored, what_if, changed, source, dtype),
            )


def _as_stored(
    what_if: WhatIf, arguments: Arguments, source: torch.dtype, dtype: torch.dtype
) -> torch.Tensor:
    """Return the result, integers computed in a floating dtype as that dtype holds them."""
    result = what_if.evaluate(arguments)
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


def _within(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers in another dtype, the largest of it where they are larger."""
    back = x.to(dtype)
    if not dtype.is_floating_point:
        return back
    most = x.sign().to(dtype) * torch.finfo(dtype).max
    return torch.where(x.isfinite() & back.isinf(), most, back)


def _bits(dtype: torch.dtype) -> int:
    return round(-math.log2(torch.finfo(dtype).eps))


def _padded(what_if: WhatIf, name: str, value: float, whole: int) -> torch.Tensor:
    tensor = what_if.arguments.tensors[name]
    length = tensor.shape[-1]
    wider = torch.nn.functional.pad(tensor, (0, whole - length), value=value)
    result = what_if.evaluate(what_if.arguments.replaced({name: wider}))
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
LAST = (taken_for_set, negated, index_of_others)
KINDS = (of_options, special, left_out, swapped, misread, one_for_all, padded, rounded)
