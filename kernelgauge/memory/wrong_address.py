"""Why an access leaves its tensor although its mask is right: a wrong stride, or a wrong start.

The mask is compared with what the kernel's source says (mask_limits.py). If it keeps every index
inside, the address is at fault, and the strides that the kernel used are read off the spacing of
the lanes. What was added before the tile is tried as a multiple of each scalar of the kernel.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from kernelgauge.memory import loop_ends
from kernelgauge.memory.address_source import AddressSource
from kernelgauge.memory.addresses import Region
from kernelgauge.memory.call_sites import source_of
from kernelgauge.memory.coordinates import (
    Access,
    has_size,
    integers,
    is_of_a_block,
    noun,
    spacing,
)
from kernelgauge.memory.mask_limits import (
    Limit,
    function_of,
    limits_of,
    mask_of,
    parts_of,
    values_of,
)
from kernelgauge.memory.terms import Term, terms_of, wrapped
from kernelgauge.words.fault import Note, note


@dataclass(frozen=True)
class _Scalar:
    """A number of the kernel that differs between programs or turns of a loop.

    axis: that of the grid, if it is a program id
    """

    name: str
    value: int
    axis: int | None


def explain(access: Access, region: Region, element: np.ndarray) -> Note | None:
    """Return what is wrong with the address, None if it may be the mask.

    element: int64 offsets in elements, of the tile's shape
    """
    terms = terms_of(access, region)
    if reason := _wrong_factor(access, region, terms):
        return reason
    limits = limits_of(access)
    if reason := not_transposed(access, limits):
        return reason
    steps = spacing(element)
    flat = [limit for limit in limits.values() if limit.value == region.numel]
    if flat and len(region.shape) > 1 and (said := _of_flat_index(access, region, flat[0], steps)):
        return said
    if steps is None or not region.shape:
        return None
    swapped = _are_swapped(region, steps, limits)
    start = int(element.flat[0])
    # The dimensions that an axis of the tile runs along, and what bounds it there.
    taken: dict[int, Limit | None] = {}
    for axis, step in enumerate(steps):
        length, limit = element.shape[axis], limits.get(axis)
        if length == 1 or not step:
            continue
        if limit is None:
            whole = [
                d for d, n in enumerate(region.shape) if (n, region.strides[d]) == (length, step)
            ]
            if not whole:
                return None
            taken[whole[-1]] = None
            continue
        is_used = any(term.index == limit.variable for term in terms)
        if not (limit.step or is_used) and (dim := _in_turn(region, limit, step)) is not None:
            return note(
                "address-is-not-of-masked-index",
                variable=limit.variable,
                many=noun(region.shape, dim),
                tensor=region.name,
            )
        if not limit.step or step % limit.step:
            return None
        used = step // limit.step
        start -= int(limit.values[0]) * used
        dims = [dim for dim, stride in enumerate(region.strides) if stride == used]
        through = np.moveaxis(access.mask, axis, 0).reshape(length, -1).any(1).sum()
        if not dims and _may_take_every_nth(region, limit, used):
            return None
        if not dims and through > 1:
            return _wrong_stride(access, region, limit, used)
        fitting = [dim for dim in dims if limit.value <= region.shape[dim] and dim not in taken]
        if dims and not fitting and through > 1:
            return _other_dimension(access, region, limit, used, dims[-1], swapped)
        if fitting:
            best = max(fitting, key=lambda dim: (region.shape[dim] == limit.value, dim))
            taken[best] = limit
    return _wrong_start(access, region, start, taken)


def not_transposed(access: Access, limits: dict[int, Limit]) -> Note | None:
    """Say so if what the mask bounds runs along the other axes of the tile in the address.

    limits: of the mask
    """
    source = AddressSource(access)
    if len(limits) < 2 or any(
        source.axes_of(limit.variable) != {1 - axis} for axis, limit in limits.items()
    ):
        return None
    return note("mask-is-not-transposed", variable=limits[0].variable, axis=0, other=1)


def _of_flat_index(
    access: Access, region: Region, limit: Limit, steps: list[int] | None
) -> Note | None:
    """The mask bounds a number of all elements, and is the only bound."""
    mask, function, variable = mask_of(access), function_of(access), limit.variable
    parts = [*parts_of(mask, function, access.site)] if mask and function else []
    if sum(isinstance(node, ast.Compare) for node in parts) != 1:
        return None
    said = {
        "variable": variable,
        "limit": limit.name,
        "tensor": region.name,
        "strides": region.strides,
    }
    if variable in AddressSource(access).divided:
        return note("flat-index-is-split-wrong", **said)
    if steps == [limit.step] == [1] and sum(size > 1 for size in region.shape) > 1:
        return note("flat-index-is-not-split", **said)
    return None


def made(access: Access, region: Region, bad: np.ndarray) -> Note | None:
    """Return how the index was made that leaves its dimension in the bad lanes, if it is known."""
    for term in terms_of(access, region):
        dims = term.dimensions(region.shape, region.strides)
        values = term.values[bad]
        if len(dims) == 1 and not _is_within(values, size := region.shape[dims[0]]):
            outside = values[(values < 0) | (values >= size)]
            known = term.definition and not term.is_loaded and not term.is_offset(region.strides)
            return term.made(int(outside[0])) if known else None
    return wrapped(access, region, bad)


def wrong_term(access: Access, region: Region, bad: np.ndarray) -> Note | None:
    """Return which index of the address exceeds its dimension, or moves by no stride.

    The former where each dimension has an index of its own.
    """
    terms = terms_of(access, region)
    if said := _wrong_factor(access, region, terms, of_tiles=False):
        return said
    dims = [term.dimensions(region.shape, region.strides) for term in terms]
    long = [[d] for d, size in enumerate(region.shape) if size > 1]
    if any(term.is_loaded for term in terms) or sorted(filter(None, dims)) != long:
        return None
    for term, own in zip(terms, dims, strict=True):
        values = term.values[bad]
        if own and (past := values[values >= region.shape[own[0]]]).size:
            has = has_size(region.name, region.shape, own[0])
            value = int(past[0])
            return note("index-past-its-dimension", index=term.index, value=value, has=has)
    return None


def _is_within(values: np.ndarray, size: int) -> bool:
    return bool(((values >= 0) & (values < size)).all())


def _wrong_factor(
    access: Access, region: Region, terms: list[Term], *, of_tiles: bool = True
) -> Note | None:
    """Name the index that moves by no stride of the tensor, where the indices fit its dimensions.

    So they would be inside with the strides in place of their factors: it is not the mask.

    of_tiles: whether the index is one that differs between lanes
    """
    terms = [term for term in terms if term.values[access.mask].any()]
    wrong = [term for term in terms if not term.dimensions(region.shape, region.strides)]
    if len(wrong) != 1 or not (access.is_masked or access.pointers.size == 1):
        return None
    (term,) = wrong
    if term.is_tile != of_tiles or term.factor in region.strides:
        return None
    # A step over several rows or tiles is a multiple of a stride.
    is_multiple = any(term.factor % stride == 0 for stride in region.strides if stride > 1)
    is_named = not term.label or term.label in access.launch.arguments
    if not is_named if of_tiles else is_multiple:
        return None
    taken = set()
    for other in terms:
        if other is not term:
            dims = [d for d in other.dimensions(region.shape, region.strides) if d not in taken]
            lanes = other.values[access.mask]
            if len(dims) != 1 or not _is_within(lanes, region.shape[dims[0]]):
                return None
            taken.add(dims[0])
    left = [d for d, size in enumerate(region.shape) if size > 1 and d not in taken]
    if len(left) != 1 or not _is_within(term.values[access.mask], region.shape[left[0]]):
        return None
    return note(
        "wrong-stride",
        variable=term.index,
        used=term.factor,
        label=term.label,
        tensor=region.name,
        strides=region.strides,
        masked=access.is_masked,
    )


def _in_turn(region: Region, limit: Limit, step: int) -> int | None:
    """Return the dimension that an even step runs along although the mask's index is uneven."""
    sizes = zip(region.shape, region.strides, strict=True)
    found = [dim for dim, own in enumerate(sizes) if own == (limit.value, step)]
    return found[0] if found else None


