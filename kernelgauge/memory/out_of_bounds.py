"""An access out of bounds: which lanes, and what would keep them inside."""

from __future__ import annotations

import ast
import re

import numpy as np

from kernelgauge.memory import gathered, loop_ends, terms, wrong_address
from kernelgauge.memory.address_source import AddressSource
from kernelgauge.memory.addresses import Region
from kernelgauge.memory.call_sites import ACCESS_CALLS
from kernelgauge.memory.coordinates import (
    Access,
    LaneCoordinates,
    as_walked,
    format_lanes,
    has_size,
    is_of_a_block,
    locate,
    noun,
    spacing,
    spans,
)
from kernelgauge.memory.mask_limits import (
    STRICT,
    Limit,
    limit_names,
    limits_of,
    names_compared,
)
from kernelgauge.words.fault import Fault, Note, note

# Sizes up to this one may be those of something else.
MAX_BY_CHANCE = 16


def explain(access: Access, region: Region | None, bad: np.ndarray) -> Fault:
    """Return the fault: kind, place and call, what happened, and what to do.

    region: what the bad lanes point into or near; None where the addresses belong to no tensor
    bad: which lanes of the tile are outside the elements of the region
    """
    said: dict[str, object] = {
        "program": access.program,
        "verb": access.verb,
        "lanes": _lanes(access, bad),
    }
    fault = Fault(
        "wild-pointer",
        place=access.place,
        program=access.program,
        grid=access.launch.grid,
        numbers={"lanes": int(bad.sum()), "of": int(access.mask.sum())},
    )
    if region is not None:
        return _explain_near(access, region, bad, fault.but(tensor=region.name), said)
    address = int(access.pointers[bad][0])
    return fault.but(
        said=(note("access-of-no-tensor", address=address, **said),),
        remedy=note("pointer-is-null" if address < 4096 else "pointer-is-wild"),
    )


def _explain_near(
    access: Access, region: Region, bad: np.ndarray, fault: Fault, said: dict[str, object]
) -> Fault:
    """Return the whole fault for addresses in the window of a tensor."""
    name, size = region.name, access.size
    said |= {"tensor": name}
    offset = region.offsets(access.pointers)
    if not (offset[bad] + region.real & (size - 1) == 0).all():
        return fault.but(
            kind="misaligned-access",
            said=(note("access-misaligned", size=size, **said),),
            remedy=note("pointer-is-misaligned"),
        )
    element = offset // region.itemsize
    region = as_walked(access, region, element)
    placed = _placed(access, region, element)
    dim = _exceeded(placed, bad)
    said |= {"element": format_lanes(name, placed, bad)}
    numbers = {**fault.numbers, "index": spans(placed, bad)}
    if dim is None:
        kind, what = "between-elements", note("access-between-elements", **said)
    else:
        what = note("access-outside", has=has_size(name, placed.shape, dim), **said)
        kind, numbers["size"] = "out-of-bounds", placed.shape[dim]
    kind += "-load" if access.verb == "reads" else "-store"
    unwrapped = offset[bad] + 2**32 * region.itemsize
    if ((unwrapped >= 0) & (unwrapped < region.extent)).any():
        kind, remedy = "offset-overflow", note("offset-wraps-around")
    else:
        remedy = _remedy(access, region, element, placed, dim, bad)
    made = wrong_address.made(access, region, bad)
    said_too = (what, made) if made else (what,)
    return fault.but(kind=kind, said=said_too, numbers=numbers, remedy=remedy)


def _placed(access: Access, region: Region, element: np.ndarray) -> LaneCoordinates:
    """Find each lane's index in the tensor, by the terms of the address where they are known."""
    found, own = locate(access, region, element), terms.placed(access, region)
    if own is None or found.shape != own.shape:
        return found
    axis = {
        dim: it for dim, it in found.axis.items() if _are_same(found.index[dim], own.index[dim])
    }
    names = {dim: it for dim, it in found.names.items() if dim in axis}
    return LaneCoordinates(own.shape, own.index, axis, own.names | names)


def _are_same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is not None and other is not None and np.array_equal(one, other)


def _lanes(access: Access, bad: np.ndarray) -> Note:
    if access.pointers.size == 1:
        return note("one-lane-outside")
    id = "masked-lanes-outside" if access.is_masked else "lanes-outside"
    return note(id, lanes=int(bad.sum()), of=int(access.mask.sum()))


def _exceeded(placed: LaneCoordinates, bad: np.ndarray) -> int | None:
    """Return the first dimension whose size a bad lane exceeds, if there is one."""
    for dim, (index, size) in enumerate(zip(placed.index, placed.shape, strict=True)):
        if index is not None and ((index[bad] < 0) | (index[bad] >= size)).any():
            return dim
    return None


