"""Accesses out of bounds whose mask is right: the hint names the stride, the start or the index."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import triton
import triton.language as tl

from kernelgauge.memory import gathered
from tests.launching import fault, interpreted_only, watched

pytestmark = interpreted_only

X = torch.randn(3, 40, 70)


@triton.jit
def copy_kernel(
    x_ptr, y_ptr,
    H, M, N,
    stride_xb, stride_xm, stride_xn,
    stride_yb, stride_ym, stride_yn,
    BLOCK: tl.constexpr, FAULT: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2)
    if FAULT == "batch of another head":
        batch = tl.program_id(2) + H
    if FAULT == "batch by the stride of y":
        x_ptr += batch * stride_yb
    else:
        x_ptr += batch * stride_xb
    offs_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK)
    down, across = stride_xm, stride_xn
    if FAULT == "strides swapped":
        down, across = stride_xn, stride_xm
    if FAULT == "rows by M":
        down = 2 * N
    for start in range(0, N, BLOCK):
        offs_n = start + cols
        mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
        if FAULT == "start left out of the mask":
            x = tl.load(
                x_ptr + offs_m[:, None] * down + (start + cols)[None, :] * across,
                mask=(offs_m[:, None] < M) & (cols[None, :] < N),
            )
        elif FAULT == "rows bounded by N":
            x = tl.load(
                x_ptr + offs_m[:, None] * down + offs_n[None, :] * across,
                mask=(offs_m[:, None] < N) & (offs_n[None, :] < N),
            )
        else:
            x = tl.load(x_ptr + offs_m[:, None] * down + offs_n[None, :] * across, mask=mask)
        y_ptrs = y_ptr + tl.program_id(2) * stride_yb + offs_m[:, None] * stride_ym
        tl.store(y_ptrs + offs_n[None, :] * stride_yn, x, mask=mask)


def launch(x: torch.Tensor, which: str) -> tuple:
    """A launch of the kernel with one fault; "" for none."""
    B, M, N = x.shape
    y = torch.empty(B, 2 * M, N)
    grid = triton.cdiv(M, 32), 1, B
    return copy_kernel, grid, x, y, 1, M, N, *x.stride(), *y.stride(), 32, which


HINTS = {
    "rows by M": "the mask is right, the address is not: each step of offs_m moves "
    "by 140 elements (down), but the strides of x are (2800, 70, 1)",
    "strides swapped": "offs_n < N holds for the indices along dimension 2 of x, but offs_n moves "
    "by 70 elements, the stride of its indices along dimension 1: are its strides swapped?",
    "batch by the stride of y": "batch (2) moves x by 5600 elements a step (stride_yb), but the "
    "strides of x are (2800, 70, 1)",
    "batch of another head": "batch is 3, but x has size 3 in dimension 0: the index "
    "is wrong, not the mask; check how it is made",
    "start left out of the mask": "the tile begins at 64, and the mask compares cols without that",
    "rows bounded by N": "the mask compares offs_m with N, which is 70, but x has size 40 in "
    "dimension 1",
}


def test_the_right_kernel_passes():
    watched(*launch(X, ""))


@pytest.mark.parametrize("which", HINTS)
def test_hint(which):
    assert f"hint: {HINTS[which]}" in fault(*launch(X, which))


@triton.jit
def sum_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr, TIMES: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * TIMES + cols, mask=cols < N, other=0.0)
    tl.store(y_ptr + row, tl.sum(x))


@pytest.mark.parametrize(
    ("rows", "times", "hint"),
    [
        (
            20,
            64,
            "row (13) moves x by 64 elements a step (TIMES), but the strides of x are (43, 1)",
        ),
        (21, 43, "the grid has 21 programs along axis 0, but x has 20 rows: launch fewer"),
    ],
)
def test_hint_about_rows(rows, times, hint):
    told = fault(sum_kernel, (rows,), torch.randn(20, 43), torch.empty(20), 43, 64, times)
    assert hint in told


def test_programs_that_another_tensor_needs_are_not_too_many():
    told = fault(sum_kernel, (21,), torch.randn(20, 43), torch.empty(21), 43, 64, 43)
    assert "the grid has 21 programs along axis 0, but x has 20 rows: the index is wrong" in told


@triton.jit
def blocks_kernel(x_ptr, N, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    begin = tl.program_id(0) * BLOCK
    tl.store(x_ptr + begin + offs, 1.0, mask=offs < N)


def test_a_block_whose_mask_forgets_where_it_begins():
    told = fault(blocks_kernel, (2,), torch.empty(100), 100, 64)
    assert "hint: the tile begins at 64, and the mask compares offs without that" in told


@triton.jit
def scale_kernel(x_ptr, weight_ptr, index_ptr, y_ptr, M, N, BLOCK: tl.constexpr, BY: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    if BY == "row":
        weight = tl.load(weight_ptr + row)
    elif BY == "rows":
        rows = tl.arange(0, BLOCK)
        weight = tl.sum(tl.load(weight_ptr + rows, mask=rows < M, other=0.0))
    else:
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0)
    tl.store(y_ptr + row * N + cols, x * weight, mask=mask)


@pytest.mark.parametrize(
    ("by", "hint"),
    [
        (
            "row",
            "the grid has 20 programs along axis 0, but weight has 7 elements: it has one for "
            "each of N, not for each row of x",
        ),
        (
            "rows",
            "the mask compares rows with M, which is 20, but weight has 7 elements (N): index "
            "it with what runs up to N",
        ),
    ],
)
def test_hint_about_a_vector(by, hint):
    x = torch.randn(20, 7)
    y = torch.empty_like(x)
    told = fault(scale_kernel, (20,), x, torch.randn(7), None, y, 20, 7, 32, by)
    assert hint in told


def test_hint_about_an_index_that_is_not_loaded():
    x, index = torch.randn(5, 7), torch.randint(0, 5, (20,))
    y = torch.empty(20, 7)
    told = fault(scale_kernel, (20,), x, torch.randn(7), index, y, 20, 7, 32, "column")
    assert "but x has 5 rows: is the index to be loaded from index?" in told


@triton.jit
def flat_kernel(x_ptr, y_ptr, N, numel, stride_xm, stride_xn, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < numel
    x = tl.load(x_ptr + offs % N * stride_xm + offs // N * stride_xn, mask=mask)
    tl.store(y_ptr + offs, x, mask=mask)


def test_hint_about_numbers_of_all_elements():
    x = torch.randn(20, 70)
    told = fault(flat_kernel, (11,), x, torch.empty_like(x), 70, 1400, *x.stride(), 128)
    assert "hint: the mask is right, offs < numel: what // and % make of offs" in told


@triton.jit
def gather_kernel(
    x_ptr, order_ptr, lengths_ptr, y_ptr,
    N, K,
    top_k: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK)
    inside = (offs[:, None] < N) & (cols[None, :] < K)
    if FAULT == "one row":
        row = tl.load(order_ptr + pid)
        x = tl.load(x_ptr + row * K + cols, mask=cols < K)
        tl.store(y_ptr + pid * K + cols, x, mask=cols < K)
    elif FAULT == "last row":
        x = tl.load(x_ptr + tl.load(lengths_ptr + pid) * K + cols, mask=cols < K)
        tl.store(y_ptr + pid * K + cols, x, mask=cols < K)
    else:
        pairs = tl.load(order_ptr + offs, mask=offs < N, other=99)
        rows = pairs // top_k
        if FAULT == "pairs":
            x = tl.load(x_ptr + pairs[:, None] * K + cols[None, :], mask=inside)
        elif FAULT == "no mask":
            x = tl.load(x_ptr + rows[:, None] * K + cols[None, :], mask=cols[None, :] < K)
        elif FAULT == "after the next":
            rows += 1
            x = tl.load(x_ptr + rows[:, None] * K + cols[None, :], mask=inside)
        else:
            x = tl.load(x_ptr + rows[:, None] * K + cols[None, :], mask=inside)
        tl.store(y_ptr + offs[:, None] * K + cols[None, :], x, mask=inside)


def gathering(which: str, order: list[int], top_k: int = 2) -> tuple:
    """A launch that copies the rows order[i] // top_k of five, with one fault; "" for none."""
    x, y = torch.randn(5, 7), torch.empty(len(order), 7)
    grid = len(order) if which in ("one row", "last row") else triton.cdiv(len(order), 8)
    lengths = torch.full((len(order),), 5)
    return (
        gather_kernel,
        (grid,),
        x,
        torch.tensor(order),
        lengths,
        y,
        len(order),
        7,
        top_k,
        8,
        which,
    )