def _may_take_every_nth(region: Region, limit: Limit, used: int) -> bool:
    """Return whether all steps of this size up to the limit end inside, or near, a dimension."""
    for stride, size in zip(region.strides, region.shape, strict=True):
        nth = used // stride if stride and used % stride == 0 else 0
        if nth > 1 and (limit.value - 1) * nth < size + 2 * nth:
            return True
    return False


def _wrong_stride(access: Access, region: Region, limit: Limit, used: int) -> Note:
    names = _factors_of(access, used, limit.variable)
    return note(
        "wrong-stride",
        variable=limit.variable,
        used=used,
        label=names[0] if names else "",
        tensor=region.name,
        strides=region.strides,
    )


def _are_swapped(region: Region, steps: list[int], limits: dict[int, Limit]) -> bool:
    """Return whether the mask bounds each of two axes by the size along which the other one runs.

    Not where the names of the limits say that these are what is swapped: offs_m < N.
    """
    if len(region.shape) != 2 or len(limits) != 2 or not all(it.step for it in limits.values()):
        return False
    names = [(it.variable.lower().split("_")[-1], it.name.lower()) for it in limits.values()]
    if any(one == other for (one, _), (_, other) in (names, names[::-1])):
        return False
    sizes = [limits[axis].value for axis in sorted(limits)]
    used = [steps[axis] / limits[axis].step for axis in sorted(limits)]
    own = [
        size
        for step in used
        for size, its in zip(region.shape, region.strides, strict=True)
        if its == step
    ]
    return sizes == own[::-1] != own


