"""How two programs come to one element: what their addresses were made of, with their numbers."""

from __future__ import annotations

import ast
import math

import numpy as np

from kernelgauge.memory import loop_ends
from kernelgauge.memory.address_source import AddressSource
from kernelgauge.memory.addresses import Region
from kernelgauge.memory.coordinates import Access, has_size, noun
from kernelgauge.memory.gathered import is_load
from kernelgauge.memory.mask_limits import evaluate, function_of, limits_of, values_of
from kernelgauge.memory.terms import Term, in_program, program_axes, terms_of, turns_of
from kernelgauge.words.fault import Note, note


def explain(
    access: Access, region: Region, element: int, other: tuple[int, int, int], same: bool
) -> Note | None:
    """Return why the tile of a program and that of another one share an element, if it is certain.

    element: its offset in elements
    same: whether the other program made the same access, as far as the source goes
    """
    return (
        _of_indices(access, region, element, other, same)
        or (_past_its_loop(access, region, element) if same else None)
        or _past_its_dimension(access, region, element)
        or ((_of_splits(access) or _of_memory(access)) if same else None)
    )


def _lanes_at(access: Access, region: Region, element: int) -> np.ndarray:
    """Return which lanes access an element."""
    return np.argwhere((region.elements(access.pointers) == element) & access.mask)


def _past_its_loop(access: Access, region: Region, element: int) -> Note | None:
    """The last tile of a loop is masked by another number than the loop's end."""
    here = _lanes_at(access, region, element)
    return loop_ends.passed(access, tuple(here[0])) if len(here) else None


def _past_its_dimension(access: Access, region: Region, element: int) -> Note | None:
    """An index runs past its dimension, where each of the others has an index of its own."""
    terms = terms_of(access, region)
    dims = [term.dimensions(region.shape, region.strides) for term in terms]
    long = [[d] for d, size in enumerate(region.shape) if size > 1]
    here = _lanes_at(access, region, element)
    if sorted(filter(None, dims)) != long or not len(here):
        return None
    for term, own in zip(terms, dims, strict=True):
        value = int(term.values[tuple(here[0])])
        if own and value >= region.shape[own[0]]:
            has = has_size(region.name, region.shape, own[0])
            said = {"index": term.index, "value": value, "has": has}
            return note("index-leads-into-another-row", **said)
    return None


def _of_indices(
    access: Access, region: Region, element: int, other: tuple[int, int, int], same: bool
) -> Note | None:
    """What the numbers of the two programs make of the terms of the address."""
    apart = [axis for axis in range(3) if access.program[axis] != other[axis]]
    axes = program_axes(access)
    if axes is not None and not axes & {*apart}:
        return _of_no_program(access, axes, apart)
    terms = terms_of(access, region) if same else []
    there = in_program(access, terms, other) if terms else None
    if there is None:
        return _of_turns(access, terms) if apart == [0] else None
    here = _lanes_at(access, region, element)
    total = sum(values * term.factor for values, term in zip(there, terms, strict=True))
    lanes = np.argwhere(np.broadcast_to(total, access.mask.shape) == element)
    if not len(here) or not len(lanes):
        return None
    at, at_other = tuple(here[0]), tuple(lanes[0])
    pairs = [
        (term, int(term.values[at]), int(values[at_other]))
        for term, values in zip(terms, there, strict=True)
    ]
    if all(own == its for _, own, its in pairs):
        return _overlapping(access, terms, there, other)
    return _one_address(region, pairs)


def _of_splits(access: Access) -> Note | None:
    """A number is taken apart so that two of them give one tile.

    Both parts are quotients, or remainders of counts with a common factor, or the quotient is of
    larger steps than the remainder.
    """
    source = AddressSource(access)
    for name, found in source.splits.items():
        if len(found) != 2 or name in source.whole:
            continue
        found = sorted(found, key=lambda it: isinstance(it.op, ast.Mod))
        counts = [evaluate(it.right, access) for it in found]
        first, second = (0 if it is None or it.size != 1 else int(it.flat[0]) for it in counts)
        said = {"name": name, "parts": list(dict.fromkeys(map(ast.unparse, found)))}
        if _divides(found[0]) == _divides(found[1]):
            if min(first, second) > 1 and (math.gcd(first, second) > 1 or _divides(found[0])):
                return note("split-alike", **said)
        elif first > second > 0:
            return note("split-by-two-numbers", step=first, rest=second, **said)
    return None


def _of_memory(access: Access) -> Note | None:
    """The address is made of what was loaded, and the number of the program is not in it."""
    if any(name.startswith("program_id") for name in AddressSource(access).names):
        return None
    lines = _lines_that_load(access)
    return note("address-from-memory", lines=lines) if lines else None