ORDER = [0, 3, 9, 1, 8, 2, 5, 4, 7, 6]
GATHERED = {
    "pairs": (ORDER, "pairs reaches 9, as it was loaded from order, but x has 5 rows: "),
    "after the next": (ORDER, "rows reaches 5, made from what was loaded from order, but x has 5"),
    "one row": ([0, 4, 7], "row is 7, as it was loaded from order, but x has 5 rows: "),
    "last row": ([0, 1], "lengths[0] is 5, but x has 5 rows: one past the last"),
    "": (
        [0, 3, -2, 4],
        "rows is -1, made from what was loaded from order: nothing has a negative index",
    ),
}


def test_rows_that_are_looked_up_pass():
    watched(*gathering("", ORDER))


@pytest.mark.parametrize("which", GATHERED)
def test_hint_about_an_index_that_was_loaded(which):
    order, hint = GATHERED[which]
    told = fault(*gathering(which, order))
    assert f"hint: {hint}" in told
    assert "mask with" not in told


def test_an_index_that_a_masked_lane_made_up_is_no_wrong_index():
    told = fault(*gathering("no mask", ORDER))
    assert "loaded from order" not in told


@triton.jit
def scatter_kernel(
    order_ptr, y_ptr, M, N, BLOCK: tl.constexpr, FAULT: tl.constexpr
):  # fmt: skip
    pid = tl.program_id(0)
    rows = tl.load(order_ptr + pid * BLOCK + tl.arange(0, BLOCK))
    cols = tl.arange(0, BLOCK)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    if FAULT == "in order":
        y_ptrs = y_ptr + (pid * BLOCK + tl.arange(0, BLOCK))[:, None] * N
    else:
        y_ptrs = y_ptr + rows[:, None] * N
    tl.store(y_ptrs + cols[None, :], 1.0, mask=inside)


