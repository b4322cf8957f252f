"""The message for an access out of bounds: which lanes, and what would keep them inside."""

from __future__ import annotations

import numpy as np

from kernelgauge.memory import gathered, wrong_address
from kernelgauge.memory.addresses import Region
from kernelgauge.memory.call_sites import ACCESS_CALLS
from kernelgauge.memory.coordinates import Access, LaneCoordinates, format_lanes, locate, noun
from kernelgauge.memory.mask_limits import Limit, limit_names, limits_of


def explain(access: Access, region: Region | None, bad: np.ndarray) -> str:
    """Return the message: place and call, what happened, hint.

    region: what the bad lanes point into or near; None where the addresses belong to no tensor
    bad: which lanes of the tile are outside the elements of the region
    """
    if region is None:
        address = int(access.pointers[bad][0])
        what = f"address {address:#x}, which belongs to no tensor"
        hint = "a pointer comes from a tensor argument, or from a data_ptr() loaded from memory"
        if address < 4096:
            hint += "; this one is null"
    else:
        what, hint = _explain_near(access, region, bad)
    return (
        f"{access.headline}\n"
        f"program {access.program} {access.verb} {what}: {_lanes(access, bad)}\n"
        f"hint: {hint}"
    )


def _explain_near(access: Access, region: Region, bad: np.ndarray) -> tuple[str, str]:
    """Return what is accessed, and the hint, for addresses in the window of a tensor."""
    name, size = region.name, access.size
    offset = (access.pointers - np.uint64(region.virtual)).view(np.int64)
    if not (offset[bad] + region.real & (size - 1) == 0).all():
        return (
            f"{size} bytes of {name} at an address that is not a multiple of {size}",
            "a GPU faults on an access that is not aligned to its size; a pointer moves by whole "
            "elements of its own type",
        )
    placed = locate(access, region, offset // region.itemsize)
    dim = _exceeded(placed, bad)
    lanes = format_lanes(name, placed, bad)
    if dim is None:
        what = f"memory between the elements of {name}, near {lanes}"
    else:
        what = f"{lanes} but {name} has {_size_text(placed.shape, dim)}"
    unwrapped = offset[bad] + 2**32 * region.itemsize
    if ((unwrapped >= 0) & (unwrapped < region.extent)).any():
        return what, (
            "the offset is 2**32 too small: it passed 2**31, where an int32 wraps around; make a "
            "factor of it int64, as in tl.program_id(0).to(tl.int64), or in offs.to(tl.int64) if a "
            "stride is that large"
        )
    if _is_call_of_tl(access):
        element = offset // region.itemsize
        reason = gathered.explain(access, region, element, bad)
        if reason or (reason := wrong_address.explain(access, region, element)):
            return what, reason
    if dim is None:
        return what, f"{name} has strides {region.strides}; what lies between is not part of it"
    return what, _hint(access, region, placed, dim, bad)


def _lanes(access: Access, bad: np.ndarray) -> str:
    if access.pointers.size == 1:
        return "out of bounds"
    let_through = " that the mask lets through" if access.is_masked else ""
    return f"{bad.sum()} of {access.mask.sum()} lanes{let_through} are out of bounds"


def _exceeded(placed: LaneCoordinates, bad: np.ndarray) -> int | None:
    """Return the first dimension whose size a bad lane exceeds, if there is one."""
    for dim, (index, size) in enumerate(zip(placed.index, placed.shape, strict=True)):
        if index is not None and ((index[bad] < 0) | (index[bad] >= size)).any():
            return dim
    return None


def _size_text(shape: tuple[int, ...], dim: int) -> str:
    if len(shape) > 2:
        return f"size {shape[dim]} in dimension {dim}"
    return f"{shape[dim]} {noun(shape, dim, shape[dim])}"


def _hint(
    access: Access, region: Region, placed: LaneCoordinates, dim: int, bad: np.ndarray
) -> str:
    name, strides = region.name, region.strides
    index, size = placed.index[dim], placed.shape[dim]
    variable, limit = _comparison(access, placed, dim)
    if (index[access.mask] < 0).all() and access.pointers.size > 1:
        return (
            f"the whole tile is before {name}: its number, which comes from the program id, from "
            "a loop or from memory, is wrong"
        )
    if (index[bad] < 0).any():
        return f"a negative index is before the tensor: mask with {variable} >= 0"
    many = noun(placed.shape, dim)
    if access.pointers.size == 1:
        return _scalar_hint(placed, dim, limit)
    if not _is_call_of_tl(access):
        return (
            f"the shape or the strides given to the descriptor are not those of {name}: "
            f"{placed.shape}, {strides}"
        )
    if not access.is_masked:
        return f"the {many} of this tile run past {limit}; mask with {variable} < {limit}"
    if dim in placed.axis and _is_constant(access.mask, placed.axis[dim]):
        return f"the mask lets all {many} of this tile through; add {variable} < {limit} to it"
    most = int(index[access.mask].max())
    which = f"index {most} along dimension {dim}"
    if len(placed.shape) <= 2:
        which = f"{noun(placed.shape, dim, 1)} {most}"
    text = f"the mask lets {which} through, but the last one is {size - 1}"
    others = [name for name, value in access.sizes.items() if value == most + 1]
    if most == size:
        compared = _limit_of_mask(access, placed, dim)
        wrong = f"< {compared.name}" if compared else "<="
        return f"{text}: compare with < {limit}, not {wrong}"
    if others:
        return f"{text} ({others[0]} is {most + 1}): compare {variable} with {limit}"
    return f"{text}: mask with {variable} < {limit}"


def _scalar_hint(placed: LaneCoordinates, dim: int, limit: str) -> str:
    one = noun(placed.shape, dim, 1)
    return f"the last {one} is {placed.shape[dim] - 1}: mask with < {limit}, or skip the access"


def _is_call_of_tl(access: Access) -> bool:
    call = access.site.call(*ACCESS_CALLS[access.verb])
    return "tl." in call or "triton.language." in call


def _is_constant(mask: np.ndarray, axis: int) -> bool:
    return bool((mask == mask.take([0], axis=axis)).all())


def _limit_of_mask(access: Access, placed: LaneCoordinates, dim: int) -> Limit | None:
    """Return what the mask compares the index along a dimension with, if the source shows it."""
    return limits_of(access).get(placed.axis[dim]) if dim in placed.axis else None


def _comparison(access: Access, placed: LaneCoordinates, dim: int) -> tuple[str, str]:
    """Return the index expression to compare, and its limit, in the kernel's own names."""
    size = placed.shape[dim]
    limits = [name for name, value in access.sizes.items() if value == size]
    names = placed.names.get(dim, {})
    if len(limits) > 1:
        # Another argument may have the same value by chance.
        known = limit_names(access)
        limits = [name for name in limits if name in known] or limits
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
    elif len(limits) > 1:
        limits = [name for name in limits if not name.startswith("BLOCK")] or limits
    limit = " or ".join(limits) if limits else str(size)
    if len(names) != 1:
        one = noun(placed.shape, dim, 1) if len(placed.shape) == 2 else "index"
        return f"the {one}", limit
    ((name, axes),) = names.items()
    return name + subscript * (axes == 1), limit
