"""A tile past the end of a tensor because of the loop that it is loaded in."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from kernelgauge.memory.call_sites import ACCESS_CALLS, lines_of
from kernelgauge.memory.coordinates import Access, integers
from kernelgauge.memory.mask_limits import argument_of, evaluate, function_of, limits_of
from kernelgauge.words.fault import Note, note


def explain(
    access: Access, index: np.ndarray, size: int, variable: str | Note, limit: str | Note
) -> Note | None:
    """Return what a loop has to do with an access without a mask; None if nothing is certain.

    index: of each lane along the dimension that is too short
    size: of that dimension
    variable, limit: what a mask would compare
    """
    loop = _innermost_loop(access)
    if loop is None or not isinstance(loop.target, ast.Name):
        return None
    begun = integers(access.variables.get(loop.target.id))
    if begun is None or begun.size != 1 or begun.item() != index.min():
        return None
    compared = {"variable": variable, "limit": limit}
    first, line = begun.item(), loop.lineno
    if first >= size:
        return note("loop-goes-on", loop=loop.target.id, begun=first, line=line, **compared)
    if masked := _masked_in_another_loop(access, loop):
        return note("another-loop-masks", masked=masked, line=line, **compared)
    return None


def too_far(access: Access, scalar: str, size: int) -> dict[str, object]:
    """Return the line and the end of the loop in which a scalar counts further than a size.

    {} if there is none.
    """
    for loop, end, value in _ends(access):
        if isinstance(loop.target, ast.Name) and loop.target.id == scalar and value > size:
            return {"line": loop.lineno, "end": end, "reaches": value}
    return {}


def passed(access: Access, lane: tuple[int, ...]) -> Note | None:
    """Return that the last tile of a loop goes on past the loop's end, if this lane is in there.

    lane: one that the mask lets through
    """
    for loop, end, value in _ends(access):
        begun = integers(access.variables.get(getattr(loop.target, "id", "")))
        for axis, limit in limits_of(access).items():
            index = int(limit.values[lane[axis]])
            starts = begun is not None and begun.size == 1 and begun.item() == limit.values.min()
            if starts and value <= index < limit.value:
                compared = {"limit": limit.name, "value": limit.value}
                said = {"index": limit.variable, "own": index, "end": end, "reaches": value}
                return note("mask-goes-past-the-loop", line=loop.lineno, **said, **compared)
    return None


def _ends(access: Access) -> Iterator[tuple[ast.For, str, int]]:
    """Give the loops over a range that an access is made in, and their ends, written and now."""
    for loop in _loops(access):
        if not isinstance(loop.iter, ast.Call) or not loop.iter.args:
            continue
        if ast.unparse(loop.iter.func) not in ("range", "tl.range", "tl.static_range"):
            continue
        end = loop.iter.args[min(1, len(loop.iter.args) - 1)]
        value = evaluate(end, access)
        if value is not None and value.size == 1:
            yield loop, ast.unparse(end), value.item()


def _innermost_loop(access: Access) -> ast.For | None:
    return min(_loops(access), key=lambda it: len(lines_of(it)), default=None)


def _loops(access: Access) -> list[ast.For]:
    """Return the loops that an access is made in."""
    function, line = function_of(access), access.site.line
    loops = [it for it in ast.walk(function or ast.Pass()) if isinstance(it, ast.For)]
    return [it for it in loops if line in lines_of(it)]


def _masked_in_another_loop(access: Access, loop: ast.For) -> int | None:
    """Return the line of a later loop's access to the same address that has a mask, if any."""
    names = ACCESS_CALLS[access.verb]
    pointer = argument_of(access.site, "pointer", names)
    if pointer is None:
        return None
    for other in ast.walk(function_of(access) or ast.Pass()):
        if not isinstance(other, ast.For) or other.lineno <= lines_of(loop)[-1]:
            continue
        for call in ast.walk(other):
            if not (isinstance(call, ast.Call) and getattr(call.func, "attr", "") in names):
                continue
            same = call.args and ast.unparse(call.args[0]) == ast.unparse(pointer)
            if same and any(it.arg == "mask" for it in call.keywords):
                return call.lineno
    return None