@pytest.mark.parametrize("which", ["", "in order"])
def test_hint_about_a_mask_of_rows_that_the_address_is_not_made_of(which):
    order = torch.tensor([0, 3, 12, 12, 1, 4, 12, 12, 2, 12, 12, 12])
    launch = scatter_kernel, (3,), torch.cat([order, order[2:6]]), torch.empty(5, 7), 5, 7, 4, which
    if which:
        told = fault(*launch)
        assert "hint: the mask bounds rows, but the address takes the rows of y in turn" in told
    else:
        watched(*launch)


@triton.jit
def experts_kernel(w_ptr, experts_ptr, y_ptr, N, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    w = tl.load(w_ptr + block * N * N + cols, mask=cols < N)
    tl.store(y_ptr + block * N + cols, w, mask=cols < N)


def test_hint_about_a_matrix_whose_number_is_not_loaded():
    w, experts = torch.randn(3, 6, 6), torch.tensor([0, 0, 1, 2, 2])
    told = fault(experts_kernel, (5,), w, experts, torch.empty(5, 6), 6, 8)
    assert "block is 3, but w has size 3 in dimension 0: is the index to be loaded" in told
    assert "from experts?" in told


@triton.jit
def drafts_kernel(q_ptr, y_ptr, K, V, BLOCK: tl.constexpr):
    b = tl.program_id(0)
    total = 0.0
    for draft in range(K + 1):
        for start in range(0, V, BLOCK):
            offs = start + tl.arange(0, BLOCK)
            row = q_ptr + b * K * V + draft * V
            total += tl.sum(tl.load(row + offs, mask=offs < V, other=0.0))
    tl.store(y_ptr + b, total)


def test_a_loop_over_rows_is_no_tile_that_begins_late():
    told = fault(drafts_kernel, (2,), torch.randn(2, 3, 5), torch.empty(2), 3, 5, 8)
    assert "the tile begins at" not in told
    assert "hint: draft is 3, but q has size 3 in dimension 1: the loop of line" in told
    assert "lets draft count up to K + 1, which is 4 there" in told


def test_a_tensor_of_gigabytes_is_not_read_for_an_explanation():
    arguments = {"x_ptr": torch.zeros(1).expand(2**33)}
    access = SimpleNamespace(launch=SimpleNamespace(arguments=arguments))
    assert not gathered._entries(access, "x_ptr").size


@triton.jit
def turned_kernel(x_ptr, y_ptr, M, N, HOW: tl.constexpr):
    rows = tl.program_id(0) * 16 + tl.arange(0, 16)
    cols = tl.program_id(1) * 16 + tl.arange(0, 16)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=mask)
    if HOW == "subscripts":
        tl.store(y_ptr + cols[:, None] * M + rows[None, :], tl.trans(x), mask=mask)
    elif HOW == "trans":
        offs = rows[:, None] + cols[None, :] * M
        tl.store(y_ptr + tl.trans(offs), x.T, mask=mask)
    elif HOW == "T":
        across, down = rows[:, None], cols[None, :]
        tl.store(y_ptr + (across + down * M).T, x.T, mask=mask)
    elif HOW == "strides":
        tl.store(y_ptr + rows[:, None] * M + cols[None, :], x, mask=mask)
    else:
        offs = rows[:, None] + cols[None, :] * M
        tl.store(y_ptr + offs.T, x.T, mask=tl.trans(mask))


