"""Mistakes in what a kernel reads: the reference is given other inputs, see mistakes.py."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch

from judge.core.dtypes import dtype_name, rounds
from judge.diagnosis.what_if import WhatIf
from judge.diagnosis.wrong_result import Mistake


def of_options(what_if: WhatIf) -> Iterator[Mistake]:
    """A number, a flag or a tuple that is not used as it is given."""
    options = {
        name: value
        for name, value in (what_if.defaults | what_if.arguments.values).items()
        if not isinstance(value, torch.Tensor)
    }
    for name, value in options.items():
        default = what_if.defaults.get(name)
        if isinstance(value, bool):
            cause = f"{name} not used"
            yield what_if.mistake(cause, f"{name} = {not value}", **{name: not value})
            continue
        if isinstance(value, tuple):
            cause = f"{name} in reverse order"
            yield what_if.mistake(cause, **{name: value[::-1]})
            for word, part in (("last", value[:-1]), ("first", value[1:])):
                if part:
                    cause = f"the {word} of {name} left out"
                    yield what_if.mistake(cause, **{name: part})
            continue
        if isinstance(value, int) and abs(value) >= 2**31:
            cut = (value + 2**31) % 2**32 - 2**31
            cause = f"{name} cut to 32 bits"
            yield what_if.mistake(cause, f"{name} = {cut}", **{name: cut})
        if default != value:
            cause = f"{name} not used"
            yield what_if.mistake(cause, f"{name} = {default}", **{name: default})
        if isinstance(value, int):
            for other in (value - 1, value + 1):
                cause = f"{name} off by one"
                yield what_if.mistake(cause, f"{name} = {other}", **{name: other})
        if isinstance(value, float):
            cause = f"{name} left out"
            yield what_if.mistake(cause, f"{name} = 0", **{name: 0.0})
            cause = f"the sign of {name} lost"
            yield what_if.mistake(cause, f"{name} = {-value:.4g}", **{name: -value})
    for first, second in itertools.combinations(options, 2):
        alike = first.rstrip("0123456789") == second.rstrip("0123456789")
        if alike and isinstance(options[first], float) and isinstance(options[second], float):
            values = {first: options[second], second: options[first]}
            cause = f"{first} and {second} exchanged"
            yield what_if.mistake(cause, **values)


def left_out(what_if: WhatIf) -> Iterator[Mistake]:
    for name, tensor in what_if.numbers.items():
        cause = f"{name} left out"
        for value in (0, 1):
            same = torch.full_like(tensor, value)
            yield what_if.mistake(cause, f"{name} taken as {value}", **{name: same})
    for name, tensor in what_if.arguments.tensors.items():
        if tensor.dtype in (torch.int32, torch.int64) and len(what_if.arguments.tensors) > 1:
            yield what_if.mistake(
                f"the sign of {name} turned", f"-{name} for {name}", **{name: -tensor}
            )


def exchanged(what_if: WhatIf) -> Iterator[Mistake]:
    tensors = what_if.arguments.tensors
    for first, second in itertools.combinations(tensors, 2):
        if (tensors[first].shape, tensors[first].dtype) == (
            tensors[second].shape,
            tensors[second].dtype,
        ):
            cause = f"{first} and {second} exchanged"
            values = {first: tensors[second], second: tensors[first]}
            yield what_if.mistake(cause, **values)


def misread(what_if: WhatIf) -> Iterator[Mistake]:
    """Strides that are not a tensor's own."""
    tensors = what_if.arguments.tensors
    for name, tensor in tensors.items():
        dense = torch.empty(tensor.shape, device="meta").stride()
        tried = [("as if it were contiguous", dense)]
        tried += [
            (f"by the strides of {other}", value.stride())
            for other, value in tensors.items()
            if value.shape == tensor.shape
        ]
        tried += [
            (
                f"with a stride of 1 along dimension {i}",
                (*tensor.stride()[:i], 1, *tensor.stride()[i + 1 :]),
            )
            for i in range(tensor.dim())
        ]
        tried += [
            (f"with the strides of dimensions {i} and {j} swapped", _swapped(tensor.stride(), i, j))
            for i, j in itertools.combinations(range(tensor.dim()), 2)
        ]
        for how, strides in tried:
            if strides != tensor.stride() and (read := _with_strides(tensor, strides)) is not None:
                cause = f"{name} read {how}"
                yield what_if.mistake(cause, **{name: read})


