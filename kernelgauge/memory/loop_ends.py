"""A tile past the end of a tensor because of the loop that it is loaded in."""

from __future__ import annotations

import ast

import numpy as np

from kernelgauge.memory.call_sites import ACCESS_CALLS, lines_of
from kernelgauge.memory.coordinates import Access, integers
from kernelgauge.memory.mask_limits import argument_of, function_of
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


def _innermost_loop(access: Access) -> ast.For | None:
    function, line = function_of(access), access.site.line
    loops = [it for it in ast.walk(function or ast.Pass()) if isinstance(it, ast.For)]
    return min(
        (it for it in loops if line in lines_of(it)), key=lambda it: len(lines_of(it)), default=None
    )


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
