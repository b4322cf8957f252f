"""A loop whose bound Triton takes from the first pass of the loop around it is rejected.

That is so before Triton 3.8 (`kernelgauge/compilation/stale_bounds.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton

from kernelgauge.compilation import stale_bounds
from kernelgauge.core import versions
from tests.compiling import compiled, launch_of, load_kernels, rejection

STALE = {
    "carried": """
        n = tl.load(lengths_ptr)
        for i in range(count):
            for j in range(n):
                tl.atomic_add(out_ptr + j, 1)
            n = tl.load(lengths_ptr + i + 1)
    """,
    "in_a_branch": """
        n = tl.load(lengths_ptr)
        for i in range(count):
            for j in tl.range(0, n + 1):
                tl.atomic_add(out_ptr + j, 1)
            if i + 1 < count:
                n = tl.load(lengths_ptr + i + 1)
    """,
    "counted": """
        total = 0
        n = 0
        for i in range(count):
            for j in range(n):
                total += 1
            n += 3
        tl.store(out_ptr, total)
    """,
    "first_element": """
        n = 0
        for i in range(count):
            for j in range(n, 64):
                tl.atomic_add(out_ptr + j, 1)
            n += 1
    """,
}
RIGHT = {
    "loaded_first": """
        for i in range(count):
            n = tl.load(lengths_ptr + i)
            for j in range(n):
                tl.atomic_add(out_ptr + j, 1)
    """,
    "used_inside": """
        n = tl.load(lengths_ptr)
        for i in range(count):
            for j in range(n):
                tl.atomic_add(out_ptr + j, n)
            n = tl.load(lengths_ptr + i + 1)
    """,
    "stored": """
        n = tl.load(lengths_ptr)
        for i in range(count):
            for j in range(n):
                tl.atomic_add(out_ptr + j, 1)
            tl.store(out_ptr + 64 + i, n)
            n = tl.load(lengths_ptr + i + 1)
    """,
    "counter": """
        for i in range(count):
            for j in range(3 * i):
                tl.atomic_add(out_ptr + j, 1)
    """,
    "while_inside": """
        n = tl.load(lengths_ptr)
        for i in range(count):
            j = 0
            while j < n:
                tl.atomic_add(out_ptr + j, 1)
                j += 1
            n = tl.load(lengths_ptr + i + 1)
    """,
    "while_outside": """
        n = tl.load(lengths_ptr)
        i = 0
        while i < count:
            for j in range(n):
                tl.atomic_add(out_ptr + j, 1)
            i += 1
            n = tl.load(lengths_ptr + i)
    """,
    "not_changed": """
        n = tl.load(lengths_ptr)
        for i in range(count):
            for j in range(n):
                tl.atomic_add(out_ptr + j, 1)
    """,
    "computed_again": """
        n = tl.cdiv(count, 4) + 1
        for i in range(count):
            for j in range(n):
                tl.atomic_add(out_ptr + j, 1)
            if i + 1 < count:
                n = tl.cdiv(count, 4) + 1
    """,
    "used_behind": """
        n = tl.load(lengths_ptr)
        for i in range(count):
            for j in range(n):
                tl.atomic_add(out_ptr + j, 1)
            n = tl.load(lengths_ptr + i + 1)
        tl.store(out_ptr + 100, n)
    """,
    "chain_of_pointers": """
        lengths = lengths_ptr
        total = 0
        for i in range(count):
            n = tl.load(lengths)
            for j in range(1, n):
                total += tl.load(lengths + j)
            lengths += n
        tl.store(out_ptr, total)
    """,
}
GLUON = """
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

@gluon.jit
def step(out_ptr, j, n, USED: gl.constexpr):
    gl.atomic_add(out_ptr + j, n if USED else 1)

@gluon.jit
def length(lengths_ptr, i, count, SAME: gl.constexpr):
    if SAME:
        n = gl.cdiv(count, 4)
    else:
        n = gl.load(lengths_ptr + i)
    return n

@gluon.jit
def tiles(lengths_ptr, out_ptr, count, USED: gl.constexpr, SAME: gl.constexpr):
    n = length(lengths_ptr, 0, count, SAME)
    for i in range(count):
        for j in range(n):
            step(out_ptr, j, n, USED)
        if i + 1 < count:
            n = length(lengths_ptr, i + 1, count, SAME)
"""
HEAD = "@triton.jit\ndef {}(lengths_ptr, out_ptr, count):"

numbers = torch.zeros(256, dtype=torch.int32)
arguments = {"lengths_ptr": numbers, "out_ptr": numbers, "count": 9}
faulty = pytest.mark.skipif(
    versions.TRITON >= stale_bounds.MENDED,
    reason="Triton 3.8 compiles such loops as they are written",
)


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    kernels = (HEAD.format(name) + body for name, body in (STALE | RIGHT).items())
    return load_kernels(tmp_path_factory.mktemp("kernels"), "\n".join(kernels) + GLUON)


@faulty
@pytest.mark.parametrize("name", STALE)
def test_a_loop_that_keeps_its_first_bound_is_rejected(module, name):
    made = launch_of(getattr(module, name), arguments)
    message = rejection(made, kind="stale-bound", targets=("sm_80", "sm_90"))
    assert f"{name} runs otherwise than it is written for sm_80 (A100), sm_90 (H100)" in message
    assert f"changes n, what only its bounds are made of: Triton {triton.__version__}" in message
    lines = Path(made.kernel.__code__.co_filename).read_text().splitlines()
    inner = 1 + next(
        number
        for number, line in enumerate(lines)
        if number >= made.kernel.__code__.co_firstlineno and "for j in" in line
    )
    assert f"kernels.py:{inner}  " in message


@pytest.mark.parametrize("name", RIGHT)
def test_other_loops_compile(module, name):
    assert len(compiled(launch_of(getattr(module, name), arguments), targets=("sm_90",))) == 1


@faulty
def test_in_gluon_a_use_that_a_constexpr_leaves_out_is_none(module):
    def tiles(*, used: bool, same: bool):
        return launch_of(module.tiles, arguments | {"USED": used, "SAME": same})

    wrong = tiles(used=False, same=False)
    message = rejection(wrong, kind="stale-bound", targets=("sm_90",))
    assert "changes what only its bounds are made of" in message
    for right in (tiles(used=True, same=False), tiles(used=False, same=True)):
        assert len(compiled(right, targets=("sm_90",))) == 1