def _other_dimension(
    access: Access, region: Region, limit: Limit, used: int, dim: int, swapped: bool
) -> Note | None:
    """The mask allows what the dimension of this stride does not have."""
    shape = region.shape
    variable, name = limit.variable, limit.name
    meant = [d for d, size in enumerate(shape) if size == limit.value and d != dim]
    if meant and (swapped or limit.is_of_its_name):
        takes = {
            "variable": variable,
            "limit": name,
            "meant": noun(shape, meant[0]),
            "tensor": region.name,
            "used": region.strides[dim],
            "taken": noun(shape, dim),
        }
        if not limit.is_of_its_name:
            return note("strides-or-limits-are-swapped", **takes)
        factors = _factors_of(access, region.strides[dim], variable)
        return note("takes-another-stride", **takes, swapped=bool(factors))
    if variable in AddressSource(access).divided:
        # What is compared numbers elements of several dimensions.
        return None
    compares = note("mask-compares", variable=variable, limit=name, value=limit.value)
    if len(shape) > 2:
        has = has_size(region.name, shape, dim)
        return note("mask-exceeds-dimension", compares=compares, has=has)
    others = [name for value, name in _arguments(access) if value == shape[0]]
    if len(shape) == 1 and others and not is_of_a_block(name):
        return note(
            "index-of-another-tensor",
            compares=compares,
            tensor=region.name,
            size=shape[0],
            other=others[0],
        )
    return None


