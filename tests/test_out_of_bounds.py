"""Accesses out of bounds: which are found, and what the message says."""

from __future__ import annotations

import json

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelgauge.memory.watch import Watch
from kernelgauge.words import say
from tests.launching import (
    ORDERS,
    bytes_kernel,
    copy_kernel,
    descriptor_kernel,
    fault,
    found,
    interpreted_only,
    line_of,
    watched,
)

pytestmark = interpreted_only


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
    elif MASK == "one more":
        mask_n = offs_n < N + 1
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & mask_n[None, :], other=0.0)
    elif MASK == "swapped":
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < N) & (offs_n[None, :] < M), other=0.0)
    else:
        a = tl.load(a_ptrs, mask=mask, other=0.0)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], a, mask=mask)


@triton.jit
def left_kernel(x_ptr, y_ptr, H, W, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    h, w = offs // W, offs % W - 1
    rows = x_ptr + h * W
    mask = (h < H) & (w < W)
    x = tl.load(rows[None, :] + w[None, :], mask=mask[None, :], other=0.0)
    tl.store(y_ptr + offs[None, :], x, mask=mask[None, :])


@triton.jit
def all_rows_kernel(y_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows, cols = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], 1.0, mask=rows[:, None] < M)


@triton.jit
def row_kernel(x_ptr, y_ptr, n_cols, stride_x, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    tl.store(y_ptr + row, tl.sum(tl.load(x_ptr + row * stride_x + cols)))


@triton.jit
def loop_kernel(a_ptr, y_ptr, M, K, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    acc = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for _ in tl.static_range(3):
        acc += tl.sum(tl.load(a_ptrs), axis=1)
        a_ptrs += BLOCK_K
    tl.store(y_ptr + offs_m, acc)


@triton.jit
def batch_kernel(x_ptr, y_ptr, B, M, N, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    base = tl.program_id(0) * M * N
    mask = offs[None, :] < N
    x = tl.load(x_ptr + base + offs[:, None] * N + offs[None, :], mask=mask, other=0.0)
    tl.store(y_ptr + base + offs[:, None] * N + offs[None, :], x, mask=mask)


@triton.jit
def offset_kernel(x_ptr, y_ptr, offset, STORE: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK) + offset
    if STORE:
        tl.store(x_ptr + offs, tl.zeros((BLOCK,), dtype=tl.float32))
    else:
        tl.store(y_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + offs))


@triton.jit
def scalar_kernel(x_ptr, y_ptr, N):
    tl.store(y_ptr + tl.program_id(0), tl.load(x_ptr + tl.program_id(0)))


@triton.jit
def gather_kernel(table_ptr, indices_ptr, out_ptr, N, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    indices = tl.load(indices_ptr + offs, mask=offs < N, other=0)
    tl.store(out_ptr + offs, tl.load(table_ptr + indices * 4, mask=offs < N), mask=offs < N)


@triton.jit
def tuple_kernel(tensors, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(tensors[0] + offs, mask=offs < n, other=0.0)
    tl.store(tensors[1] + offs, x, mask=offs < n)
    tl.load(tensors[1] + offs)


@triton.jit
def words_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr, shift):
    offs = tl.arange(0, BLOCK)
    x = tl.load((x_ptr + shift).to(tl.pointer_type(tl.int64)) + offs)
    tl.store(y_ptr.to(tl.pointer_type(tl.int64)) + offs, x)


@triton.jit
def make_descriptor_kernel(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    x_desc = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    y_desc = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    y_desc.store([0, 0], x_desc.load([0, 0]))


def tile_launch(a: torch.Tensor, mask: str, size: int = 32) -> tuple:
    """Return kernel, grid and arguments of a copy of a by tiles."""
    M, N = a.shape
    grid = (triton.cdiv(M, size), triton.cdiv(N, size))
    c = torch.empty(M, N, dtype=a.dtype)
    return tile_kernel, grid, a, c, M, N, *a.stride(), size, size, mask


def copy_launch(x: torch.Tensor, mask: str) -> tuple:
    """Return kernel, grid and arguments of a copy of x by blocks of 64 elements."""
    n = x.numel()
    return copy_kernel, (triton.cdiv(n, 64),), x, torch.empty(x.shape), n, 64, mask


def described(*tensors: torch.Tensor) -> list[TensorDescriptor]:
    return [TensorDescriptor.from_tensor(tensor, [32, 32]) for tensor in tensors]


def copy_arguments(x: torch.Tensor, y: torch.Tensor) -> tuple:
    return x, y, x.numel(), 64, "right"


# For each id a kernel, a grid, the shape of x and y, and the arguments for copying x to y.
COPIES = {
    "1 element": (copy_kernel, (1,), (1,), copy_arguments),
    "63 elements": (copy_kernel, (1,), (63,), copy_arguments),
    "64 elements": (copy_kernel, (1,), (64,), copy_arguments),
    "65 elements": (copy_kernel, (2,), (65,), copy_arguments),
    "1000 elements": (copy_kernel, (16,), (1000,), copy_arguments),
    "no dimensions": (scalar_kernel, (1,), (), lambda x, y: (x, y, 1)),
    "bytes": (bytes_kernel, (1,), (16,), lambda x, y: (x, y, 64)),
    "words": (words_kernel, (1,), (16,), lambda x, y: (x, y, 8, 0)),
    "descriptors": (descriptor_kernel, (2, 1), (40, 24), lambda x, y: (*described(x, y), 32)),
    "made in the kernel": (make_descriptor_kernel, (1,), (12, 8), lambda x, y: (x, y, 12, 8, 16)),
}


@pytest.mark.parametrize(
    ("kernel", "grid", "shape", "arguments"), COPIES.values(), ids=COPIES.keys()
)
def test_right_accesses_pass(kernel, grid, shape, arguments):
    x, y = torch.randn(shape), torch.empty(shape)
    watch = watched(kernel, grid, *arguments(x, y))
    assert torch.equal(x, y)
    assert watch.stored(y).shape == shape
    assert watch.stored(y).all()
    assert not watch.stored(x).any()
    assert not watch.loads_without_other


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
    launch = tile_launch(a, "right")
    watch = watched(*launch, order=order)
    assert torch.equal(a, launch[3])
    assert watch.stored(launch[3]).all()


def test_a_message_is_place_and_call_then_what_happened_then_why_then_a_hint():
    place, what, why, hint = fault(*copy_launch(torch.randn(100), "none")).splitlines()
    line = line_of(copy_kernel, "tl.load(x_ptr + offs))")
    assert place.endswith(f"{line}  tl.load(x_ptr + offs)")
    assert what == (
        "program (1, 0, 0) reads x[100..127] but x has 100 elements: "
        "28 of 64 lanes are out of bounds"
    )
    made = "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"
    assert why == f"why: offs is 100 there; {made}, with tl.program_id(0) = 1, BLOCK = 64"
    assert hint == "hint: the elements of this tile run past N; mask with offs < N"


def test_a_fault_is_data():
    wrong = found(*copy_launch(torch.randn(100), "one too many"))
    assert (wrong.kind, wrong.tensor) == ("out-of-bounds-load", "x")
    assert (wrong.program, wrong.grid) == ((1, 0, 0), (2, 1, 1))
    assert wrong.numbers == {"lanes": 1, "of": 37, "size": 100, "index": [(100, 100)]}
    assert wrong.place.source == "tl.load(x_ptr + offs, mask=offs <= N, other=0.0)"
    assert wrong.remedy.id == "mask-is-too-wide"
    assert json.loads(json.dumps(wrong.plain()))["remedy"]["values"]["compared"] == "<="


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        ("out-of-bounds-store", "store without a mask"),
        ("between-elements-load", "memory between elements"),
        ("misaligned-access", "a pointer cast to words, misaligned"),
    ],
)
def test_kinds(kind, case):
    assert found(*MESSAGES[case][0]).kind == kind


BUFFER = torch.randn(128)
EMPTY = torch.empty(32, 32)
INDICES = torch.tensor([5, 0, 6, 3, 1])
TOO_LARGE = TensorDescriptor(torch.randn(40, 24), [44, 24], [24, 1], [32, 32])

# For each id a launch, and what its message contains.
MESSAGES = {
    "store without a mask": (
        copy_launch(torch.randn(100), "load"),
        "tl.store(y_ptr + offs, x)",
        "writes y[100..127] but y has 100 elements: 28 of 64 lanes",
    ),
    "mask off by one": (
        copy_launch(torch.randn(100), "one too many"),
        "reads x[100] but x has 100 elements: 1 of 37 lanes that the mask lets through",
        "the mask lets element 100 through, but the last one is 99: compare with < N, not <=",
    ),
    "mask that lets a whole tile through": (
        copy_launch(torch.randn(63), "one too many"),
        "reads x[63] but x has 63 elements: 1 of 64 lanes that the mask lets through",
        "the mask lets element 63 through, but the last one is 62: compare with < N, not <=",
    ),
    "memory of another tensor": (
        (copy_kernel, (1,), BUFFER[:100], BUFFER[100:], 28, 128, "store"),
        "reads x[100..127]",
    ),
    "rows": (
        tile_launch(torch.randn(67, 35), "columns"),
        "program (2, 0, 0) reads a[67..95, 0..31] but a has 67 rows: 928 of 1024",
        "the mask lets all rows of this tile through; it also needs offs_m[:, None] < M",
    ),
    "columns, not the next row": (
        tile_launch(torch.randn(67, 35), "rows"),
        "program (2, 1, 0) reads a[66, 35..63] but a has 35 columns",
        "the mask lets all columns of this tile through; it also needs offs_n[None, :] < N",
    ),
    "a column of tiles too many": (
        (tile_kernel, (1, 2), EMPTY, EMPTY, 32, 32, 32, 1, 32, 32, "rows"),
        "program (0, 1, 0) reads a[31, 32..63] but a has 32 columns: 32 of 1024",
    ),
    "columns of a view with gaps": (
        tile_launch(torch.randn(67, 64)[:, :35], "rows"),
        "program (0, 1, 0) reads a[0..31, 35..63] but a has 35 columns",
    ),
    "rows of a view with gaps": (
        tile_launch(torch.randn(67, 70)[:, ::2], "none"),
        "program (2, 0, 0) reads a[67..95, 0..31] but a has 67 rows",
    ),
    "memory between elements": (
        (copy_kernel, (1,), torch.randn(20)[::2], torch.empty(20), 20, 16, "right"),
        "reads memory between the elements of x, near x[0..7]: 8 of 16 lanes that the mask lets "
        "through do\n",
        "each step of offs moves by 1 element, but the strides of x are (2,)",
    ),
    "rows of a transposed view": (
        tile_launch(torch.randn(35, 67).T, "columns"),
        "reads a[67..95, 34] but a has 67 rows",
    ),
    "mask with sizes swapped, rows": (
        tile_launch(torch.randn(40, 90)[:, :80], "swapped", 128),
        "row 79 through, but the last one is 39 (N is 80): compare offs_m[:, None] with M",
    ),
    "mask with sizes swapped, columns": (
        tile_launch(torch.randn(80, 90)[:, :40], "swapped", 128),
        "column 79 through, but the last one is 39 (M is 80): compare offs_n[None, :] with N",
    ),
    "mask with one column too many": (
        tile_launch(torch.randn(32, 32), "one more", 64),
        "column 32 through, but the last one is 31: compare with < N, not < N + 1",
    ),
    "a single row": (
        tile_launch(torch.randn(1, 35), "columns"),
        "reads a[1..31, 0..31] but a has 1 row:",
        "it also needs offs_m[:, None] < M",
    ),
    **{
        f"rows, {a.shape[1]} columns, all strides 1": (
            tile_launch(a, "columns", 64),
            "reads a[1..63, 0",
            "but a has 1 row:",
            "it also needs offs_m[:, None] < M",
        )
        for a in (torch.randn(1, 1), torch.randn(35, 1).T)
    },
    **{
        f"columns, {rows} rows, all strides 1": (
            tile_launch(torch.randn(rows, 1), "rows", 64),
            ", 1..63] but a has 1 column:",
            "it also needs offs_n[None, :] < N",
        )
        for rows in (1, 35)
    },
    "one column, walked along its rows": (
        (row_kernel, (1,), torch.randn(35, 1), torch.empty(1), 35, 35, 64),
        "reads x[35..63, 0] but x has 35 rows",
    ),
    "a stride of the same value as a size": (
        (row_kernel, (10,), torch.randn(10, 40), torch.empty(10), 40, 40, 64),
        "the columns of this tile run past n_cols; mask with cols < n_cols",
    ),
    "a stride and no size": (
        (row_kernel, (10,), torch.randn(10, 40), torch.empty(10), 7, 40, 64),
        "the columns of this tile run past 40; mask with cols < 40",
    ),
    "pointers moved by a loop": (
        (loop_kernel, (2,), torch.randn(32, 35), torch.empty(32), 32, 35, 16, 16),
        "program (1, 0, 0) reads a[31, 35..47] but a has 35 columns",
        "the columns of this tile run past K; mask with the column index < K",
    ),
    "two dimensions, walked as one": (
        copy_launch(torch.randn(10, 13), "none"),
        "reads x[130..191] but x has 130 elements",
        "mask with offs < N",
    ),
    "two dimensions, walked by rows": (
        (row_kernel, (10,), torch.randn(10, 13), torch.empty(10), 13, 13, 16),
        "program (9, 0, 0) reads x[9, 13..15] but x has 13 columns",
        "mask with cols < n_cols",
    ),
    "a block of as many elements as the tensor": (
        (row_kernel, (2,), torch.randn(2, 8), torch.empty(2), 8, 8, 16),
        "reads x[1, 8..15] but x has 8 columns",
    ),
    "three dimensions": (
        (batch_kernel, (2,), torch.randn(2, 5, 7), torch.empty(2, 5, 7), 2, 5, 7, 8),
        "program (1, 0, 0) reads x[1, 5..7, 0..6] but x has size 5 in dimension 1",
        "the mask lets all indices along dimension 1 of this tile through; it also needs offs[:, "
        "None] < M",
    ),
    "negative offset": (
        (offset_kernel, (1,), torch.randn(64), torch.empty(64), -3, False, 64),
        "reads x[-3..-1] but x has 64 elements: 3 of 64 lanes",
        "mask with offs >= 0",
    ),
    "no elements": (
        (offset_kernel, (1,), torch.empty(0), torch.empty(64), 0, False, 64),
        "64 of 64 lanes are out of bounds",
    ),
    "more programs than elements": (
        (scalar_kernel, (6,), torch.randn(5), torch.empty(5), 5),
        "program (5, 0, 0) reads x[5] but x has 5 elements: out of bounds",
        "the grid has 6 programs along axis 0, but x has 5 elements: launch fewer",
    ),
    "no dimensions": (
        (scalar_kernel, (2,), torch.tensor(3.0), torch.empty(2), 1),
        "x[1] but x has 1 element:",
    ),
    "an index loaded from memory": (
        (gather_kernel, (1,), torch.randn(6, 4), INDICES, torch.empty(5), 5, 8),
        "reads table[6, 0] but table has 6 rows: 1 of 5 lanes",
    ),
    "a tensor in a tuple": (
        (tuple_kernel, (1,), (torch.randn(5), torch.empty(5)), 5, 8),
        "reads tensors[1][5..7] but tensors[1] has 5 elements",
    ),
    "a pointer cast to bytes": (
        (bytes_kernel, (1,), torch.randn(16), torch.empty(16), 128),
        "reads x[16..31] but x has 16 elements",
    ),
    "a pointer cast to words, misaligned": (
        (words_kernel, (1,), torch.randn(16), torch.empty(16), 4, 1),
        "reads 8 bytes of x at an address that is not a multiple of 8: 4 of 4 lanes do\n",
    ),
    "left of a row, before the tensor": (
        (left_kernel, (1,), torch.randn(7, 9), torch.empty(63), 7, 9, 64),
        "reads x[0, -1] but x has 9 columns",
        "a negative index lies before the tensor: mask with w >= 0",
    ),
    "columns, where one index has the rows of two dimensions": (
        (all_rows_kernel, (1,), torch.empty(2, 3, 40), 6, 40, 8, 64),
        "writes y[5, 40..63] but y has 40 columns",
        "it also needs cols[None, :] < N",
    ),
    "a descriptor of a larger shape": (
        (descriptor_kernel, (2, 1), TOO_LARGE, *described(torch.empty(40, 24)), 32),
        "x_desc.load([row, column])",
        "program (1, 0, 0) reads x[40..43, 0..23] but x has 40 rows",
        "the shape or the strides given to the descriptor are not those of x: (40, 24), (24, 1)",
    ),
    "a descriptor of a larger shape, made in the kernel": (
        (make_descriptor_kernel, (1,), torch.randn(12, 8), torch.empty(12, 8), 13, 8, 16),
        "x has 12 rows",
    ),
}


@pytest.mark.parametrize("case", MESSAGES.values(), ids=MESSAGES.keys())
def test_message(case):
    launch, *fragments = case
    message = fault(*launch)
    for fragment in fragments:
        assert fragment in message


FAR = [2**20, 2**31 - 64, 2**33, 2**40, -(2**40), 2**43, 2**50, -(2**50), 2**61, -(2**61)]


@pytest.mark.parametrize("offset", FAR)
@pytest.mark.parametrize("store", [False, True], ids=["load", "store"])
def test_far_out_of_bounds_is_a_message_and_no_crash(offset, store):
    message = fault(offset_kernel, (1,), torch.randn(64), torch.empty(64), offset, store, 64)
    assert "x has 64 elements" in message or "which belongs to no tensor" in message
    assert "64 of 64 lanes are out of bounds" in message


def test_a_wrong_access_stores_nothing():
    buffer = torch.zeros(200)
    fault(copy_kernel, (2,), torch.randn(100), buffer[:100], 100, 64, "load")
    assert not buffer[64:].any()


@triton.jit
def heads_kernel(out_ptr, S, BLOCK: tl.constexpr):
    pid, offs = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out_ptr + pid * S + offs, offs.to(tl.float32))


@triton.jit
def imaginary_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + 2 * offs + 1))


