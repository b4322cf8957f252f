"""What an address is made of: said with the numbers of the access, or not at all."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.launching import fault, interpreted_only, watched

pytestmark = interpreted_only


@triton.jit
def tile_of(pid, tiles):
    return pid // tiles, pid % tiles


@triton.jit
def store_kernel(y_ptr, flag_ptr, M, N, stride_ym, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    if FAULT == "another axis":
        row = tl.program_id(2)
    elif FAULT == "no program":
        row = 0
    elif FAULT == "loaded":
        row = tl.load(flag_ptr)
    elif FAULT == "divided":
        row = tl.program_id(0) // 2
    elif FAULT == "from a helper":
        row, _ = tile_of(tl.program_id(0), 2)
    else:
        row = tl.program_id(0)
    if FAULT == "overlap":
        rows = row * (BLOCK - 2) + tl.arange(0, BLOCK)
    else:
        rows = row * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    if FAULT == "stride of another":
        tl.store(y_ptr + rows[:, None] * M + cols[None, :], 1.0, mask=mask)
    elif FAULT == "without a stride":
        tl.store(y_ptr + rows[:, None] + cols[None, :], 1.0, mask=mask)
    elif FAULT == "columns unmasked":
        tl.store(y_ptr + rows[:, None] * N + cols[None, :], 1.0, mask=rows[:, None] < M)
    else:
        y_ptrs = y_ptr + (rows * stride_ym)[:, None]
        tl.store(y_ptrs + cols[None, :], 1.0, mask=mask)


def launch(which: str) -> tuple:
    """A launch of the kernel with one fault; "" for none."""
    y = torch.empty(24, 40)
    return store_kernel, (3, 5), y, torch.zeros(1, dtype=torch.int32), 24, 40, 40, 8, which


MEET = {
    "another axis": "why: the address depends on tl.program_id(2), which is 0 in every program, "
    "and not on tl.program_id(0): the 3 programs along axis 0 have the same one",
    "no program": "why: no part of this address depends on tl.program_id(0): the 3 programs along "
    "axis 0 have the same one",
    "divided": "why: both programs have the same tile: rows and cols are the same in both, so what "
    "turns the number of a program into a tile gives it twice",
    "overlap": "why: each program has 8 values of rows, and the next one begins 6 further "
    "(rows = row * (BLOCK - 2) + tl.arange(0, BLOCK)): neighbours overlap by 2",
    "stride of another": "each step of rows moves by 24 elements (M), but the strides of y are "
    "(40, 1)",
    "without a stride": "a step of rows and one of cols each move by 1 element, but the strides of "
    "y are (40, 1)",
}


def test_the_right_kernel_passes():
    watched(*launch(""))


@pytest.mark.parametrize("which", MEET)
def test_how_the_indices_of_two_programs_meet(which):
    assert MEET[which] in fault(*launch(which))


def test_an_index_that_runs_past_its_dimension_meets_the_next_row():
    y = torch.empty(24, 36)
    told = fault(store_kernel, (3, 5), y, y, 24, 36, 36, 8, "columns unmasked")
    assert "are the same address: y has 36 columns, and cols runs past them" in told


@triton.jit
def mirrored_kernel(y_ptr, M, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK)
    mask = (rows < M)[:, None] & (cols < M)[None, :]
    tl.store(y_ptr + rows[:, None] * M + cols[None, :], 1.0, mask=mask)
    if tl.program_id(0) > 0:
        tl.store(y_ptr + cols[:, None] * M + rows[None, :], 1.0, mask=mask)


def test_a_store_that_runs_into_the_next_row_meets_another_line():
    told = fault(mirrored_kernel, (2,), torch.empty(12, 12), 12, 8)
    assert "why: rows is 12 in this program, but y has 12 columns: the address is that of" in told
    assert "rows runs along axis 0 of the tile in the mask, and along axis 1 in the address" in told


@pytest.mark.parametrize("which", ["loaded", "from a helper"])
def test_what_the_source_does_not_show_is_not_said(which):
    told = fault(*launch(which))
    assert told.count("why:") == 1
    assert "why: the tile of program (1, 0, 0) has all of a tile that program (0, 0, 0)" in told


@triton.jit
def two_loads_kernel(x_ptr, y_ptr):
    pid = tl.program_id(0)
    tl.store(y_ptr + pid, tl.load(x_ptr + 3) + tl.load(y_ptr + 1 - pid))


def test_of_two_loads_in_one_line_neither_is_taken_for_the_other():
    told = fault(two_loads_kernel, (2,), torch.zeros(4), torch.zeros(2))
    assert "why:" not in told


@triton.jit
def turned_kernel(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=mask)
    tl.store(y_ptr + cols[:, None] * N + rows[None, :], tl.trans(x), mask=tl.trans(mask))


def test_where_the_indices_fit_it_is_the_stride_whatever_the_mask_looks_like():
    x, y = torch.randn(64, 128), torch.empty(128, 64)
    told = fault(turned_kernel, (2, 4), x, y, 64, 128, 32)
    assert "each step of cols moves by 128 elements (N), but the strides of y are (64, 1)" in told


def test_the_stride_of_a_single_row_is_a_stride_too():
    x, y = torch.randn(64, 1), torch.empty(1, 64)
    told = fault(swapped_kernel, (2,), x, y, 64, 64, 32)
    assert "each step of rows moves by 64 elements" not in told


@triton.jit
def swapped_kernel(x_ptr, y_ptr, M, stride_ym, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = rows < M
    tl.store(y_ptr + rows * stride_ym, tl.load(x_ptr + rows, mask=mask), mask=mask)


@triton.jit
def branch_kernel(x_ptr, y_ptr, late, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    offs = lanes + 8
    if late == 0:
        offs = lanes - 1
    tl.store(y_ptr + lanes, tl.load(x_ptr + offs))


@pytest.mark.parametrize(("late", "why"), [(1, ""), (0, "why: offs is -1 there; offs = lanes - 1")])
def test_what_another_branch_sets_is_not_how_an_index_was_made(late, why):
    told = fault(branch_kernel, (1,), torch.randn(8), torch.empty(8), late, 8)
    assert why in told if why else "why:" not in told


@triton.jit
def window_kernel(x_ptr, y_ptr, W, padding, taps, stride_xh, BLOCK: tl.constexpr):
    q = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for tap in range(taps):
        w = q - padding + tap
        x = tl.load(x_ptr + (1 * stride_xh + w), mask=w < W)
        tl.store(y_ptr + q, x)


def test_how_an_index_before_the_first_was_made():
    told = fault(window_kernel, (1,), torch.randn(2, 16)[:, :8], torch.empty(8), 8, 1, 3, 16, 8)
    assert "why: w is -1 there; w = q - padding + tap, with padding = 1, tap = 0" in told