def _lines_that_load(access: Access) -> list[int]:
    """Return the lines in which parts of the address are loaded."""
    function = function_of(access)
    if function is None:
        return []
    names = AddressSource(access).names
    values = (value for name in names for value in values_of(name, function))
    return sorted({it.lineno for it in values if any(map(is_load, ast.walk(it)))})


def past_its_part(access: Access, begin: int, one: str) -> Note | None:
    """Say so if a mask ends where the tensor does, though loaded numbers say where tiles begin.

    begin, one: where this tile begins, into which another one goes on, and what that is one of
    """
    for limit in limits_of(access).values() if _lines_that_load(access) else ():
        # What is an argument is the same in the other program.
        known = limit.name in access.launch.arguments
        if known and int(limit.values.min()) == begin < limit.value:
            said = {"index": limit.variable, "limit": limit.name, "value": limit.value}
            return note("mask-ends-too-late", begin=begin, one=one, **said)
    return None


def _divides(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.FloorDiv)


def _of_no_program(access: Access, axes: set[int], apart: list[int]) -> Note:
    """The address does not depend on what tells the two programs apart."""
    grid = access.launch.grid
    programs = {"axis": apart[0], "programs": grid[apart[0]]}
    idle = [axis for axis in sorted(axes) if grid[axis] == 1]
    if idle:
        return note("address-of-another-axis", other=idle[0], **programs)
    return note("address-of-no-program", **programs)


def _overlapping(
    access: Access, terms: list[Term], there: list[np.ndarray], other: tuple[int, int, int]
) -> Note | None:
    """The indices mean the same elements in both programs: their tiles overlap, or are the same."""
    moved = [
        (term, int(values.flat[0]) - int(term.values.flat[0]))
        for term, values in zip(terms, there, strict=True)
    ]
    changed = [(term, by) for term, by in moved if by]
    apart = [axis for axis in range(3) if access.program[axis] != other[axis]]
    if not changed:
        tiles = [term.index for term in terms if term.definition]
        return note("tiles-are-the-same", indices=tiles) if tiles else None
    if len(changed) > 1 or len(apart) > 1 or not changed[0][0].is_tile:
        return None
    (term, by), axis = changed[0], apart[0]
    steps, left = divmod(abs(by), abs(other[axis] - access.program[axis]))
    length = int(term.values.max() - term.values.min()) + 1
    if left or steps >= length:
        return None
    return note(
        "tiles-overlap",
        index=term.index,
        definition=term.definition,
        length=length,
        step=steps,
        overlap=length - steps,
    )


def _of_turns(access: Access, terms: list[Term]) -> Note | None:
    """The tiles of a loop's next turn begin before those of this turn end."""
    programs = access.launch.grid[0]
    for term in terms:
        length = int(term.values.max() - term.values.min()) + 1
        found = turns_of(access, term)
        if found is None or math.prod(access.launch.grid) != programs:
            continue
        loop, label, step, apart = found
        if 0 < step < (covered := programs * apart) and apart == length:
            return note(
                "turns-overlap",
                loop=loop,
                label=label,
                step=step,
                index=term.index,
                programs=programs,
                apart=apart,
                covered=covered,
                overlap=covered - step,
            )
    return None


def _one_address(region: Region, pairs: list[tuple[Term, int, int]]) -> Note | None:
    """Different indices give one address: one leaves its dimension, or a factor is no stride."""
    told = [(term.index, own, its) for term, own, its in pairs if own != its]
    if len({index for index, _, _ in told}) != len(told):
        return None
    indices = {
        "here": [(index, own) for index, own, _ in told],
        "there": [(index, its) for index, _, its in told],
    }
    for term, own, its in pairs:
        dims = [d for d, stride in enumerate(region.strides) if stride == abs(term.factor)]
        if len(dims) == 1 and max(own, its) >= region.shape[dims[0]] and own != its:
            dim = dims[0]
            size = region.shape[dim]
            return note(
                "index-leaves-its-dimension",
                index=term.index,
                tensor=region.name,
                size=size,
                many=noun(region.shape, dim, size),
                **indices,
            )
    for term, own, its in pairs:
        if own != its and abs(term.factor) not in region.strides:
            return note(
                "factor-is-no-stride",
                index=term.index,
                factor=term.factor,
                label=term.label,
                tensor=region.name,
                strides=region.strides,
                **indices,
            )
    apart = [term for term, own, its in pairs if own != its]
    factors = [term.factor for term in apart]
    alike = [it for it in apart if factors.count(it.factor) > region.strides.count(it.factor)]
    if alike:
        return note(
            "indices-have-one-stride",
            names=[it.index for it in alike],
            factor=alike[0].factor,
            tensor=region.name,
            strides=region.strides,
            **indices,
        )
    return note("indices-meet", **indices)