def test_no_dimension_is_named_where_two_have_one_stride():
    # (heads, S) with S 1: the tile runs along S, and its addresses along the heads.
    alone = found(heads_kernel, (3,), torch.empty(3, 1), 1, 8)
    assert (alone.kind, alone.remedy.id) == ("out-of-bounds-store", "tile-has-no-mask")
    several = found(heads_kernel, (1,), torch.empty(1, 5), 5, 8)
    assert several.remedy.id == "tile-without-mask"
    # All of it is walked as one row, or it has no dimension.
    flat = found(offset_kernel, (1,), torch.randn(5, 1), torch.empty(8), 0, False, 8)
    assert flat.remedy.id == "tile-without-mask"
    assert found(heads_kernel, (1,), torch.tensor(0.0), 1, 8).kind == "out-of-bounds-store"
    # The rows of one complex number have a stride of their own, 2.
    parts = found(imaginary_kernel, (1,), torch.randn(1, 2), torch.empty(8), 8)
    assert parts.remedy.id == "tile-without-mask"


@triton.jit
def rows_kernel(table_ptr, indices_ptr, out_ptr, D, BLOCK: tl.constexpr):
    pid, cols = tl.program_id(0), tl.arange(0, BLOCK)
    mask = cols < D
    row = tl.load(table_ptr + tl.load(indices_ptr + pid) * D + cols, mask=mask)
    tl.store(out_ptr + pid * BLOCK + cols, row, mask=mask)


