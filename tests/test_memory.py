"""Accesses of interpreted kernels: bounds, races, what was stored, masked lanes without `other`."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from judge.core.settings import settings
from judge.core.verdict import Wrong
from judge.memory import addresses, executor
from judge.memory.addresses import Region, Storage
from judge.memory.data_races import ACQUIRING, RELEASING, History, Ledger
from judge.memory.watch import Watch

pytestmark = pytest.mark.skipif(not settings.interpreted, reason="only the interpreter is watched")


@pytest.fixture(autouse=True)
def _installed(monkeypatch):
    monkeypatch.setattr(executor.interpreter, "GridExecutor", executor.Executor)


ORDERS = pytest.mark.parametrize("order", ["ascending", "shuffled"])


def fault(kernel, grid, *args, order="ascending", **kwargs) -> str:
    """The message of a launch that must be wrong."""
    with pytest.raises(Wrong) as caught, Watch(order=order):
        kernel[grid](*args, **kwargs)
    return str(caught.value)


def line_of(kernel, text: str) -> str:
    """test_memory.py:line of the first line of a kernel that contains a text."""
    code = kernel.fn.__code__
    with open(code.co_filename) as file:
        lines = file.read().splitlines()
    number = next(n for n in range(code.co_firstlineno, len(lines)) if text in lines[n - 1])
    return f"test_memory.py:{number}"


# Bounds


@triton.jit
def copy_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr, MASK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if MASK == "none":
        tl.store(y_ptr + offs, tl.load(x_ptr + offs))
    elif MASK == "store":
        tl.store(y_ptr + offs, tl.load(x_ptr + offs), mask=offs < N)
    elif MASK == "load":
        x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
        tl.store(y_ptr + offs, x)
    elif MASK == "one too many":
        x = tl.load(x_ptr + offs, mask=offs <= N, other=0.0)
        tl.store(y_ptr + offs, x, mask=offs < N)
    else:
        x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
        tl.store(y_ptr + offs, x, mask=offs < N)


def test_right_mask_passes():
    for n in (1, 63, 64, 65, 1000):
        x = torch.randn(n)
        y = torch.empty_like(x)
        with Watch() as watch:
            copy_kernel[(triton.cdiv(n, 64),)](x, y, n, 64, "right")
        assert torch.equal(x, y)
        assert watch.stored(y).all()
        assert not watch.stored(x).any()
        assert not watch.loads_without_other


def test_load_without_mask():
    message = fault(copy_kernel, (2,), torch.randn(100), torch.empty(100), 100, 64, "none")
    place, what, hint = message.splitlines()
    assert place.endswith(
        f"{line_of(copy_kernel, 'tl.load(x_ptr + offs))')}  tl.load(x_ptr + offs)"
    )
    assert what == (
        "program (1, 0, 0) reads x[100..127] but x has 100 elements: "
        "28 of 64 lanes are out of bounds"
    )
    assert hint == "hint: the elements of this tile run past N; mask with offs < N"


def test_path_is_relative_to_the_current_directory(monkeypatch):
    file = copy_kernel.fn.__code__.co_filename
    monkeypatch.chdir(file.rsplit("/", 2)[0])
    message = fault(copy_kernel, (2,), torch.randn(100), torch.empty(100), 100, 64, "none")
    assert message.startswith("tests/test_memory.py:")


def test_store_without_mask():
    message = fault(copy_kernel, (2,), torch.randn(100), torch.empty(100), 100, 64, "load")
    assert "tl.store(y_ptr + offs, x)" in message
    assert "writes y[100..127] but y has 100 elements: 28 of 64 lanes" in message


def test_nothing_is_stored_by_an_access_that_is_wrong():
    buffer = torch.zeros(200)
    fault(copy_kernel, (2,), torch.randn(100), buffer[:100], 100, 64, "load")
    assert not buffer[100:].any()
    assert not buffer[64:100].any()


def test_off_by_one_mask():
    message = fault(copy_kernel, (2,), torch.randn(100), torch.empty(100), 100, 64, "one too many")
    assert (
        "reads x[100] but x has 100 elements: 1 of 37 lanes that the mask lets through" in message
    )
    assert (
        "the mask lets element 100 through, the last one is 99: compare with < N, not <=" in message
    )


def test_mask_that_lets_a_whole_tile_through():
    message = fault(copy_kernel, (1,), torch.randn(63), torch.empty(63), 63, 64, "one too many")
    assert "reads x[63] but x has 63 elements: 1 of 64 lanes that the mask lets through" in message
    assert "the mask lets all elements of this tile through; add offs < N to it" in message


def test_neighbouring_memory_of_another_tensor_is_out_of_bounds():
    buffer = torch.randn(128)
    message = fault(copy_kernel, (1,), buffer[:100], buffer[100:], 28, 128, "store")
    assert "reads x[100..127]" in message


@triton.jit
def tile_kernel(
    a_ptr, c_ptr,
    M, N,
    stride_am, stride_an,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_n[None, :] * stride_an
    if MASK == "none":
        a = tl.load(a_ptrs)
    elif MASK == "rows":
        a = tl.load(a_ptrs, mask=offs_m[:, None] < M, other=0.0)
    elif MASK == "columns":
        a = tl.load(a_ptrs, mask=offs_n[None, :] < N, other=0.0)
    elif MASK == "swapped":
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < N) & (offs_n[None, :] < M), other=0.0)
    else:
        a = tl.load(a_ptrs, mask=mask, other=0.0)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], a, mask=mask)


def launch_tile(a: torch.Tensor, mask: str, size: int = 32) -> torch.Tensor:
    M, N = a.shape
    c = torch.empty(M, N, dtype=a.dtype)
    grid = (triton.cdiv(M, size), triton.cdiv(N, size))
    tile_kernel[grid](a, c, M, N, *a.stride(), size, size, mask)
    return c


def tile_fault(a: torch.Tensor, mask: str, size: int = 32) -> str:
    with pytest.raises(Wrong) as caught, Watch():
        launch_tile(a, mask, size)
    return str(caught.value)


VIEWS = {
    "contiguous": lambda: torch.randn(67, 35),
    "transposed": lambda: torch.randn(35, 67).T,
    "row stride": lambda: torch.randn(67, 100)[:, :35],
    "offset": lambda: torch.randn(70, 40)[3:, 5:],
    "both strides": lambda: torch.randn(134, 70)[::2, ::2],
    "no rows": lambda: torch.randn(1, 35).expand(67, 35),
    "no columns": lambda: torch.randn(67, 1).expand(67, 35),
    "one number": lambda: torch.randn(1, 1).expand(67, 35),
    "overlapping": lambda: torch.randn(101).unfold(0, 35, 1),
    "one row": lambda: torch.randn(1, 35),
    "one column": lambda: torch.randn(67, 1),
    "float16": lambda: torch.randn(67, 35).half(),
    "bfloat16": lambda: torch.randn(67, 35).bfloat16(),
    "int64": lambda: torch.arange(67 * 35).view(67, 35),
    "int8": lambda: torch.arange(67 * 35).view(67, 35).to(torch.int8),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
@ORDERS
def test_views_pass(view, order):
    a = view()
    with Watch(order=order) as watch:
        c = launch_tile(a, "right")
    assert torch.equal(a, c)
    assert watch.stored(c).all()


def test_rows_run_past():
    message = tile_fault(torch.randn(67, 35), "columns")
    assert "program (2, 0, 0) reads a[67..95, 0..31] but a has 67 rows: 928 of 1024" in message
    assert "the mask lets all rows of this tile through; add offs_m[:, None] < M to it" in message


def test_columns_run_past_are_not_taken_for_the_next_row():
    message = tile_fault(torch.randn(67, 35), "rows")
    assert "program (2, 1, 0) reads a[66, 35..63] but a has 35 columns" in message
    assert (
        "the mask lets all columns of this tile through; add offs_n[None, :] < N to it" in message
    )


def test_a_column_of_tiles_too_many():
    a, c = torch.randn(32, 32), torch.empty(32, 32)
    message = fault(tile_kernel, (1, 2), a, c, 32, 32, 32, 1, 32, 32, "rows")
    assert "program (0, 1, 0) reads a[31, 32..63] but a has 32 columns: 32 of 1024" in message


def test_columns_of_a_view_with_gaps():
    message = tile_fault(torch.randn(67, 64)[:, :35], "rows")
    assert "program (0, 1, 0) reads a[0..31, 35..63] but a has 35 columns" in message


def test_memory_between_strided_columns_is_no_element():
    message = tile_fault(torch.randn(67, 70)[:, ::2], "none")
    assert "program (2, 0, 0) reads a[67..95, 0..31] but a has 67 rows" in message


def test_rows_of_a_transposed_view():
    message = tile_fault(torch.randn(35, 67).T, "columns")
    assert "reads a[67..95, 34] but a has 67 rows" in message


def test_mask_with_sizes_swapped():
    message = tile_fault(torch.randn(40, 90)[:, :80], "swapped", 128)
    assert "the mask lets row 79 through, the last one is 39 (N is 80): compare" in message
    assert "compare offs_m[:, None] with M" in message
    message = tile_fault(torch.randn(80, 90)[:, :40], "swapped", 128)
    assert "the mask lets column 79 through, the last one is 39 (M is 80)" in message
    assert "compare offs_n[None, :] with N" in message


def test_single_row_overrun():
    message = tile_fault(torch.randn(1, 35), "columns")
    assert "reads a[1..31, 0..31] but a has 1 row:" in message
    assert "add offs_m[:, None] < M to it" in message


@pytest.mark.parametrize("a", [torch.randn(1, 1), torch.randn(35, 1).T], ids=["one", "one_row"])
def test_a_row_too_many_where_all_strides_are_1(a):
    assert a.stride() == (1, 1)
    message = tile_fault(a, "columns", 64)
    assert "reads a[1..63, 0" in message
    assert "but a has 1 row:" in message
    assert "add offs_m[:, None] < M to it" in message


@pytest.mark.parametrize("rows", [1, 35])
def test_a_column_too_many_where_all_strides_are_1(rows):
    message = tile_fault(torch.randn(rows, 1), "rows", 64)
    assert ", 1..63] but a has 1 column:" in message
    assert "add offs_n[None, :] < N to it" in message


def test_one_column_walked_along_its_rows():
    message = fault(row_kernel, (1,), torch.randn(35, 1), torch.empty(1), 35, 64)
    assert "reads x[35..63, 0] but x has 35 rows" in message


@triton.jit
def strided_row_kernel(x_ptr, y_ptr, n_cols, stride_x, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    tl.store(y_ptr + row, tl.sum(tl.load(x_ptr + row * stride_x + cols)))


def test_a_stride_is_no_size():
    x, y = torch.randn(10, 40), torch.empty(10)
    message = fault(strided_row_kernel, (10,), x, y, 40, 40, 64)
    assert message.endswith("the columns of this tile run past n_cols; mask with cols < n_cols")
    message = fault(strided_row_kernel, (10,), x, y, 7, 40, 64)
    assert message.endswith("the columns of this tile run past 40; mask with cols < 40")


@triton.jit
def matmul_k_kernel(a_ptr, y_ptr, M, K, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    acc = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for _ in tl.static_range(3):
        acc += tl.sum(tl.load(a_ptrs), axis=1)
        a_ptrs += BLOCK_K
    tl.store(y_ptr + offs_m, acc)


def test_overrun_of_a_loop_that_moves_its_pointers():
    message = fault(matmul_k_kernel, (2,), torch.randn(32, 35), torch.empty(32), 32, 35, 16, 16)
    assert "program (1, 0, 0) reads a[31, 35..47] but a has 35 columns" in message
    assert "the columns of this tile run past K; mask with the column < K" in message


@triton.jit
def flat_kernel(x_ptr, y_ptr, numel, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs))


def test_flat_walk_over_a_tensor_with_dimensions():
    message = fault(flat_kernel, (3,), torch.randn(10, 13), torch.empty(10, 13), 130, 64)
    assert "reads x[130..191] but x has 130 elements" in message
    assert "mask with offs < numel" in message


@triton.jit
def row_kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols)
    tl.store(y_ptr + row, tl.sum(x))


def test_row_walk_over_a_tensor_with_dimensions():
    message = fault(row_kernel, (10,), torch.randn(10, 13), torch.empty(10), 13, 16)
    assert "program (9, 0, 0) reads x[9, 13..15] but x has 13 columns" in message
    assert "mask with cols < n_cols" in message


def test_row_walk_where_the_block_happens_to_be_the_number_of_elements():
    message = fault(row_kernel, (2,), torch.randn(2, 8), torch.empty(2), 8, 16)
    assert "reads x[1, 8..15] but x has 8 columns" in message


@triton.jit
def batch_kernel(x_ptr, y_ptr, B, M, N, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    base = tl.program_id(0) * M * N
    x = tl.load(x_ptr + base + offs[:, None] * N + offs[None, :], mask=offs[None, :] < N, other=0.0)
    tl.store(y_ptr + base + offs[:, None] * N + offs[None, :], x)


def test_dimension_of_three():
    message = fault(batch_kernel, (2,), torch.randn(2, 5, 7), torch.empty(2, 5, 7), 2, 5, 7, 8)
    assert "program (1, 0, 0) reads x[1, 5..7, 0..6] but x has size 5 in dimension 1" in message
    assert (
        "the mask lets all indices along dimension 1 of this tile through; add offs[:, None] < M"
        in message
    )


@triton.jit
def offset_kernel(x_ptr, y_ptr, offset, STORE: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK) + offset
    if STORE:
        tl.store(x_ptr + offs, tl.zeros((BLOCK,), dtype=tl.float32))
    else:
        tl.store(y_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + offs))


FAR = [2**20, 2**31 - 64, 2**33, 2**40, -(2**40), 2**43, 2**50, -(2**50), 2**61, -(2**61)]


@pytest.mark.parametrize("offset", FAR)
@pytest.mark.parametrize("store", [False, True])
def test_far_out_of_bounds_is_a_message_and_no_crash(offset, store):
    x, y = torch.randn(64), torch.empty(64)
    message = fault(offset_kernel, (1,), x, y, offset, store, 64)
    assert "x has 64 elements" in message or "is of no tensor" in message
    assert "64 of 64 lanes are out of bounds" in message


def test_negative_offset():
    message = fault(offset_kernel, (1,), torch.randn(64), torch.empty(64), -3, False, 64)
    assert "reads x[-3..-1] but x has 64 elements: 3 of 64 lanes" in message
    assert "mask with offs >= 0" in message


def test_a_tensor_without_elements_has_none_to_read():
    message = fault(offset_kernel, (1,), torch.empty(0), torch.empty(64), 0, False, 64)
    assert "64 of 64 lanes are out of bounds" in message


@triton.jit
def scalar_kernel(x_ptr, y_ptr, N):
    tl.store(y_ptr + tl.program_id(0), tl.load(x_ptr + tl.program_id(0)))


def test_grid_with_more_programs_than_elements():
    message = fault(scalar_kernel, (6,), torch.randn(5), torch.empty(6), 5)
    assert "program (5, 0, 0) reads x[5] but x has 5 elements: out of bounds" in message
    assert "the grid has 6 programs along axis 0, but there are only 5 elements" in message


@triton.jit
def zero_dim_kernel(x_ptr, y_ptr, OFFSET: tl.constexpr):
    tl.store(y_ptr, tl.load(x_ptr + OFFSET))


def test_tensor_without_dimensions():
    y = torch.empty(())
    with Watch() as watch:
        zero_dim_kernel[(1,)](torch.tensor(3.0), y, 0)
    assert y.item() == 3
    assert watch.stored(y).shape == ()
    assert watch.stored(y).all()
    assert "x[1] but x has 1 element:" in fault(zero_dim_kernel, (1,), torch.tensor(3.0), y, 1)


@triton.jit
def large_kernel(x_ptr, y_ptr, row, stride, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    if WIDE:
        row = row.to(tl.int64)
    tl.store(y_ptr + offs, tl.load(x_ptr + row * stride + offs))


def test_int32_overflow_of_an_offset_is_named():
    storage = torch.empty(2**31 + 2**20, dtype=torch.int8)
    x = storage.as_strided((1025, 64), (2**21, 1))
    y = torch.empty(64, dtype=torch.int8)
    with Watch():
        large_kernel[(1,)](x, y, 1024, 2**21, True, 64)
    assert torch.equal(y, x[1024])
    message = fault(large_kernel, (1,), x, y, 1024, 2**21, False, 64)
    assert "the offset is 2**32 too small" in message
    assert "int64" in message


def test_gaps_of_a_huge_view_are_no_elements():
    x = torch.empty(2**31 + 2**20, dtype=torch.int8).as_strided((1025, 64), (2**21, 1))
    y = torch.empty(128, dtype=torch.int8)
    message = fault(large_kernel, (1,), x, y, 1000, 2**21, True, 128)
    assert "reads x[1000, 64..127] but x has 64 columns" in message


@triton.jit
def helper(ptrs):
    return tl.load(ptrs)


@triton.jit
def helped_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = helper(x_ptr + offs)
    tl.store(y_ptr + offs, x, mask=offs < N)


def test_access_in_a_helper_names_both_lines():
    message = fault(helped_kernel, (1,), torch.randn(5), torch.empty(5), 5, 8)
    first, second, *_ = message.splitlines()
    assert first.endswith(f"{line_of(helper, 'tl.load(ptrs)')}  tl.load(ptrs)")
    assert "in helper, called from" in second
    assert line_of(helped_kernel, "helper(x_ptr") in second
    assert "reads x[5..7]" in message


@triton.jit
def gather_kernel(table_ptr, indices_ptr, out_ptr, N, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    indices = tl.load(indices_ptr + offs, mask=offs < N, other=0)
    tl.store(out_ptr + offs, tl.load(table_ptr + indices * 4, mask=offs < N), mask=offs < N)


def test_gather():
    table, out = torch.randn(6, 4), torch.empty(5)
    indices = torch.tensor([5, 0, 0, 3, 1])
    with Watch():
        gather_kernel[(1,)](table, indices, out, 5, 8)
    assert torch.equal(out, table[indices, 0])
    indices[2] = 6
    message = fault(gather_kernel, (1,), table, indices, out, 5, 8)
    assert "reads table[6, 0] but table has 6 rows: 1 of 5 lanes" in message


@triton.jit
def and_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    both = tl.load(x_ptr) > 0 and tl.load(x_ptr + N) > 0
    tl.store(y_ptr + offs, both, mask=offs < N)


def test_access_in_a_condition_names_the_line():
    message = fault(and_kernel, (1,), torch.ones(5), torch.empty(5), 5, 8)
    place, what, *_ = message.splitlines()
    assert f"{line_of(and_kernel, 'both =')}  both = tl.load(x_ptr) > 0 and tl.load(" in place
    assert what == "program (0, 0, 0) reads x[5] but x has 5 elements: out of bounds"


# Pointers of other types, descriptors, tables of pointers


@triton.jit
def bytes_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr.to(tl.pointer_type(tl.int8)) + offs)
    tl.store(y_ptr.to(tl.pointer_type(tl.int8)) + offs, x)


@triton.jit
def words_kernel(x_ptr, y_ptr, shift, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load((x_ptr + shift).to(tl.pointer_type(tl.int64)) + offs)
    tl.store(y_ptr.to(tl.pointer_type(tl.int64)) + offs, x)


def test_pointer_casts():
    x, y = torch.randn(16), torch.empty(16)
    with Watch() as watch:
        bytes_kernel[(1,)](x, y, 64)
    assert torch.equal(x, y)
    assert watch.stored(y).all()
    with Watch() as watch:
        words_kernel[(1,)](x, y, 0, 8)
    assert torch.equal(x, y)
    assert watch.stored(y).all()
    assert "reads x[16..31] but x has 16 elements" in fault(bytes_kernel, (1,), x, y, 128)
    assert "multiple of 8" in fault(words_kernel, (1,), x, y, 1, 4)


def test_half_stored_elements_are_not_stored():
    y = torch.empty(16)
    with Watch() as watch:
        bytes_kernel[(1,)](torch.randn(16), y, 32)
    assert watch.stored(y).tolist() == [True] * 8 + [False] * 8
    y = torch.empty(16)
    with Watch() as watch:
        bytes_kernel[(1,)](torch.randn(16), y, 2)
    assert not watch.stored(y).any()
    with Watch() as watch:
        copy_kernel[(1,)](torch.randn(16), y, 16, 16, "right")
        bytes_kernel[(1,)](torch.randn(16), y, 2)
    assert watch.stored(y).all()


def test_complex_as_pairs_of_floats():
    x = torch.randn(50, dtype=torch.complex64)
    y = torch.empty_like(x)
    with Watch() as watch:
        copy_kernel[(2,)](torch.view_as_real(x), torch.view_as_real(y), 100, 64, "right")
    assert torch.equal(x, y)
    assert watch.stored(y).all()
    assert watch.stored(y).shape == (50,)
    x, y = torch.view_as_real(x), torch.view_as_real(y)
    assert "reads x[100..127] but x has 100 elements" in fault(
        copy_kernel, (2,), x, y, 100, 64, "none"
    )


@triton.jit
def descriptor_kernel(x_desc, y_desc, BLOCK: tl.constexpr):
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    y_desc.store([row, column], x_desc.load([row, column]))


def test_descriptors_pad_and_clip():
    x, y = torch.randn(40, 24), torch.empty(40, 24)
    block = [32, 32]
    with Watch() as watch:
        descriptor_kernel[(2, 1)](
            TensorDescriptor.from_tensor(x, block), TensorDescriptor.from_tensor(y, block), 32
        )
    assert torch.equal(x, y)
    assert watch.stored(y).all()
    assert not watch.loads_without_other


def test_descriptor_of_a_shape_that_is_too_large():
    x, y = torch.randn(40, 24), torch.empty(40, 24)
    too_large = TensorDescriptor(x, [44, 24], [24, 1], [32, 32])
    message = fault(
        descriptor_kernel, (2, 1), too_large, TensorDescriptor.from_tensor(y, [32, 32]), 32
    )
    assert "x_desc.load([row, column])" in message
    assert "program (1, 0, 0) reads x[40..43, 0..23] but x has 40 rows" in message
    assert "the shape that the descriptor was given is larger than x" in message


@triton.jit
def make_descriptor_kernel(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    x_desc = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    y_desc = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    y_desc.store([0, 0], x_desc.load([0, 0]))


def test_descriptors_made_in_a_kernel():
    x, y = torch.randn(12, 8), torch.empty(12, 8)
    with Watch():
        make_descriptor_kernel[(1,)](x, y, 12, 8, 16)
    assert torch.equal(x, y)
    assert "x has 12 rows" in fault(make_descriptor_kernel, (1,), x, y, 13, 8, 16)


@triton.jit
def table_kernel(table_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x_ptr = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0) * n + offs, x, mask=offs < n)


def test_table_of_pointers():
    parts = [torch.randn(10) for _ in range(3)]
    table = torch.tensor([part.data_ptr() for part in parts])
    out = torch.empty(3, 10)
    with Watch() as watch:
        for number, part in enumerate(parts):
            watch.know(part, f"part {number}")
        table_kernel[(3,)](table, out, 10, 16)
    assert torch.equal(out, torch.stack(parts))
    with Watch(inputs={"first": parts[0]}) as watch, pytest.raises(Wrong) as caught:
        table_kernel[(1,)](table, out, 11, 16)
    assert "out of bounds" in str(caught.value)
    assert "is of no tensor" in fault(table_kernel, (3,), table, out, 10, 16)
    message = fault(table_kernel, (3,), torch.zeros(3, dtype=torch.int64), out, 10, 16)
    assert "this one is null" in message


@triton.jit
def tables_kernel(table_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x_ptrs = tl.load(table_ptr + offs).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + offs, tl.load(x_ptrs + 1))


def test_one_access_to_several_tensors():
    parts = [torch.randn(10) for _ in range(4)]
    table = torch.tensor([part.data_ptr() for part in parts])
    out = torch.empty(4)
    with Watch(inputs={f"part{n}": part for n, part in enumerate(parts)}):
        tables_kernel[(1,)](table, out, 4)
    assert torch.equal(out, torch.stack(parts)[:, 1])


@triton.jit
def tuple_kernel(tensors, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(tensors[0] + offs, mask=offs < n, other=0.0)
    tl.store(tensors[1] + offs, x, mask=offs < n)
    tl.load(tensors[1] + offs)


def test_tensors_in_a_tuple():
    message = fault(tuple_kernel, (1,), (torch.randn(5), torch.empty(5)), 5, 8)
    assert "reads tensors[1][5..7] but tensors[1] has 5 elements" in message


# Masked-off lanes without other


@triton.jit
def sum_kernel(x_ptr, y_ptr, n, OTHER: tl.constexpr, OP: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    if OTHER:
        x = tl.load(x_ptr + offs, mask=offs < n, other=0)
    else:
        x = tl.load(x_ptr + offs, mask=offs < n)
    if OP == "sum":
        tl.store(y_ptr, tl.sum(x))
    elif OP == "max":
        tl.store(y_ptr, tl.max(x))
    else:
        tl.store(y_ptr, tl.min(x))


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int8])
def test_lanes_without_other_show_in_the_result(op, dtype):
    x, y = torch.zeros(13, dtype=dtype), torch.zeros(1, dtype=dtype)
    with Watch() as watch:
        sum_kernel[(1,)](x, y, 13, False, op, 16)
    assert y.item() != 0
    ((file, line),) = watch.loads_without_other
    assert f"{file.rsplit('/')[-1]}:{line}" == line_of(sum_kernel, "mask=offs < n)")
    assert watch.loads_without_other[file, line] == 3
    with Watch(poison=False) as watch:
        sum_kernel[(1,)](x, y, 13, False, op, 16)
    assert y.item() == 0
    assert watch.loads_without_other
    with Watch() as watch:
        sum_kernel[(1,)](x, y, 13, True, op, 16)
    assert y.item() == 0
    assert not watch.loads_without_other


@pytest.mark.parametrize("op", ["sum", "max"])
def test_one_lane_without_other_shows(op):
    x, y = torch.zeros(15), torch.zeros(1)
    with Watch():
        sum_kernel[(1,)](x, y, 15, False, op, 16)
    assert y.item() != 0


@triton.jit
def one_value_kernel(x_ptr, y_ptr, SHAPE: tl.constexpr):
    offs = tl.zeros(SHAPE, tl.int32)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs > tl.program_id(0), other=0))


@triton.jit
def masked_scalar_kernel(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(x_ptr, mask=tl.program_id(0) > 0, other=0.0))


@pytest.mark.parametrize("launch", ["scalar", (1,), (1, 1)])
def test_other_of_one_lane_may_be_0(launch):
    # Triton hands it on only where it is true, as a Python number.
    x, y = torch.ones(1), torch.ones(1)
    with Watch() as watch:
        masked_scalar_kernel[(1,)](x, y) if launch == "scalar" else one_value_kernel[(1,)](
            x, y, launch
        )
    assert y.item() == 0
    assert not watch.loads_without_other


def test_full_mask_without_other_is_no_matter():
    x, y = torch.ones(16), torch.zeros(1)
    with Watch() as watch:
        sum_kernel[(1,)](x, y, 16, False, "sum", 16)
    assert y.item() == 16
    assert not watch.loads_without_other


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.float64, torch.int64])
def test_poison_of_other_types(dtype):
    x, y = torch.zeros(5, dtype=dtype), torch.zeros(8, dtype=dtype)
    with Watch():
        masked_copy_kernel[(1,)](x, y, 5, 8)
    assert not y[:5].any()
    assert all(value != 0 for value in y[5:].tolist())


@triton.jit
def masked_copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n))


# Stored


def test_elements_that_nobody_stored():
    x, y = torch.randn(100), torch.empty(100)
    with Watch() as watch:
        copy_kernel[(1,)](x, y, 100, 64, "right")
    assert watch.stored(y).tolist() == [True] * 64 + [False] * 36
    assert watch.stored(y[60:68]).tolist() == [True] * 4 + [False] * 4


def test_stored_of_a_strided_view():
    y = torch.empty(20, 10)
    with Watch() as watch:
        copy_kernel[(1,)](torch.randn(64), y, 64, 64, "right")
    assert watch.stored(y.T).sum() == 64
    assert watch.stored(y[:, 0]).sum() == 7


def test_contents_changed_outside_a_kernel():
    y = torch.zeros(8)

    def run(before: bool) -> None:
        with Watch() as watch:
            watch.remember(y, "y")
            if before:
                y.numpy()[3] = 7
            copy_kernel[(1,)](torch.randn(8), y, 8, 8, "right")
            if not before:
                y.numpy()[3] = 8

    for before in (True, False):
        with pytest.raises(Wrong) as caught:
            run(before)
        assert "y was written outside a kernel: its element [3] changed" in str(caught.value)


def test_contents_changed_by_kernels_and_by_leave():
    y, z = torch.zeros(8), torch.zeros(4, 4)
    with Watch() as watch:
        watch.remember(y)
        watch.remember(z)
        copy_kernel[(1,)](torch.randn(8), y, 8, 8, "right")
        z[1].zero_()
        z[1] += 1
        watch.remember(z[1])
        copy_kernel[(1,)](torch.randn(8), z, 8, 8, "right")


# Races


@triton.jit
def all_store_kernel(y_ptr, SAME: tl.constexpr):
    if SAME:
        tl.store(y_ptr + 3, 1.0)
    else:
        tl.store(y_ptr + 3, tl.program_id(0).to(tl.float32))


@pytest.mark.parametrize("same", [False, True])
@ORDERS
def test_two_programs_store_one_element(same, order):
    message = fault(all_store_kernel, (2,), torch.empty(8), same, order=order)
    assert "race: program (" in message
    assert "stores y[3], which program (" in message
    assert "stores, too at " in message
    assert "tl.atomic_add" in message


@triton.jit
def accumulate_kernel(x_ptr, y_ptr, ATOMIC: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0))
    if ATOMIC:
        tl.atomic_add(y_ptr, x)
    else:
        tl.store(y_ptr, tl.load(y_ptr) + x)


@ORDERS
def test_accumulation_without_atomics(order):
    x, y = torch.ones(8), torch.zeros(1)
    message = fault(accumulate_kernel, (8,), x, y, False, order=order)
    assert "loads y[0], which program" in message
    with Watch(order=order) as watch:
        accumulate_kernel[(8,)](x, y.zero_(), True)
    assert y.item() == 8
    assert watch.stored(y).all()


@triton.jit
def shift_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs + 1, mask=offs + 1 < N, other=0.0)
    tl.store(y_ptr + offs, x, mask=offs < N)


@ORDERS
def test_reading_what_another_program_overwrites(order):
    x = torch.randn(100)
    y = torch.empty(100)
    with Watch(order=order):
        shift_kernel[(4,)](x, y, 100, 32)
    assert torch.equal(y[:-1], x[1:])
    message = fault(shift_kernel, (4,), x, x, 100, 32, order=order)
    assert "race" in message
    assert "x and y are the same memory" in message
    assert "loads" in message
    assert "stores" in message


@triton.jit
def in_place_kernel(x_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
    tl.store(x_ptr + offs, x * 2, mask=offs < N)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < N) + 1, mask=offs < N)


@ORDERS
def test_in_place_on_own_elements_passes(order):
    x = torch.randn(100)
    expected = x * 2 + 1
    with Watch(order=order):
        in_place_kernel[(4,)](x, 100, 32)
    assert torch.equal(x, expected)


def test_launches_do_not_race_with_each_other():
    x = torch.randn(100)
    y = torch.empty(100)
    with Watch():
        for _ in range(3):
            copy_kernel[(2,)](x, y, 100, 64, "right")
            copy_kernel[(4,)](y, x, 100, 32, "right")


def test_race_after_other_launches():
    y = torch.empty(8)
    with Watch():
        copy_kernel[(1,)](torch.randn(8), y, 8, 8, "right")
        with pytest.raises(Wrong, match="race"):
            all_store_kernel[(2,)](y, True)


@triton.jit
def mixed_kernel(y_ptr, PLAIN: tl.constexpr):
    if tl.program_id(0) == 0:
        if PLAIN == "store":
            tl.store(y_ptr, 0.0)
        else:
            tl.store(y_ptr + 1, tl.load(y_ptr))
    else:
        tl.atomic_add(y_ptr, 1.0)


@pytest.mark.parametrize("plain", ["store", "load"])
@pytest.mark.parametrize("seed", range(3))
def test_atomic_and_plain_access_of_one_element(plain, seed):
    with pytest.raises(Wrong) as caught, Watch(order="shuffled", seed=seed):
        mixed_kernel[(4,)](torch.zeros(2), plain)
    assert "updates by an atomic" in str(caught.value)
    assert "use an atomic in both places" in str(caught.value)


@triton.jit
def sum_of_partials_kernel(x_ptr, partial_ptr, count_ptr, y_ptr, SEM: tl.constexpr):
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    offs = tl.arange(0, 16)
    tl.store(partial_ptr + pid, tl.sum(tl.load(x_ptr + pid * 16 + offs)))
    if SEM == "none":
        last = pid == programs - 1
    else:
        last = tl.atomic_add(count_ptr, 1, sem=SEM) == programs - 1
    if last:
        partials = tl.load(partial_ptr + offs, mask=offs < programs, other=0.0)
        tl.store(y_ptr, tl.sum(partials))


def sum_of_partials(sem: str, order: str, seed: int = 0) -> float:
    x, y = torch.ones(8 * 16), torch.empty(1)
    partial, count = torch.empty(8), torch.zeros(1, dtype=torch.int32)
    with Watch(order=order, seed=seed):
        sum_of_partials_kernel[(8,)](x, partial, count, y, sem)
    return y.item()


@ORDERS
def test_last_program_sums_the_partials(order):
    assert sum_of_partials("acq_rel", order) == 128


@pytest.mark.parametrize("sem", ["relaxed", "acquire", "release"])
@ORDERS
def test_last_program_without_ordering_atomics(sem, order):
    with pytest.raises(Wrong) as caught:
        sum_of_partials(sem, order)
    assert "loads partial[" in str(caught.value)
    if sem == "relaxed":
        assert 'sem="relaxed" orders nothing' in str(caught.value)


def test_last_program_without_atomics():
    with pytest.raises(Wrong, match="race"):
        sum_of_partials("none", "ascending")


@triton.jit
def late_store_kernel(partial_ptr, count_ptr, y_ptr):
    pid = tl.program_id(0)
    tl.store(partial_ptr + pid, 1.0)
    last = tl.atomic_add(count_ptr, 1) == tl.num_programs(0) - 1
    if last:
        tl.store(y_ptr, tl.load(partial_ptr))
    else:
        tl.store(partial_ptr + pid, 2.0)


def test_store_after_the_atomic_is_not_ordered():
    count = torch.zeros(1, dtype=torch.int32)
    message = fault(late_store_kernel, (4,), torch.empty(4), count, torch.empty(1))
    assert "loads partial[0]" in message
    assert line_of(late_store_kernel, "2.0") in message


@triton.jit
def row_counters_kernel(partial_ptr, counts_ptr, y_ptr, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial_ptr + rows * SPLIT + tl.program_id(1), 1.0 + rows)
    last = tl.atomic_add(counts_ptr + rows, 1) == SPLIT - 1
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in tl.static_range(SPLIT):
        total += tl.load(partial_ptr + rows * SPLIT + k, mask=last, other=0.0)
    tl.store(y_ptr + rows, total, mask=last)


@ORDERS
def test_a_counter_for_each_row(order):
    partial, y = torch.empty(64, 4), torch.empty(64)
    counts = torch.zeros(64, dtype=torch.int32)
    with Watch(order=order):
        row_counters_kernel[(2, 4)](partial, counts, y, 4, 32)
    assert torch.equal(y, 4 * torch.arange(1, 65).float())


@triton.jit
def lock_kernel(lock_ptr, y_ptr, RELEASE: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(y_ptr, tl.load(y_ptr) + 1)
    if RELEASE:
        tl.atomic_xchg(lock_ptr, 0)


@ORDERS
def test_lock(order):
    lock, y = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    with Watch(order=order):
        lock_kernel[(8,)](lock, y, True)
    assert y.item() == 8


def test_lock_that_nobody_gives_back():
    message = fault(lock_kernel, (3,), torch.zeros(1, dtype=torch.int32), torch.zeros(1), False)
    assert "waits here for ever" in message
    assert "tl.atomic_cas(lock_ptr, 0, 1)" in message


@triton.jit
def chain_kernel(x_ptr, flags_ptr, y_ptr, FORWARD: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.load(x_ptr + pid)
    tl.store(y_ptr + pid, 0.0)
    before = pid - 1 if FORWARD else pid + 1
    if (before >= 0) & (before < tl.num_programs(0)):
        while tl.atomic_add(flags_ptr + before, 0, sem="acquire") == 0:
            pass
        total += tl.load(y_ptr + before)
    tl.store(y_ptr + pid, total)
    tl.atomic_xchg(flags_ptr + pid, 1)


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_programs_that_wait_for_programs_not_yet_started(forward, seed):
    x, y = torch.arange(20.0), torch.empty(20)
    flags = torch.zeros(20, dtype=torch.int32)
    with Watch(order="shuffled", seed=seed):
        chain_kernel[(20,)](x, flags, y, forward)
    expected = x.cumsum(0) if forward else x.flip(0).cumsum(0).flip(0)
    assert torch.equal(y, expected)


@triton.jit
def flag_kernel(x_ptr, flag_ptr, y_ptr, STORE: tl.constexpr, LOAD: tl.constexpr):
    if tl.program_id(0) == 1:
        tl.store(x_ptr, 5.0)
        tl.atomic_store(flag_ptr, 1, sem=STORE)
    else:
        while tl.atomic_load(flag_ptr, sem=LOAD) == 0:
            pass
        tl.store(y_ptr, tl.load(x_ptr))


@pytest.mark.skipif(not hasattr(tl, "atomic_load"), reason="Triton 3.9 has tl.atomic_load")
def test_atomic_loads_and_stores():
    flag, y = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    with Watch() as watch:
        flag_kernel[(2,)](torch.zeros(1), flag, y, "release", "acquire")
    assert y.item() == 5
    assert watch.stored(flag).all()
    for orders in (("relaxed", "acquire"), ("release", "relaxed")):
        assert "race" in fault(flag_kernel, (2,), torch.zeros(1), flag.zero_(), y, *orders)


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, N, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0)
    tl.atomic_add(counts_ptr + x, 1, mask=offs < N)


@ORDERS
def test_histogram_by_atomics(order):
    x = torch.randint(0, 10, (1000,), dtype=torch.int32)
    counts = torch.zeros(10, dtype=torch.int32)
    with Watch(order=order):
        histogram_kernel[(4,)](x, counts, 1000, 10, 256)
    assert torch.equal(counts, torch.bincount(x, minlength=10).int())
    message = fault(histogram_kernel, (4,), x + 1, counts, 1000, 10, 256)
    assert "updates counts[10] but counts has 10 elements" in message


@triton.jit
def split_k_kernel(a_ptr, b_ptr, c_ptr, K, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    offs_k = tl.program_id(0) * (K // SPLIT) + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + offs[:, None] * K + offs_k[None, :])
    b = tl.load(b_ptr + offs_k[:, None] * BLOCK + offs[None, :])
    tl.atomic_add(c_ptr + offs[:, None] * BLOCK + offs[None, :], tl.dot(a, b), sem="relaxed")


@ORDERS
def test_split_k_by_relaxed_atomics(order):
    a, b = torch.randint(-4, 5, (16, 64)).float(), torch.randint(-4, 5, (64, 16)).float()
    c = torch.zeros(16, 16)
    with Watch(order=order) as watch:
        split_k_kernel[(4,)](a, b, c, 64, 4, 16)
    assert torch.equal(c, a @ b)
    assert watch.stored(c).all()


@triton.jit
def local_atomic_kernel(y_ptr):
    tl.atomic_add(y_ptr, 1.0, scope="cta")


def test_atomics_of_one_program_only_are_no_atomics_for_others():
    with Watch():
        local_atomic_kernel[(1,)](torch.zeros(1))
    assert "race" in fault(local_atomic_kernel, (2,), torch.zeros(1))


def test_arguments_that_share_memory():
    buffer = torch.randn(100)
    with Watch():
        copy_kernel[(2,)](buffer[:50], buffer[50:], 50, 32, "right")
    assert torch.equal(buffer[:50], buffer[50:])
    message = fault(copy_kernel, (2,), buffer[:60], buffer[40:], 60, 32, "right")
    assert "race" in message
    assert "x and y are the same memory" in message
    message = fault(sum_kernel, (2,), buffer[:16], buffer[16:17], 16, True, "sum", 16)
    assert "stores y[0], which program" in message
    assert "same memory" not in message


# The parts, against plain models of them


def random_view(chance: random.Random) -> torch.Tensor:
    """A view with any strides that torch allows: permuted, with gaps, overlapping, stride 0."""
    shape = [chance.choice([1, 2, 3, 5]) for _ in range(chance.randint(1, 3))]
    strides = [chance.choice([0, 1, 2, 3, 5, 7, 15]) for _ in shape]
    dtype = chance.choice([torch.int8, torch.float16, torch.float32, torch.float64])
    offset = chance.randint(0, 3)
    return torch.zeros(300, dtype=dtype).as_strided(shape, strides, offset)


def own_bytes(view: torch.Tensor) -> set[int]:
    """Byte offsets, from the first element, of all its elements."""
    size = view.element_size()
    starts = {0}
    for length, stride in zip(view.shape, view.stride(), strict=True):
        starts = {start + i * stride * size for start in starts for i in range(length)}
    return {start + byte for start in starts for byte in range(size)}


@pytest.mark.parametrize("mapped", [addresses.MAX_MAPPED_ELEMENTS, 0], ids=["map", "arithmetic"])
def test_elements_of_any_view(monkeypatch, mapped):
    monkeypatch.setattr(addresses, "MAPPED", mapped)
    chance = random.Random(0)
    exact = 0
    for _ in range(300):
        view = random_view(chance)
        region = Region("x", view, Storage(view))
        own = own_bytes(view)
        if not mapped and not region.dense and not region._nested:
            continue
        exact += 1
        for size in (1, 2, 4, 8):
            offsets = np.arange(-40, region.extent + 40)
            expected = [
                (offset + region.real) % size == 0
                and all(byte in own for byte in range(offset, offset + size))
                for offset in offsets
            ]
            assert region.holds(offsets, size).tolist() == expected
    assert exact > 50


def test_coordinates_of_any_view_without_overlap():
    chance = random.Random(1)
    for _ in range(1000):
        view = random_view(chance)
        region = Region("x", view, Storage(view))
        if not region._nested:
            continue
        index = [chance.randrange(size) for size in view.shape]
        element = sum(i * s for i, s in zip(index, view.stride(), strict=True))
        found = region.coordinates(np.array([element]))
        again = sum(
            int(i[0]) * s for i, s in zip(found, view.stride(), strict=True) if i is not None
        )
        assert again == element
        if 1 not in view.shape and len(set(view.stride())) == view.dim():
            expected = [i if s else None for i, s in zip(index, view.stride(), strict=True)]
            assert [None if i is None else int(i[0]) for i in found] == expected


def has_race(events: list[tuple[int, str, int, str]]) -> list[bool]:
    """For each event, whether it races with an earlier one, by the definition.

    events: program, kind, element, memory semantics, in the order in which they are executed
    """
    before: list[set[int]] = []
    released: dict[int, set[int]] = defaultdict(set)
    answers = []
    for now, (program, kind, element, order) in enumerate(events):
        past = {then for then in range(now) if events[then][0] == program}
        past |= set().union(*(before[then] for then in past)) if past else set()
        if kind == "update" and order in ACQUIRING:
            past |= released[element]
        before.append(past)
        if kind == "update" and order in RELEASING:
            released[element] |= past | {now}
        answers.append(
            any(
                events[then][0] != program
                and events[then][2] == element
                and (events[then][1], kind) not in (("load", "load"), ("update", "update"))
                and then not in past
                for then in range(now)
            )
        )
    return answers


def random_events(chance: random.Random, programs: int) -> list[tuple[int, str, int, str]]:
    orders = ["RELAXED", "ACQUIRE", "RELEASE", "ACQUIRE_RELEASE", "ACQUIRE_RELEASE"]
    return [
        (
            program,
            chance.choice(["load", "load", "store", "update", "update", "update"]),
            chance.randrange(4),
            chance.choice(orders),
        )
        for program in range(programs)
        for _ in range(chance.randint(1, 5))
    ]


def found_race(events: list[tuple[int, str, int, str]], history: History, ledger: Ledger) -> int:
    """The number of the event at which History reports the first race, or their count."""
    history.start_launch()
    running = None
    for now, (program, kind, element, order) in enumerate(events):
        if program != running:
            running = program
            history.start_program(program)
        number, units = history.access(0), np.array([element])
        if kind == "update":
            conflict = history.update(ledger, units, number, order)
        else:
            conflict = getattr(history, kind)(ledger, units, number)
        if conflict:
            return now
    return len(events)


@pytest.mark.parametrize("programs", [2, 4])
def test_races_by_their_definition(programs):
    chance = random.Random(0)
    history, ledger = History(), Ledger(64, 4)
    agreed = raced = 0
    for _ in range(2000):
        events = random_events(chance, programs)
        racing = [*has_race(events), True]
        found = found_race(events, history, ledger)
        # Never a false alarm. Of the accesses of each kind only the last two programs' are kept, so
        # among many programs a race may show later.
        assert racing[found]
        agreed += found == racing.index(True)
        raced += True in racing[:-1]
    assert 100 < raced < 1990
    assert agreed >= (2000 if programs == 2 else 1980)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_on_a_gpu_are_copied_there_and_back():
    x = torch.randn(100, device="cuda")
    y = torch.zeros_like(x)
    with Watch() as watch:
        watch.remember(y)
        copy_kernel[(2,)](x, y, 100, 64, "right")
        y.zero_()
        watch.remember(y)
        copy_kernel[(2,)](x, y, 100, 64, "right")
    assert torch.equal(x, y)
    assert watch.stored(y).all()
    assert "reads x[100..127]" in fault(copy_kernel, (2,), x, y, 100, 64, "none")
    watch = Watch()
    watch.remember(y)
    y.zero_()
    with pytest.raises(Wrong, match="outside a kernel"):
        watch.check_contents()
