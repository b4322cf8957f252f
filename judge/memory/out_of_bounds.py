"""What a learner reads when a kernel leaves a tensor: which lanes, and what would keep them in."""

from __future__ import annotations

import numpy as np

from judge.memory.addresses import Region
from judge.memory.coordinates import ACCESS_CALLS, Access, LaneCoordinates, index_text, locate


def explain(access: Access, region: Region | None, bad: np.ndarray) -> str:
    """The message for an access of which some lanes, `bad`, lie outside the elements of a region.

    region: None where the addresses belong to no tensor at all
    """
    program = f"program {access.program}"
    lanes = _lanes(access, bad)
    if region is None:
        address = int(access.pointers[bad][0])
        return "\n".join(
            (
                access.headline,
                f"{program} {access.verb} address {address:#x}, which is of no tensor: {lanes}",
                "hint: a pointer that is read from memory must come from the data_ptr() of a tensor"
                + (", and this one is null" if address < 4096 else ""),
            )
        )
    offset = (access.pointers - np.uint64(region.virtual)).view(np.int64)
    if not (offset[bad] + region.real & (access.size - 1) == 0).all():
        return "\n".join(
            (
                access.headline,
                f"{program} {access.verb} {access.size} bytes of {region.name} at an address that "
                f"is no multiple of {access.size}: {lanes}",
                "hint: a pointer moves by whole elements of its own type; a GPU faults here",
            )
        )
    placed = locate(access, region, offset // region.itemsize)
    dim = _exceeded(placed, bad)
    text = f"{program} {access.verb} {index_text(region.name, placed, bad)}"
    if dim is None:
        text += f", which is no element of {region.name}"
    else:
        text += f" but {region.name} has {_size_text(placed.shape, dim)}"
    hint = _hint(access, region, placed, dim, offset, bad)
    return "\n".join((access.headline, f"{text}: {lanes}", f"hint: {hint}"))


def _lanes(access: Access, bad: np.ndarray) -> str:
    count, active = int(bad.sum()), int(access.mask.sum())
    if access.pointers.size == 1:
        return "out of bounds"
    let_through = " that the mask lets through" if access.is_masked else ""
    return f"{count} of {active} lanes{let_through} are out of bounds"


def _exceeded(placed: LaneCoordinates, bad: np.ndarray) -> int | None:
    for dim, (index, size) in enumerate(zip(placed.index, placed.shape, strict=True)):
        if index is not None and ((index[bad] < 0) | (index[bad] >= size)).any():
            return dim
    return None


def _noun(shape: tuple[int, ...], dim: int, count: int = 2) -> str:
    if len(shape) > 2:
        return f"indices along dimension {dim}" if count != 1 else f"index along dimension {dim}"
    word = "element" if len(shape) == 1 else ("row", "column")[dim]
    return word + "s" * (count != 1)


def _size_text(shape: tuple[int, ...], dim: int) -> str:
    if len(shape) > 2:
        return f"size {shape[dim]} in dimension {dim}"
    return f"{shape[dim]} {_noun(shape, dim, shape[dim])}"


def _hint(
    access: Access,
    region: Region,
    placed: LaneCoordinates,
    dim: int | None,
    offset: np.ndarray,
    bad: np.ndarray,
) -> str:
    unwrapped = offset[bad] + 2**32 * region.itemsize
    if ((unwrapped >= 0) & (unwrapped < region.extent)).any():
        return (
            "the offset is 2**32 too small, as an int32 is that passed 2**31: make a factor of it "
            "int64, as in tl.program_id(0).to(tl.int64), or in offs.to(tl.int64) where a stride is "
            "as large"
        )
    if dim is None:
        return f"{region.name} has the strides {region.strides} and does not own what lies between"
    index, size = placed.index[dim], placed.shape[dim]
    if (index[bad] < 0).any():
        variable, _ = _variable(access, placed, dim)
        return f"an index below 0 lies before the tensor: mask with {variable} >= 0"
    variable, limit = _variable(access, placed, dim)
    nouns = _noun(placed.shape, dim)
    if access.pointers.size == 1:
        return _scalar_hint(access, placed, dim, int(index[bad][0]), limit)
    if not _is_call_of_tl(access):
        return f"the shape that the descriptor was given is larger than {region.name}"
    if not access.is_masked:
        return f"the {nouns} of this tile run past {limit}; mask with {variable} < {limit}"
    if dim in placed.axis and _is_constant(access.mask, placed.axis[dim]):
        return f"the mask lets all {nouns} of this tile through; add {variable} < {limit} to it"
    most = int(index[access.mask].max())
    text = f"the mask lets {_noun(placed.shape, dim, 1)} {most} through, the last one is {size - 1}"
    others = [name for name, value in access.sizes.items() if value == most + 1]
    if most == size:
        return f"{text}: compare with < {limit}, not <="
    if others:
        return f"{text} ({others[0]} is {most + 1}): compare {variable} with {limit}"
    return f"{text}: mask with {variable} < {limit}"


def _scalar_hint(access: Access, placed: LaneCoordinates, dim: int, index: int, limit: str) -> str:
    for axis, (program, programs) in enumerate(zip(access.program, access.grid, strict=True)):
        if program == index and programs > placed.shape[dim]:
            return (
                f"the grid has {programs} programs along axis {axis}, but there are only "
                f"{_size_text(placed.shape, dim)}: launch fewer, or mask with < {limit}"
            )
    return f"the last one is {placed.shape[dim] - 1}: mask with < {limit}, or do not come here"


def _is_call_of_tl(access: Access) -> bool:
    call = access.site.call(*ACCESS_CALLS[access.verb])
    return "tl." in call or "triton.language." in call


def _is_constant(mask: np.ndarray, axis: int) -> bool:
    return bool((mask == mask.take([0], axis=axis)).all())


def _variable(access: Access, placed: LaneCoordinates, dim: int) -> tuple[str, str]:
    """The expression to compare, and what to compare it with, by the kernel's own names."""
    size = placed.shape[dim]
    limits = [name for name, value in access.sizes.items() if value == size]
    names = placed.names.get(dim, {})
    total = access.pointers.ndim
    subscript = ""
    if total > 1 and dim in placed.axis:
        subscript = ", ".join(":" if axis == placed.axis[dim] else "None" for axis in range(total))
        subscript = f"[{subscript}]"
    # Two tiles of the same numbers, as in the first program, differ in how the kernel spreads them.
    names = {n: axes for n, axes in names.items() if access.site.has(n + subscript)} or names
    pairs = [(n, s) for n in names for s in limits if n.lower().split("_")[-1] == s.lower()]
    if pairs:
        names, limits = {pairs[0][0]: names[pairs[0][0]]}, [pairs[0][1]]
    elif len(limits) > 1:
        limits = [name for name in limits if not name.startswith("BLOCK")] or limits
    limit = " or ".join(limits) if limits else str(size)
    if len(names) != 1:
        return (
            "its index" if len(placed.shape) != 2 else f"the {_noun(placed.shape, dim, 1)}"
        ), limit
    ((name, axes),) = names.items()
    return name + subscript * (axes == 1), limit