def test_an_index_that_the_address_is_not_made_of_is_not_blamed():
    # indices[3] is 5, and out has size 2 in dimension 1; out's address does not use it.
    table, out = torch.randn(6, 5), torch.empty(3, 2, 5)
    wrong = found(rows_kernel, (6,), table, torch.tensor([0, 1, 0, 5, 5, 5]), out, 5, 8)
    assert (wrong.kind, wrong.remedy.id) == ("out-of-bounds-store", "moves-by-another-stride")


def test_a_gather_passes():
    table, out, indices = torch.randn(6, 4), torch.empty(5), torch.tensor([5, 0, 0, 3, 1])
    watched(gather_kernel, (1,), table, indices, out, 5, 8)
    assert torch.equal(out, table[indices, 0])


@triton.jit
def large_kernel(x_ptr, y_ptr, row, stride, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    if WIDE:
        row = row.to(tl.int64)
    tl.store(y_ptr + offs, tl.load(x_ptr + row * stride + offs))


def test_offsets_beyond_int32():
    x = torch.empty(2**31 + 2**20, dtype=torch.int8).as_strided((1025, 64), (2**21, 1))
    y = torch.empty(128, dtype=torch.int8)
    watched(large_kernel, (1,), x, y, 1024, 2**21, True, 64)
    assert torch.equal(y[:64], x[1024])
    wrong = found(large_kernel, (1,), x, y, 1024, 2**21, False, 64)
    assert (wrong.kind, wrong.remedy.id) == ("offset-overflow", "offset-wraps-around")
    assert "int64" in say(wrong.remedy)
    why = "why: row = 1024 times stride = 2097152 is 2147483648, and an int32 ends at 2147483647"
    assert say(wrong.said[1]) == why
    message = fault(large_kernel, (1,), x, y, 1000, 2**21, True, 128)
    assert "reads x[1000, 64..127] but x has 64 columns" in message


@triton.jit
def table_kernel(table_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x_ptr = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0) * n + offs, x, mask=offs < n)