@pytest.mark.parametrize("how", ["subscripts", "trans", "T"])
def test_a_mask_that_is_not_transposed_with_its_pointers(how):
    told = fault(turned_kernel, (2, 3), torch.randn(20, 40), torch.empty(40, 20), 20, 40, how)
    assert told.endswith(
        "hint: rows runs along axis 0 of the tile in the mask, and along axis 1 in the address: "
        "where the pointers are transposed, the mask must be too, as in tl.trans(mask)"
    )


def test_a_mask_along_the_same_axes_as_its_pointers():
    watched(turned_kernel, (2, 3), torch.randn(20, 40), torch.empty(40, 20), 20, 40, "right")
    told = fault(turned_kernel, (2, 3), torch.randn(20, 40), torch.empty(40, 20), 20, 40, "strides")
    assert "tl.trans" not in told


@triton.jit
def head_kernel(x_ptr, y_ptr, H, stride_b, stride_h, BLOCK: tl.constexpr):
    b = tl.program_id(0) // H
    g = tl.program_id(0) % H
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + b * stride_b + g * stride_h + offs, mask=offs < BLOCK)
    tl.store(y_ptr + tl.program_id(0) * BLOCK + offs, x)


@pytest.mark.parametrize(
    ("batches", "heads", "said"),
    [
        (2, 2, "g is 2, but x has size 2 in dimension 1: the index is wrong"),
        # The strides of both dimensions are the same.
        (1, 1, "g is 1, and stride_h moves along dimensions of x of size 1: the index is wrong"),
    ],
)
def test_an_index_is_too_large_for_the_dimension_whose_stride_it_takes(batches, heads, said):
    x, y = torch.randn(batches, heads, 16), torch.empty(8, 16)
    strides = x.stride()[:2]
    told = fault(
        head_kernel, (2 * batches * heads,), x, y, 2 * heads, *strides, 16, order="ascending"
    )
    assert said in told, told