def _remedy(
    access: Access,
    region: Region,
    element: np.ndarray,
    placed: LaneCoordinates,
    dim: int | None,
    bad: np.ndarray,
) -> Note:
    name, strides = region.name, region.strides
    is_call_of_tl = _is_call_of_tl(access)
    if is_call_of_tl:
        reason = gathered.explain(access, region, element, bad)
        if reason or (reason := wrong_address.explain(access, region, element)):
            return reason
    if dim is None:
        gaps = note("tensor-has-gaps", tensor=name, strides=strides)
        return wrong_address.wrong_term(access, region, bad) or gaps
    index, last = placed.index[dim], placed.shape[dim] - 1
    assert index is not None
    variable, limit = _comparison(access, placed, dim)
    before = (index[access.mask] < 0).all() and access.pointers.size > 1
    if before and (dim in placed.axis or bad[access.mask].all()):
        return note("tile-before-tensor", tensor=name, variable=variable)
    if (index[bad] < 0).any():
        return note("negative-index", variable=variable)
    if access.pointers.size == 1:
        return note("scalar-past-end", one=noun(placed.shape, dim, 1), last=last, limit=limit)
    if not is_call_of_tl:
        return note(
            "descriptor-of-another-tensor", tensor=name, shape=placed.shape, strides=strides
        )
    many, compared = noun(placed.shape, dim), {"variable": variable, "limit": limit}
    steps = spacing(element)
    if steps and not placed.axis:
        apart = [it for it in steps if it]
        return note("lanes-take-no-stride", steps=apart, tensor=name, strides=strides)
    if steps and (nth := _apart(placed, dim)) and steps[placed.axis[dim]] not in strides:
        return note("lanes-are-apart", step=nth, many=many, tensor=name, strides=strides)
    if not access.is_masked:
        looped = loop_ends.explain(access, index[access.mask], last + 1, variable, limit)
        if not looped and _may_be_a_single_one(access, region, placed, dim):
            return note("tile-has-no-mask", tensor=name)
        return looped or note("tile-without-mask", many=many, **compared)
    most = int(index[access.mask].max())
    which = note("index-of-dimension", index=most, dim=dim, dims=len(placed.shape))
    through = note("mask-lets-through", which=which, last=last)
    inclusive = (ast.LtE, ast.GtE)
    if most == last + 1 and (own := _limit_of_mask(access, placed, dim, inclusive)):
        limit = own.name if own.value == most else limit
        return note("mask-is-too-wide", through=through, limit=limit, compared="<=")
    found = _limit_of_mask(access, placed, dim)
    if found and found.value <= placed.shape[dim]:
        return _shifted(placed, dim, found)
    if dim in placed.axis and _is_constant(access.mask, placed.axis[dim]):
        others = {it for of, it in names_compared(access) if of == variable and it != limit}
        if len(others) == 1 and (other := others.pop()) in access.sizes:
            sizes = {"other": other, "value": access.sizes[other], "size": last + 1}
            return note("index-of-another-size", tensor=name, **sizes, **compared)
        return note("mask-without-bound", many=many, **compared)
    if found and found.value == most + 1:
        if most == last + 1:
            wrong = f"< {found.name}"
            return note("mask-is-too-wide", through=through, limit=limit, compared=wrong)
        if found.name in access.sizes:
            return note(
                "mask-compares-with-another-size",
                through=through,
                other=found.name,
                value=found.value,
                **compared,
            )
    if dim in placed.axis:
        return note("mask-lets-index-through", through=through, **compared)
    # Which index is too large is not known of the address alone, only where that leads.
    return (
        _bounded_by_another_dimension(access, region)
        or wrong_address.wrong_term(access, region, bad)
        or (dim in placed.names and note("mask-lets-index-through", through=through, **compared))
        or note("address-past-end", tensor=name, shape=placed.shape, strides=strides)
    )


def _may_be_a_single_one(access: Access, region: Region, placed: LaneCoordinates, dim: int) -> bool:
    """Return whether the tile may run along another dimension, of one element and one's stride.

    An index alone walks over all of the tensor; with another beside it, either may be meant.
    """
    if placed.shape != region.shape or len(terms.terms_of(access, region)) < 2:
        return False
    dims = enumerate(zip(region.shape, region.strides, strict=True))
    return (1, region.strides[dim]) in [it for other, it in dims if other != dim]