def _wrong_start(
    access: Access, region: Region, start: int, taken: dict[int, Limit | None]
) -> Note | None:
    """Find the scalar that moves the tile too far. start: where it begins, in elements"""
    rest = [dim for dim, size in enumerate(region.shape) if dim not in taken]
    if start <= 0 or _is_inside(region, start, rest):
        return None
    text = source_of(access.site.file)
    scalars = _scalars(access)
    loops = [(it.value, it.name) for it in scalars if _is_of_a_loop(it.name, text)]
    # A loop may count tiles.
    loops += [(value * by, name) for value, name in loops for by, _ in _arguments(access)]
    for dim, limit in taken.items():
        stride = region.strides[dim]
        # Without other dimensions, all that is added before the tile belongs to this one.
        for begin, name in loops if rest else [(start // stride, "")]:
            left = start - begin * stride
            if rest and begin >= region.shape[dim]:
                # That is a step along another dimension.
                continue
            if limit and left >= 0 and _is_inside(region, left, rest):
                return _of_start(region, begin, dim, taken, [name for _, name in loops])
    found = []
    source = AddressSource(access)
    for scalar in scalars:
        if scalar.name not in source.whole:
            continue
        for rank, factor, label, said in _factors(access, region, scalar, rest):
            left = start - scalar.value * factor
            seen = not label or (scalar.name, label) in source.products
            if seen and left >= 0 and _is_inside(region, left, rest):
                found.append(((left > 0, rank, scalar.value), said))
    return min(found, default=(None, None), key=lambda it: it[0])[1]


def _of_start(
    region: Region, begin: int, dim: int, taken: dict[int, Limit | None], loops: list[str]
) -> Note:
    """Say of a tile that begins further on than its mask knows which of the two is wrong.

    dim: the dimension along which it begins there
    loops: the variables of loops
    """
    for other, limit in taken.items():
        if other != dim and limit and any(re.search(rf"\b{it}\b", limit.name) for it in loops):
            return note(
                "moves-along-another-dimension",
                begin=begin,
                taken=noun(region.shape, dim),
                meant=noun(region.shape, other),
                tensor=region.name,
                variable=limit.variable,
                limit=limit.name,
            )
    own = taken[dim]
    assert own is not None
    return note("mask-without-start-of-tile", begin=begin, variable=own.variable, limit=own.name)


def _factors(
    access: Access, region: Region, scalar: _Scalar, rest: list[int]
) -> Iterator[tuple[int, int, str, Note]]:
    """Yield by what a scalar may have been multiplied: rank, factor, its name, and what to say."""
    moves = {"scalar": scalar.name, "value": scalar.value, "tensor": region.name}
    known = _strides_of(access, region, scalar)
    for dim in rest:
        if scalar.value >= region.shape[dim] and (stride := region.strides[dim]):
            alike = [d for d, its in enumerate(region.strides) if its == stride]
            if not known or (stride in known and len(alike) == 1):
                yield 0, stride, "", _too_large(access, region, scalar, dim)
            elif stride in known and all(scalar.value >= region.shape[d] for d in alike):
                sizes = [region.shape[d] for d in alike]
                yield (
                    0,
                    stride,
                    "",
                    note("scalar-exceeds-stride", label=known[stride], sizes=sizes, **moves),
                )
    own = {region.strides[dim] for dim in rest}
    for factor, label in _arguments(access):
        if factor not in own:
            yield (
                1 if "stride" in label else 2,
                factor,
                label,
                note(
                    "moves-by-another-stride",
                    factor=factor,
                    label=label,
                    strides=region.strides,
                    **moves,
                ),
            )
    for dim, (stride, size) in enumerate(zip(region.strides, region.shape, strict=True)):
        for factor, label in _arguments(access):
            if stride > 1 and "stride" not in label and factor != size:
                yield (
                    3,
                    factor * stride,
                    label,
                    note(
                        "moves-by-another-size",
                        factor=factor,
                        label=label,
                        many=noun(region.shape, dim),
                        size=size,
                        **moves,
                    ),
                )


def _strides_of(access: Access, region: Region, scalar: _Scalar) -> dict[int, str]:
    """Return the strides of a tensor that the address multiplies a scalar by, and their names."""
    own = [it for it in terms_of(access, region) if it.index == scalar.name]
    return {it.factor: it.label for it in own if it.factor in region.strides}


def _too_large(access: Access, region: Region, scalar: _Scalar, dim: int) -> Note:
    shape, axis, has = region.shape, scalar.axis, has_size(region.name, region.shape, dim)
    named = {"scalar": scalar.name, "value": scalar.value, "has": has}
    programs = 0 if axis is None else access.launch.grid[axis]
    if shape[dim] == 1 and len(shape) > 2:
        return note("stride-of-what-is-for-all", **named)
    if axis is not None and len(shape) <= 2 and programs > shape[dim]:
        exceeds = note("grid-exceeds-tensor", programs=programs, axis=axis, has=has)
        indices = _tensors(access, lambda x: not x.is_floating_point())
        if indices and region.name not in indices:
            return note("index-is-to-be-loaded", exceeds=exceeds, source=indices[0])
        vector = [name for value, name in _arguments(access) if value == shape[0]]
        rows = _tensors(access, lambda x: x.dim() > 1 and len(x) == programs)
        if len(shape) == 1 and vector and rows:
            return note("one-for-each-column", exceeds=exceeds, size=vector[0], rows=rows[0])
        if not any(_may_need(programs, x) for x in access.launch.arguments.values()):
            return note("too-many-programs", exceeds=exceeds)
        return note("scalar-is-wrong", exceeds=exceeds)
    exceeds = note("scalar-exceeds-tensor", **named)
    if axis is not None:
        numbers = _tensors(
            access, lambda x: not x.is_floating_point() and x.shape[:1] == (programs,)
        )
        if programs > shape[dim] and numbers and region.name not in numbers:
            return note("index-is-to-be-loaded", exceeds=exceeds, source=numbers[0])
    if tile := _tile_of(access, scalar.name):
        return note("scalar-numbers-tiles", exceeds=exceeds, scalar=scalar.name, **tile)
    if loop := loop_ends.too_far(access, scalar.name, shape[dim]):
        return note("scalar-counts-too-far", exceeds=exceeds, scalar=scalar.name, **loop)
    divides = scalar.name in AddressSource(access).quotients
    return note("scalar-is-divided-wrong" if divides else "scalar-is-wrong", exceeds=exceeds)


def _tile_of(access: Access, number: str) -> dict[str, object]:
    """Return what makes a scalar the number of a tile: offs = number * BLOCK + tl.arange(0, BLOCK).

    {} if nothing does.
    """
    function, given = function_of(access), access.launch.arguments
    made = [(name, it) for name in access.variables if function for it in values_of(name, function)]
    for name, value in made:
        definition = ast.unparse(value)
        if "arange" not in definition:
            continue
        products = [
            {ast.unparse(it.left), ast.unparse(it.right)}
            for it in ast.walk(value)
            if isinstance(it, ast.BinOp) and isinstance(it.op, ast.Mult)
        ]
        for block in access.launch.constexprs:
            if (
                {number, block} in products
                and isinstance(length := given[block], int)
                and length > 1
            ):
                return {"block": block, "length": length, "definition": f"{name} = {definition}"}
    return {}


def _may_need(programs: int, value: object) -> bool:
    """Return whether there are so many indices along some dimensions of a tensor together."""
    if not isinstance(value, torch.Tensor):
        return False
    sizes = [size for size in value.shape if size > 1]
    chosen = (it for n in range(1, len(sizes) + 1) for it in itertools.combinations(sizes, n))
    return programs in map(math.prod, chosen)


def _is_inside(region: Region, start: int, dims: list[int]) -> bool:
    """Return whether an offset is that of indices along these dimensions."""
    for dim in sorted(dims, key=lambda d: -region.strides[d]):
        if region.strides[dim] > 0:
            index = min(start // region.strides[dim], region.shape[dim] - 1)
            start -= index * region.strides[dim]
    return start == 0


def _tensors(access: Access, which: Callable[[torch.Tensor], bool]) -> list[str]:
    """Return the kernel's tensors of this kind, without _ptr in their names."""
    return [
        name.removesuffix("_ptr")
        for name, value in access.launch.arguments.items()
        if isinstance(value, torch.Tensor) and which(value)
    ]


def _is_of_a_loop(name: str, text: str) -> bool:
    return re.search(rf"\bfor {re.escape(name)} in\b", text) is not None


def _scalars(access: Access) -> list[_Scalar]:
    """Return the positive ones, without products of a program id and an argument."""
    text, numbers = source_of(access.site.file), {}
    for name, value in access.variables.items():
        if name in access.launch.arguments:
            continue
        data = integers(value)
        if data is not None and data.size == 1:
            numbers[name] = int(data.flat[0])
        elif isinstance(value, int) and not isinstance(value, bool):
            numbers[name] = value
    ids = [value for value in access.program if value > 1]
    products = {value * factor for value in ids for factor, _ in _arguments(access)}
    found = []
    for name, value in numbers.items():
        if value > 0 and (value not in products or _is_of_a_loop(name, text)):
            set_to = re.search(rf"^\s*{name} = tl\.program_id\((?:axis=)?(\d)\)$", text, re.M)
            found.append(_Scalar(name, value, int(set_to[1]) if set_to else None))
    named = {scalar.axis for scalar in found}
    for axis, value in enumerate(access.program):
        if value and axis not in named:
            found.append(_Scalar(f"program_id({axis})", value, axis))
    return found


def _arguments(access: Access) -> list[tuple[int, str]]:
    """Return the kernel's integer arguments above 1, and their names."""
    return [
        (value, name)
        for name, value in access.launch.arguments.items()
        if isinstance(value, int) and not isinstance(value, bool) and value > 1
    ]


def _factors_of(access: Access, number: int, variable: str) -> list[str]:
    """Return the numbers of this value that the address multiplies the variable by."""
    values = {**access.launch.arguments, **access.variables}
    factors = sorted(it for other, it in AddressSource(access).products if other == variable)
    return [name for name in factors if _is_number(values.get(name), number)]


def _is_number(value: object, number: int) -> bool:
    data = integers(value)
    return value == number if data is None else data.size == 1 and int(data.flat[0]) == number