def test_a_table_of_pointers():
    parts = [torch.randn(10) for _ in range(3)]
    table = torch.tensor([part.data_ptr() for part in parts])
    out = torch.empty(3, 10)
    with Watch() as watch:
        for number, part in enumerate(parts):
            watch.know(part, f"part {number}")
        table_kernel[(3,)](table, out, 10, 16)
    assert torch.equal(out, torch.stack(parts))
    inputs = {"first": parts[0]}
    assert "out of bounds" in fault(table_kernel, (1,), table, out, 11, 16, inputs=inputs)
    assert "which belongs to no tensor" in fault(table_kernel, (3,), table, out, 10, 16)
    null = found(table_kernel, (3,), torch.zeros_like(table), out, 10, 16)
    assert (null.kind, null.remedy.id) == ("wild-pointer", "pointer-is-null")


@triton.jit
def tables_kernel(table_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x_ptrs = tl.load(table_ptr + offs).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + offs, tl.load(x_ptrs + 1))


def test_one_access_to_several_tensors():
    parts = [torch.randn(10) for _ in range(4)]
    table = torch.tensor([part.data_ptr() for part in parts])
    out = torch.empty(4)
    inputs = {f"part{n}": part for n, part in enumerate(parts)}
    watched(tables_kernel, (1,), table, out, 4, inputs=inputs)
    assert torch.equal(out, torch.stack(parts)[:, 1])