def _bounded_by_another_dimension(access: Access, region: Region) -> Note | None:
    """Return which index is compared with the size of a dimension that its stride is not of."""
    shape, strides, numbers = region.shape, region.strides, access.launch.arguments
    compared = {*names_compared(access)}
    for variable, stride in sorted(AddressSource(access).products):
        dims = [i for i, it in enumerate(strides) if it == numbers.get(stride) and shape[i] > 1]
        limits = [limit for index, limit in compared if index == variable]
        if len(dims) != 1 or len(limits) != 1:
            continue
        (dim,), (limit,) = dims, limits
        value = access.sizes.get(limit, 0)
        if value > shape[dim] and value in shape:
            return note(
                "bounded-by-another-dimension",
                variable=variable,
                limit=limit,
                value=value,
                stride=stride,
                tensor=region.name,
                dim=dim,
                size=shape[dim],
            )
    return None


def _apart(placed: LaneCoordinates, dim: int) -> int:
    """Return the step from lane to lane along a dimension, 0 if it is 1 or a variable has it."""
    index = placed.index[dim]
    if dim not in placed.axis or placed.names.get(dim) or index is None:
        return 0
    along = np.moveaxis(index, placed.axis[dim], 0).reshape(index.shape[placed.axis[dim]], -1)
    step = int(along[1, 0] - along[0, 0])
    return step if step > 1 else 0


def _shifted(placed: LaneCoordinates, dim: int, limit: Limit) -> Note:
    """The mask bounds its own index, and the address has another."""
    index, axis = placed.index[dim], placed.axis[dim]
    assert index is not None
    along = np.moveaxis(index, axis, 0).reshape(index.shape[axis], -1)[:, 0]
    shift = np.unique(along - limit.values)
    said = {"variable": limit.variable, "limit": limit.name}
    if shift.size == 1 and shift[0]:
        return note("address-is-shifted", shift=int(shift[0]), **said)
    return note("address-has-another-index", **said)


def _is_call_of_tl(access: Access) -> bool:
    call = access.site.call(*ACCESS_CALLS[access.verb])
    if "tl." in call or "triton.language." in call:
        return True
    # Of Gluon's, an argument of a copy by TMA may be a call of it, too.
    return bool(re.search(r"\bgl\.\w+$", call.partition("(")[0].rstrip()))


def _is_constant(mask: np.ndarray, axis: int) -> bool:
    return bool((mask == mask.take([0], axis=axis)).all())


def _limit_of_mask(
    access: Access, placed: LaneCoordinates, dim: int, operators: tuple[type, type] = STRICT
) -> Limit | None:
    """Return what the mask compares the index along a dimension with, if the source shows it."""
    return limits_of(access, operators).get(placed.axis[dim]) if dim in placed.axis else None


def _comparison(access: Access, placed: LaneCoordinates, dim: int) -> tuple[str | Note, str | Note]:
    """Return the index expression to compare, and its limit, in the kernel's own names."""
    size = placed.shape[dim]
    limits = [name for name, value in access.sizes.items() if value == size]
    names = placed.names.get(dim, {})
    own = AddressSource(access).names
    names = {n: axes for n, axes in names.items() if n in own} or names
    alike = {name for n in names for name in limits if n.lower().split("_")[-1] == name.lower()}
    if (len(limits) > 1 and not alike) or not names:
        # Another argument may have the same value by chance.
        known = [name for name in limits if name in limit_names(access)]
        limits = (known or limits) if names or size > MAX_BY_CHANCE else []
    if not limit_names(access).intersection(limits):
        # A tile may have the size of the tensor by chance; it does not end one.
        limits = [name for name in limits if not is_of_a_block(name)]
    total = access.pointers.ndim
    subscript = ""
    if total > 1 and dim in placed.axis:
        subscript = ", ".join(":" if axis == placed.axis[dim] else "None" for axis in range(total))
        subscript = f"[{subscript}]"
    # Where row and column indices are equal, as in the first program, their places in the mask and
    # their subscripts differ.
    if (compared := _limit_of_mask(access, placed, dim)) and compared.variable in names:
        names = {compared.variable: names[compared.variable]}
    names = {n: axes for n, axes in names.items() if access.site.has(n + subscript)} or names
    pairs = [(n, s) for n in names for s in limits if n.lower().split("_")[-1] == s.lower()]
    if pairs:
        names, limits = {pairs[0][0]: names[pairs[0][0]]}, [pairs[0][1]]
    if len(names) == 1 and not pairs and not access.is_masked:
        # A mask elsewhere in the kernel says more than a value.
        compared_with = limit_names(access, *names) & access.sizes.keys()
        limits = (
            [name for name in limits if name in compared_with] or sorted(compared_with) or limits
        )
    limit: str | Note = note("number", number=size)
    if limits:
        limit = limits[0] if len(limits) == 1 else note("one-of", names=limits)
    if len(names) != 1:
        if len(placed.shape) != 2:
            return note("any-index"), limit
        return note("the-index", one=noun(placed.shape, dim, 1)), limit
    ((name, axes),) = names.items()
    return name + subscript * (axes == 1), limit
