"""What no program stored is told in tiles, with what left it out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernelgauge.core.launch import Launch
from kernelgauge.memory.recording import Recording
from kernelgauge.memory.watch import Watch
from kernelgauge.subject import unwritten
from kernelgauge.words import Note, say
from tests.launching import interpreted_only, watched


def kernel():
    """Stands for a kernel in a file that does not ask for the number of multiprocessors."""


def launch(grid: tuple[int, int, int], **blocks: int) -> Launch:
    return Launch(kernel, grid, dict(blocks), frozenset(blocks))


def explained(shape: tuple[int, ...], part: tuple, *launches: Launch) -> tuple[str, Note]:
    missing = np.zeros(shape, dtype=bool)
    missing[part] = True
    ranges, remedy = unwritten.explain(missing, launches)
    return "".join(map(say, ranges)), remedy


ROWS = np.s_[256:]


def test_a_grid_that_ends_too_early():
    places, hint = explained((330, 70), ROWS, launch((8, 2, 1), BLOCK_M=32, BLOCK_N=64))
    assert places == ", rows 256..329 (to the end), from tile 8 on (BLOCK_M = 32)"
    assert say(hint) == (
        "the grid has 8 programs along axis 0, which cover 256 of 330 rows: "
        "triton.cdiv(330, BLOCK_M) is 11"
    )


def test_axes_of_the_grid_that_are_swapped():
    _, hint = explained((70, 330), np.s_[:, 128:], launch((2, 6, 1), BLOCK_M=64, BLOCK_N=64))
    assert say(hint).endswith(
        "triton.cdiv(330, BLOCK_N) is 6, as along axis 1: are the axes swapped?"
    )


@pytest.mark.parametrize("part", [ROWS, np.s_[::2], np.s_[8:]])
def test_a_program_for_each_multiprocessor_needs_a_loop(monkeypatch, part):
    monkeypatch.setattr(unwritten.settings, "multiprocessors", 8)
    monkeypatch.setitem(globals(), "multiprocessors", lambda device: 8)
    assert explained((330, 70), part, launch((8, 1, 1), BLOCK_M=32))[1] == unwritten.LOOP


def test_an_axis_that_the_grid_does_not_use_is_not_short():
    _, hint = explained((1, 70), np.s_[:, 32:], launch((3, 1, 1), BLOCK_N=32))
    assert hint == unwritten.ORDER


def test_indices_of_a_batch():
    _, hint = explained((3, 20, 16), np.s_[1:], launch((1, 2, 1), BLOCK_M=16))
    assert say(hint) == "does the grid have a program for each of the 3 indices of dimension 0?"


@pytest.mark.parametrize(
    ("grid", "part", "hint"),
    [
        ((6, 2, 1), ROWS, unwritten.ORDER),
        ((6, 2, 1), np.s_[64:128], unwritten.ORDER),
        ((6, 2, 1), np.s_[327:], unwritten.MASK),
        ((6, 2, 1), np.s_[64:100], unwritten.MASK),
        ((6, 2, 1), np.s_[:], unwritten.DEFAULT),
        ((6, 2, 1), np.s_[::2], unwritten.DEFAULT),
    ],
    ids=["loop", "a_tile", "last_rows", "a_part_of_a_tile", "all", "every_second"],
)
def test_what_else_leaves_elements_out(grid, part, hint):
    assert explained((330, 70), part, launch(grid, BLOCK_M=64, BLOCK_N=64))[1] == hint


def test_elements_of_a_vector():
    places, hint = explained((1000,), np.s_[768:], launch((3, 1, 1), BLOCK=256))
    assert places == ", elements 768..999 (to the end), from tile 3 on (BLOCK = 256)"
    assert "the grid has 3 programs along axis 0, which cover 768 of 1000 elements" in say(hint)


def test_without_a_launch_nothing_is_guessed():
    assert explained((8, 4), np.s_[:]) == ("", unwritten.DEFAULT)


@triton.jit
def tiles_kernel(y_ptr, M, N, first, turns, BM: tl.constexpr, BN: tl.constexpr):
    cols = tl.arange(0, BN)
    for turn in range(turns):
        rows = (first + tl.program_id(0) + turn * tl.num_programs(0)) * BM + tl.arange(0, BM)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        tl.store(y_ptr + rows[:, None] * 24 + cols[None, :], 1.0, mask=mask)


def recorded(grid: int, M: int = 40, N: int = 24, first: int = 0, turns: int = 1) -> tuple:
    """What is said of what these programs leave out of 40 rows of 24 columns, and the remedy."""
    y, recording = torch.zeros(40, 24), Recording()
    with Watch(record=recording):
        tiles_kernel[(grid,)](y, M, N, first, turns, 16, 32)
    missing = (y == 0).numpy()
    assert missing.any()
    why, remedy = unwritten.left_out(recording, [0], {"y"}, missing, (24, 1))
    return say(why), remedy


@interpreted_only
@pytest.mark.parametrize(
    ("how", "said", "remedy"),
    [
        ({"grid": 3, "M": 39}, "program (2, 0, 0) has y[39, 0] in its tile and masks it off at",
         unwritten.MASK),
        ({"grid": 2}, "each of the 2 programs stores one tile, and it takes 3 tiles of 16 x 32; no "
         "tile goes beyond row 31", unwritten.GRID),
        ({"grid": 2, "M": 15}, "masks it off at", None),
        ({"grid": 3, "first": 1}, "each of the 3 programs stores one tile, as many as it takes: "
         "some lie outside or on one another; that of program 0 begins at [16, 0], of 1 at "
         "[32, 0], of 2 at [48, 0]", unwritten.ORDER),
        ({"grid": 1, "turns": 2}, "1 program stores 2 tiles, and it takes 3", unwritten.ORDER),
        ({"grid": 2, "turns": 0}, "why: no program reaches a store to it, since the loop takes no "
         "turn in which it stands: ", unwritten.TURN),
        ({"grid": 0}, "why: the grid has no programs", None),
    ],
    ids=["mask", "grid", "mask_and_grid", "order", "loop", "no_store", "no_program"],
)  # fmt: skip
def test_what_a_record_of_the_tiles_shows(how, said, remedy):
    why, found = recorded(**how)
    assert said in why
    assert found is remedy


@triton.jit
def apart_kernel(y_ptr, N, STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) if ROWS else tl.program_id(0) * BLOCK * STEP
    offs = first + tl.arange(0, BLOCK) * STEP
    tl.store(y_ptr + offs, 1.0, mask=offs < N)


@interpreted_only
@pytest.mark.parametrize(
    ("grid", "step", "rows", "remedy"),
    [
        (3, 4, False, unwritten.GAPS),
        (2, 4, False, None),
        # Each program takes every fourth element, and one program is missing.
        (3, 4, True, unwritten.GRID),
        (3, 1, False, unwritten.GRID),
    ],
)
def test_lanes_with_gaps_between_them(grid, step, rows, remedy):
    y, recording = torch.zeros(190), Recording()
    with Watch(record=recording):
        apart_kernel[(grid,)](y, 190, step, rows, 16)
    why, found = unwritten.left_out(recording, [0], {"y"}, (y == 0).numpy(), (1,))
    assert ("each lane is 4 elements after the one before it" in say(why)) is (
        remedy is unwritten.GAPS
    )
    assert remedy is None or found is remedy


@triton.jit
def rows_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * N + cols, mask=cols < N, other=0.0)
    tl.store(y_ptr + tl.program_id(0) * N + cols, x / tl.sum(x), mask=cols < N)


@interpreted_only
def test_a_row_that_is_reduced_may_have_to_be_one_tile():
    x, y, recording = torch.ones(3, 40), torch.zeros(3, 40), Recording()
    with Watch(record=recording):
        rows_kernel[(3,)](x, y, 40, 32)
    why, found = unwritten.left_out(recording, [0], {"y"}, (y == 0).numpy(), (40, 1))
    assert "no tile goes beyond column 31" in say(why)
    assert found is unwritten.ROW
    # Of rows that are missing as a whole no tile is too short.
    y, recording = torch.zeros(3, 40), Recording()
    with Watch(record=recording):
        rows_kernel[(2,)](x, y, 40, 64)
    _, found = unwritten.left_out(recording, [0], {"y"}, (y == 0).numpy(), (40, 1))
    assert found is unwritten.GRID


@interpreted_only
def test_a_mask_that_is_recorded_is_told_instead_of_a_grid():
    MASK, LOOP, GRID, ORDER = unwritten.MASK, unwritten.LOOP, unwritten.GRID, unwritten.ORDER
    said = unwritten.DEFAULT
    assert unwritten.surest(LOOP, (said, MASK), []) is MASK
    assert unwritten.surest(LOOP, (said, GRID), []) is LOOP
    assert unwritten.surest(MASK, (said, GRID), []) is GRID
    assert unwritten.surest(MASK, (said, None), []) is MASK
    # Nothing recorded says that no tile holds them: a mask may be at fault.
    assert unwritten.surest(ORDER, None, []) is unwritten.DEFAULT
    assert unwritten.surest(LOOP, None, []) is LOOP


@interpreted_only
def test_programs_for_each_multiprocessor_that_loop_are_not_told_to_loop():
    LOOP, ORDER, said = unwritten.LOOP, unwritten.ORDER, unwritten.DEFAULT
    y, recording = torch.zeros(40, 24), Recording()
    with Watch(record=recording) as watch:
        tiles_kernel[(2,)](y, 40, 24, 0, 1, 16, 32)
    assert unwritten.surest(LOOP, (said, unwritten.GRID), watch.launches) is ORDER
    assert unwritten.surest(LOOP, (said, unwritten.TURN), watch.launches) is unwritten.TURN
    assert unwritten.surest(LOOP, None, watch.launches) is ORDER


@interpreted_only
def test_a_loop_is_mentioned_where_there_is_one():
    said = unwritten.DEFAULT, unwritten.ORDER
    with_loop = Launch(tiles_kernel.fn, (1, 1, 1), {}, frozenset())
    without = Launch(pairs_kernel.fn, (1, 1, 1), {}, frozenset())
    assert unwritten.surest(unwritten.ORDER, said, [with_loop]) is unwritten.ORDER
    assert unwritten.surest(unwritten.ORDER, said, [without]) is unwritten.NUMBERS


@triton.jit
def pairs_kernel(y_ptr, M, N, LAST: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    if tl.program_id(0) + tl.program_id(1) >= LAST:
        return
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], 1.0, mask=mask)


def of_pairs(grid: tuple[int, ...], M: int, N: int, last: int = 99) -> tuple[str, Note | None]:
    y, recording = torch.zeros(M, N), Recording()
    with Watch(record=recording):
        pairs_kernel[grid](y, M, N, last, 16, 16)
    why, remedy = unwritten.left_out(recording, [0], {"y"}, (y == 0).numpy(), (N, 1))
    return say(why), remedy


@interpreted_only
@pytest.mark.parametrize(
    ("grid", "swapped"),
    [((2, 4), True), ((1, 4), False), ((2, 2), False), ((3, 2), False)],
    ids=["swapped", "another_size_too", "square", "another_size"],
)
def test_axes_of_a_grid_are_said_to_be_swapped_only_where_that_stores_all(grid, swapped):
    _, remedy = of_pairs(grid, 60, 30)
    assert (remedy.id == "grid-axes-are-swapped") is swapped
    assert not swapped or say(remedy).startswith("with a grid of (4, 2, 1) in place of (2, 4, 1)")


@interpreted_only
def test_programs_that_return_before_they_store():
    why, remedy = of_pairs((4, 2), 60, 30, last=4)
    assert "1 of the 8 programs stores nothing to it, and what is missing is in its tile" in why
    assert "if tl.program_id(0) + tl.program_id(1) >= LAST:" in why
    assert remedy is unwritten.IDLE
    # Those that return are not all that is missing.
    why, remedy = of_pairs((3, 2), 60, 30, last=3)
    assert "it returns" not in why
    assert remedy is not unwritten.IDLE


@triton.jit
def looked_up_kernel(indices_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(indices_ptr + offs, mask=offs < N, other=0)
    tl.store(y_ptr + offs, index, mask=offs < N)


@interpreted_only
@pytest.mark.parametrize(("N", "said"), [(6, True), (5, False)])
def test_the_first_size_of_an_input_for_all_of_its_elements(N, said):
    indices, recording = torch.ones(6, 7, dtype=torch.int64), Recording()
    y = torch.zeros_like(indices)
    with Watch(record=recording):
        looked_up_kernel[(1,)](indices, y, N, 16)
    _, remedy = unwritten.left_out(recording, [0], {"y"}, (y == 0).numpy(), (7, 1))
    words = "N is 6, the first size of indices: indices.numel() is 42"
    assert (remedy is not None and say(remedy).startswith(words)) is said


@triton.jit
def two_tiles_kernel(x_ptr, y_ptr, STEP: tl.constexpr, LOADS: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * 2 * BLOCK + tl.arange(0, BLOCK)
    for tile in range(2):
        y_ptrs = y_ptr + offs + tile * STEP
        x = tl.load(x_ptr + offs + tile * BLOCK)
        if LOADS and tile == 1:
            x += tl.load(y_ptrs)
        tl.store(y_ptrs, x)


@interpreted_only
def test_what_a_program_stores_twice_before_it_is_loaded_is_lost():
    lost = watched(
        two_tiles_kernel, (2,), torch.randn(64), torch.empty(64), 8, False, 16
    ).overwritten
    assert lost
    assert (lost.element, lost.program) == ("y[8]", (0, 0, 0))
    assert lost.line.source.startswith("tl.store(y_ptrs, x)")


@interpreted_only
@pytest.mark.parametrize(
    ("step", "loads", "launches"),
    [(16, False, 1), (0, True, 1), (16, False, 2)],
    ids=["other elements", "loaded in between", "another launch"],
)
def test_nothing_is_lost(step, loads, launches):
    x, y = torch.randn(64), torch.empty(64)
    with Watch() as watch:
        for _ in range(launches):
            two_tiles_kernel[(2,)](x, y, step, loads, 16)
    assert not watch.overwritten