@triton.jit
def false_hints_kernel(x_ptr, y_ptr, M, N, groups, DIVIDES: tl.constexpr, FAULT: tl.constexpr):
    offs_m, offs_n = tl.arange(0, 32), tl.arange(0, 32)
    keys = tl.arange(0, 32)
    if FAULT == "one index of two":
        tl.store(y_ptr + offs_n, tl.load(x_ptr + offs_m), mask=offs_n < N)
    elif FAULT == "one further on":
        tl.load(x_ptr + offs_m + 1, mask=offs_m < M)
    elif FAULT == "two apart":
        tl.load(x_ptr + tl.arange(0, 32)[:, None] * 64 + offs_n[None, :], mask=offs_n[None, :] < N)
    elif FAULT == "masked elsewhere":
        tl.store(y_ptr + keys, tl.where(keys < N, tl.load(x_ptr + keys), 0.0), mask=keys < N)
    elif FAULT == "as it is":
        tl.load(x_ptr + offs_n, mask=offs_n < N)
    elif FAULT == "a factor of a tile":
        tl.load(x_ptr + offs_n * groups + tl.program_id(0) // DIVIDES * 7, mask=offs_n < N)


@pytest.mark.parametrize(
    ("which", "x", "sizes", "hint"),
    [
        ("one index of two", torch.randn(1), (1, 1), "mask with offs_m < M"),
        (
            "one further on",
            torch.randn(30),
            (30, 0),
            "the tile begins at 1, and the mask compares offs_m without that",
        ),
        (
            "two apart",
            torch.randn(40, 32),
            (20, 32),
            "each lane is 2 rows of x after the one before it; its strides are (32, 1)",
        ),
        # M is 3 by chance.
        ("masked elsewhere", torch.randn(3), (3, 2), "run past N; mask with keys < N"),
        (
            "as it is",
            torch.randn(4, 12)[:, ::2],
            (4, 24),
            "offs_n < N holds, but offs_n is added as it is, as if x were contiguous: its strides "
            "are (12, 2)",
        ),
        ("a factor of a tile", torch.randn(20, 3), (0, 20, 3), "further on than offs_n"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hints_are_of_what_the_address_is_made_of(which, x, sizes, hint):
    sizes = (*sizes, 0)[:3]
    told = fault(false_hints_kernel, (4,), x, torch.empty(32), *sizes, 1, which)
    assert hint in told, told