def one_for_all(what_if: WhatIf) -> Iterator[Mistake]:
    """An offset that leaves a dimension out."""
    tensors = what_if.arguments.tensors
    pairs = [
        pair
        for pair in itertools.combinations(tensors, 2)
        if tensors[pair[0]].shape == tensors[pair[1]].shape
    ]
    for names in [*((name,) for name in tensors), *pairs]:
        for dim, length in enumerate(tensors[names[0]].shape):
            if length > 1:
                whose = " and ".join(names)
                first = {name: tensors[name].narrow(dim, 0, 1) for name in names}
                yield what_if.mistake(
                    f"an offset into {whose} that leaves out dimension {dim}, or its stride",
                    f"index 0 of {whose} there for all",
                    **{name: x.expand(tensors[name].shape) for name, x in first.items()},
                )


def padded(what_if: WhatIf) -> Iterator[Mistake]:
    """Masked-off lanes that take part."""
    for name, tensor in what_if.numbers.items():
        if tensor.dim() == 0:
            continue
        for value in (0.0, 1.0):
            length = tensor.shape[-1]
            for block in what_if.blocks:
                whole = -(-length // block) * block
                if block < 8 or whole == length:
                    continue
                wider = torch.nn.functional.pad(tensor, (0, whole - length), value=value)
                changed = what_if.arguments.replaced({name: wider})
                yield Mistake(
                    f"masked-off lanes of {name} that count as {value:g}",
                    lambda changed=changed, length=length: _cut(what_if.evaluate(changed), length),
                    f"rows of {whole} that hold {value:g} after the first {length}",
                )


def rounded(what_if: WhatIf) -> Iterator[Mistake]:
    """A step in fewer bits than the inputs have."""
    tensors = what_if.arguments.tensors
    for dtype in (torch.int32, torch.float32, torch.bfloat16, torch.float16):
        names = [name for name, x in tensors.items() if _loses(x.dtype, dtype)]
        sets = [*([name] for name in names), names]
        for chosen in filter(None, sets):
            whose = " and ".join(chosen)
            values = {name: tensors[name].to(dtype) for name in chosen}
            if rounds(tensors[chosen[0]].dtype):
                values = {name: x.to(tensors[name].dtype) for name, x in values.items()}
            word = dtype_name(dtype)
            changed = what_if.arguments.replaced(values)
            yield Mistake(
                f"{whose} cast to {word} on the way",
                lambda changed=changed, source=tensors[chosen[0]].dtype, dtype=dtype: _as_stored(
                    what_if.evaluate(changed), source, dtype
                ),
            )


def _as_stored(result: torch.Tensor, source: torch.dtype, dtype: torch.dtype) -> torch.Tensor:
    """Whole numbers that were computed in a floating dtype come out as it holds them."""
    if rounds(source) or not rounds(dtype):
        return result
    ends = torch.iinfo(source)
    return result.to(dtype).double().clamp(ends.min, ends.max)


def _loses(source: torch.dtype, dtype: torch.dtype) -> bool:
    """Whether numbers of `source` are rounded, or cut off, where they are cast to `dtype`."""
    if not rounds(source):
        wide = source in (torch.int32, torch.int64)
        return source == torch.int64 if dtype == torch.int32 else wide
    return rounds(dtype) and not source.is_complex and _bits(dtype) < _bits(source)


def _bits(dtype: torch.dtype) -> int:
    return round(-math.log2(torch.finfo(dtype).eps))


def _cut(result: torch.Tensor, length: int) -> torch.Tensor:
    return result[..., :length] if result.dim() > 1 else result


def _swapped(strides: tuple[int, ...], i: int, j: int) -> tuple[int, ...]:
    strides = list(strides)
    strides[i], strides[j] = strides[j], strides[i]
    return tuple(strides)


def _with_strides(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor | None:
    """The elements at these strides, None where they leave the tensor's memory."""
    last = tensor.storage_offset() + sum(
        (n - 1) * step for n, step in zip(tensor.shape, strides, strict=True)
    )
    room = tensor.untyped_storage().nbytes() // tensor.element_size()
    if tensor.numel() == 0 or last >= room:
        return None
    return tensor.as_strided(tensor.shape, strides)


KINDS = (of_options, left_out, exchanged, misread, one_for_all, padded, rounded)
