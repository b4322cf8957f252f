"""The traffic of interpreted kernels: what is counted, and the budgets for it."""

from __future__ import annotations

import re

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelgauge.core.verdict import Wrong
from kernelgauge.memory.budgets import Traffic
from kernelgauge.memory.watch import Watch
from tests.launching import ORDERS, bytes_kernel, descriptor_kernel, interpreted_only

pytestmark = interpreted_only


def count(subject, *results: torch.Tensor, order: str = "ascending", **inputs) -> Traffic:
    """Return the traffic of one call of a subject that returns these results."""
    with Watch(count=True, order=order, inputs=inputs) as watch:
        subject()
    watch.traffic.name_results(results, [f"result {number}" for number in range(len(results))])
    return watch.traffic


def excess(traffic: Traffic, **budget) -> str:
    """Return the message for traffic that must exceed its budget."""
    with pytest.raises(Wrong) as caught:
        traffic.check(**budget)
    return str(caught.value)


@triton.jit
def copy_kernel(in_ptr, out_ptr, N, stride, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(in_ptr + offs * stride, mask=offs < N, other=0.0)
    tl.store(out_ptr + offs, x, mask=offs < N)


def copy(x: torch.Tensor, y: torch.Tensor, repeat: int = 1, block: int = 64) -> None:
    grid = (triton.cdiv(y.numel(), block),)
    for _ in range(repeat):
        copy_kernel[grid](x, y, y.numel(), x.stride(-1), block)


def copied(x: torch.Tensor, y: torch.Tensor, repeat: int = 1) -> Traffic:
    """Return the traffic of a subject that copies x to its result y."""
    return count(lambda: copy(x, y, repeat), y, x=x)


def test_a_load_counts_with_its_masked_lanes_unless_it_loads_nothing():
    x, y = torch.randn(40), torch.empty(40)
    (sampled,) = count(lambda: copy_kernel[2,](x, y, 40, 1, 64), y, x=x).sampled
    assert sampled.loads == {(64, 4): 1}


def test_nothing_is_counted_by_default():
    with Watch() as watch:
        copy(torch.randn(8), torch.empty(8))
    assert watch.traffic is None


def test_each_element_once():
    traffic = copied(torch.randn(1000), torch.empty(1000))
    assert traffic.launches == 1
    assert traffic.grid == (16, 1, 1)
    read, written = traffic.tensor("x"), traffic.tensor("result")
    assert (read.loads, read.stores) == (1, 0)
    assert (written.loads, written.stores) == (0, 1)
    assert read.loaded.bytes == written.stored.bytes == 4000
    assert read.loaded.ratio == written.stored.ratio == 1
    traffic.check(
        reads={"x": 1}, writes=1, launches=1, sectors=1, grid_at_most=16, total_reads=1000
    )
    traffic.check(reads=1, writes={"result": 1}, total_writes=1000, largest_write=1000, dot_macs=0)


def test_several_launches_add_up():
    traffic = copied(torch.randn(1000), torch.empty(1000), repeat=3)
    assert traffic.launches == 3
    assert traffic.tensor("x").loads == 3
    told = excess(traffic, reads={"x": 1}, writes=1, launches=1)
    launches, reads, writes = told.splitlines()
    assert reads.startswith("x is read 3.0 times, but the budget is 1 (test_traffic.py:")
    assert "tl.load(in_ptr + offs * stride, mask=offs < N, other=0.0) reads it 3.0 times" in reads
    assert writes.startswith("the result is written 3.0 times, but the budget is 1 (test_traffic.")
    assert "tl.store(out_ptr + offs, x, mask=offs < N) writes it 3.0 times" in writes
    assert launches == (
        "3 kernels are launched (copy_kernel, copy_kernel, copy_kernel), but the budget is 1"
    )
    assert "why: 3 launches each read it: copy_kernel," in excess(traffic, reads={"x": 1})


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"reads": 0.5}, "x is read 1.0 times, but the budget is 0.5"),
        ({"reads": {"x": 0.999}}, "x is read 1.0 times, but the budget is 0.999"),
        ({"writes": 0}, "the result is written 1.0 times, but the budget is 0"),
        ({"launches": 0}, "1 kernel is launched (copy_kernel), but the budget is 0"),
        ({"grid_at_most": 15}, "a launch has 16 programs, but the budget is 15"),
        ({"total_reads": 999}, "1000 elements are loaded in all, but the budget is 999 (x 1000)"),
        ({"total_writes": 1}, "1000 elements are stored in all, but the budget is 1"),
        ({"largest_write": 999}, "the result of 1000 elements is stored to, but no tensor of more"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_budgets_that_are_too_small(budget, message):
    assert message in excess(copied(torch.randn(1000), torch.empty(1000)), **budget)


def test_budgets_by_launch_are_for_any_order_of_the_launches():
    x, y = torch.randn(1000), torch.empty(1000)
    traffic = count(lambda: copy(x[:10], y[:10]) or copy(x, y) or copy(x[:500], y[:500]), y, x=x)
    assert traffic.loads_by_launch("x") == [0.01, 1, 0.5]
    traffic.check(reads_by_launch={"x": (1, 0.5, 0.01)})
    traffic.check(reads_by_launch={"x": (2, 1, 1, 1)})
    message = excess(traffic, reads_by_launch={"x": (1, 0.1, 0.1)})
    assert message == (
        "x is read 0.5 times by one launch (copy_kernel, launch 3 of 3), but the budget is 0.1: "
        "the launches may read x 1, 0.1, 0.1 times, in any order"
    )
    assert "copy_kernel, launch 1 of 3), but the budget is 0:" in excess(
        traffic, reads_by_launch={"x": (1, 1)}
    )
    with pytest.raises(KeyError, match="third"):
        traffic.check(reads_by_launch={"third": (1,)})


def test_a_hair_above_the_budget_is_shown_as_such():
    x, y = torch.randn(1000), torch.empty(1012)
    traffic = count(lambda: copy(x, y[:1000]) or copy(x[:12], y[1000:]), y, x=x)
    message = excess(traffic, reads={"x": 1.01})
    assert "x is read 1.012 times, but the budget is 1.01 " in message
    traffic.check(reads={"x": 1.012})


@pytest.mark.parametrize(
    ("x", "take", "times", "sectors", "least"),
    [
        (torch.randn(3), lambda x: x, 1, 1, 1),
        (torch.randn(512, 8), lambda x: x[:, 0], 1 / 8, 512, 64),
        (torch.arange(256).to(torch.int8), lambda x: x, 1, 8, 8),
        (torch.randn(65), lambda x: x[1:], 64 / 65, 9, 8),
    ],
    ids=["masked-off lanes", "strided lanes", "small elements", "misaligned"],
)
def test_sectors_of_a_load(x, take, times, sectors, least):
    y = torch.empty_like(take(x).contiguous())
    loaded = count(lambda: copy(take(x), y), y, x=x).tensor("x").loaded
    assert loaded.bytes == y.nbytes
    assert (loaded.times, loaded.sectors, loaded.least) == (times, sectors, least)


def test_strided_lanes_waste_their_sectors():
    x, y = torch.randn(512, 8), torch.empty(512)
    traffic = count(lambda: copy(x[:, 0], y), y, x=x)
    assert traffic.tensor("x").loaded.ratio == 8
    assert traffic.tensor("result").stored.ratio == 1
    line, why = excess(traffic, sectors=1.1).splitlines()
    assert why == "why: no step along the tile moves by 1 element: one of offs moves by 8"
    assert "x is read in sectors of which 12 % is used: 8.0 times the minimum" in line
    assert "neighbouring lanes must access neighbouring addresses" in line
    traffic.check(sectors={"result": 1, "x": 8})


def test_short_rows_waste_their_sectors():
    x, y = torch.randn(64, 16), torch.empty(64, 4)
    message = excess(count(lambda: rows_of_four_kernel[(1,)](x, y), y, x=x), sectors=1.1)
    assert "neighbouring lanes" not in message
    assert "its contiguous pieces are 16 bytes long" in message


@triton.jit
def rows_of_four_kernel(x_ptr, y_ptr):
    rows, cols = tl.arange(0, 64)[:, None], tl.arange(0, 4)[None, :]
    tl.store(y_ptr + rows * 4 + cols, tl.load(x_ptr + rows * 16 + cols))


def test_a_load_of_some_elements_may_touch_the_sectors_of_all():
    x, y = torch.randn(1024), torch.empty(512)
    traffic = count(lambda: copy(x[::2], y), y, x=x)
    traffic.check(reads={"x": 1}, sectors=1)
    for reads in (None, {"x": 0.5}):
        message = excess(traffic, reads=reads, sectors=1)
        assert "x is read in sectors of which 50 % is used" in message


@triton.jit
def transpose_kernel(x_ptr, y_ptr, M, N, TILED: tl.constexpr, BLOCK: tl.constexpr):
    offs_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs_n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    if TILED:
        x = tl.load(x_ptr + offs_m[:, None] * N + offs_n[None, :])
        tl.store(y_ptr + offs_n[None, :] * M + offs_m[:, None], x)
    else:
        for i in tl.static_range(BLOCK):
            row = tl.program_id(0) * BLOCK + i
            x = tl.load(x_ptr + row * N + offs_n)
            tl.store(y_ptr + offs_n * M + row, x)


def test_a_tile_is_coalesced_on_both_sides_whatever_the_order_of_its_lanes():
    x, y = torch.randn(64, 32), torch.empty(32, 64)
    tiled = count(lambda: transpose_kernel[(4, 2)](x, y, 64, 32, True, 16), y, x=x)
    assert torch.equal(y, x.T)
    tiled.check(reads={"x": 1}, writes=1, sectors=1)
    by_rows = count(lambda: transpose_kernel[(4, 2)](x, y, 64, 32, False, 16), y, x=x)
    by_rows.check(reads={"x": 1}, writes=1, sectors={"x": 1})
    message = excess(by_rows, sectors=1.1)
    assert "the result is written in sectors of which 12 % is used" in message


@triton.jit
def broadcast_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs[:, None] * 0 + offs[None, :])
    tl.store(y_ptr + offs[:, None] * BLOCK + offs[None, :], x)


def test_lanes_that_share_an_address_touch_its_sector_once():
    x, y = torch.randn(16), torch.empty(16, 16)
    loaded = count(lambda: broadcast_kernel[(1,)](x, y, 16), y, x=x).tensor("x").loaded
    assert (loaded.times, loaded.sectors, loaded.least) == (16, 2, 2)


def test_names_come_from_the_subject_not_from_the_kernel():
    first, second = torch.randn(64), torch.randn(64)
    y, temporary = torch.empty(64), torch.empty(128)

    def subject():
        copy(first, temporary[:64])
        copy(temporary[:64], temporary[64:])
        copy(second, y)
        copy(temporary[64:], y)

    traffic = count(subject, y, first=first, second=second)
    assert traffic.tensor("first").loads == traffic.tensor("second").loads == 1
    assert traffic.tensor("result").stores == 2
    scratch = traffic.tensor("scratch")
    assert scratch.stored.elements == scratch.loaded.elements == 128
    assert "scratch is written" in excess(traffic, writes={"scratch": 0})
    assert "256 elements are loaded" in excess(traffic, total_reads=0)
    with pytest.raises(KeyError, match="third"):
        traffic.check(reads={"third": 1})


def test_views_count_for_the_parameter_they_are_of():
    x, y = torch.randn(4, 64), torch.empty(4, 64)
    traffic = count(lambda: [copy(x[i], y[i]) for i in range(4)], y, x=x)
    traffic.check(reads={"x": 1}, writes=1)
    assert traffic.tensor("x").loads == 1
    assert traffic.launches == 4


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs) + tl.load(y_ptr + offs))


def test_one_tensor_given_twice():
    x, out = torch.randn(64), torch.empty(64)
    traffic = count(lambda: add_kernel[(1,)](x, x, out, 64), out, x=x, y=x)
    traffic.check(reads={"x": 1, "y": 1})
    assert traffic.tensor("x").loads == traffic.tensor("y").loads == 1


def test_several_results():
    x, a, b = torch.randn(64), torch.empty(64), torch.empty(64)
    traffic = count(lambda: copy(x, a) or copy(x, b, repeat=2), a, b, x=x)
    assert traffic.tensor("result 0").stores == 1
    assert traffic.tensor("result 1").stores == 2
    assert traffic.tensor("result").stores == 1.5
    assert excess(traffic, writes=1).startswith("result 1 is written 2.0 times")


def test_results_in_place():
    x = torch.randn(64)
    traffic = copied(x, x, repeat=2)
    assert "x is written 2.0 times" in excess(traffic, writes=1)
    traffic.check(reads={"x": 2}, writes={"x": 2})


def test_before_results_are_named_all_but_inputs_is_result():
    x, y = torch.randn(64), torch.empty(64)
    with Watch(count=True, inputs={"x": x}) as watch:
        copy(x, y)
    watch.traffic.check(reads={"x": 1}, writes=1)
    assert "the result is written" in excess(watch.traffic, writes=0.5)


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(counts_ptr + tl.load(x_ptr + tl.arange(0, BLOCK)), 1)


def test_atomics_count_as_stores():
    x, counts = torch.randint(0, 8, (64,)), torch.zeros(8, dtype=torch.int32)
    traffic = count(lambda: histogram_kernel[(1,)](x, counts, 64), counts, x=x)
    assert traffic.tensor("result").stored.elements == 64
    assert traffic.tensor("result").loads == 0


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N,
    K: tl.constexpr, BLOCK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    columns = N // BLOCK
    pid_m = pid // (GROUP * columns) * GROUP + pid % GROUP
    pid_n = pid % (GROUP * columns) // GROUP
    if GROUP == 1:
        pid_m, pid_n = pid // columns, pid % columns
    offs_m = pid_m * BLOCK + tl.arange(0, BLOCK)
    offs_n = pid_n * BLOCK + tl.arange(0, BLOCK)
    offs_k = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in tl.static_range(0, K, BLOCK):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        b = tl.load(b_ptr + (k + offs_k)[:, None] * N + offs_n[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


def matmul(group: int, order: str = "ascending") -> Traffic:
    """Return the traffic of 128 x 32 by 32 x 128 in tiles of 16, in groups of rows of tiles."""
    a, b = torch.randint(-4, 5, (128, 32)).float(), torch.randint(-4, 5, (32, 128)).float()
    c = torch.empty(128, 128)
    traffic = count(
        lambda: matmul_kernel[(64,)](a, b, c, 128, 128, 32, 16, group), c, a=a, b=b, order=order
    )
    assert torch.equal(c, a @ b)
    return traffic


def test_reuse_and_multiply_adds_of_a_matmul():
    traffic = matmul(1)
    assert traffic.tensor("a").loads == traffic.tensor("b").loads == 8
    assert traffic.dot_macs == 128 * 128 * 32
    traffic.check(reads={"a": 8, "b": 8}, writes=1, dot_macs=128 * 128 * 32, sectors=1)
    assert "a is read 8.0 times, but the budget is 4" in excess(traffic, reads={"a": 4})
    message = excess(traffic, dot_macs=1000)
    assert "tl.dot does 524288 multiply-adds, but the budget is 1000" in message
    assert "hint" not in message


@triton.jit
def lower_triangle_kernel(x_ptr, y_ptr, TILES: tl.constexpr):
    lanes = tl.arange(0, 16)
    rows = tl.program_id(0) * 16 + lanes
    acc = tl.zeros((16, 16), tl.float32)
    for tile in tl.static_range(TILES):
        cols = tile * 16 + lanes
        x = tl.load(x_ptr + cols[:, None] * 16 + lanes[None, :])
        weights = tl.where(rows[:, None] >= cols[None, :], 1.0, 0.0)
        acc = tl.dot(weights, x, acc)
    tl.store(y_ptr + rows[:, None] * 16 + lanes[None, :], acc)


def test_tiles_of_which_nothing_is_used():
    x, y = torch.randn(64, 16), torch.empty(64, 16)
    traffic = count(lambda: lower_triangle_kernel[(4,)](x, y, 4), y, x=x)
    assert traffic.macs_of_zeros == 6 * 16**3
    assert "let the loop begin and end where the mask does" in excess(traffic, dot_macs=10 * 16**3)


@triton.jit
def pieces_kernel(x_ptr, y_ptr, STEP: tl.constexpr, TWICE: tl.constexpr):
    offs = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    acc = tl.zeros((16, 16), tl.float32)
    for _ in tl.static_range(1 + TWICE):
        x = tl.load(x_ptr + tl.program_id(0) * STEP * 16 + offs)
        acc = tl.dot(x, x, acc)
    tl.store(y_ptr + tl.program_id(0) * 256 + offs, acc)


@pytest.mark.parametrize(
    ("step", "twice", "said"),
    [(0, False, True), (8, False, False), (16, True, False)],
    ids=["one tile for all", "tiles overlap", "a program loads it twice"],
)
def test_larger_tiles_share_more_where_programs_load_the_same(step, twice, said):
    x, y = torch.randn(64, 16), torch.empty(4, 16, 16)
    traffic = count(lambda: pieces_kernel[(4,)](x, y, step, twice), y, x=x)
    assert traffic.overlap("x") is (step == 8)
    assert ("larger tiles" in excess(traffic, reads=0.5)) is said
    assert ("longer tiles overlap less" in excess(traffic, distinct={"x": 0.1})) is (step == 8)


def test_work_that_is_spread_over_programs():
    traffic = matmul(1)
    assert (traffic.programs, traffic.largest_share, traffic.idle) == (64, 1, 0)
    traffic.check(programs_at_least=64, largest_share=1, idle=0)
    message = excess(traffic, programs_at_least=65)
    assert message == "64 programs do the work, but the spec asks for at least 65 programs"


@triton.jit
def one_dot_kernel(a_ptr, c_ptr, STEPS: tl.constexpr):
    offs = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    pid = tl.program_id(0)
    if pid < 3:
        a = tl.load(a_ptr + offs)
        acc = tl.zeros((16, 16), tl.float32)
        for _ in range(STEPS - pid):
            acc = tl.dot(a, a, acc)
        tl.store(c_ptr + pid * 256 + offs, acc)


def test_what_exceeds_its_budget_is_of_the_kind_that_comes_first():
    a, c = torch.ones(16, 16), torch.empty(3, 16, 16)
    traffic = count(lambda: one_dot_kernel[(4,)](a, c, 3), c, a=a)
    budgets = {"programs_at_least": 5, "largest_share": 1.9, "idle": 0, "launches": 0}
    for kind in ("too-few-programs", "uneven-work", "idle-programs", "too-much-traffic"):
        with pytest.raises(Wrong) as caught:
            traffic.check(**budgets)
        assert (caught.value.fault.kind, len(caught.value.fault.said)) == (kind, len(budgets))
        budgets.pop(next(iter(budgets)))
    assert caught.value.fault.numbers == {"launches": [1, 0]}


def test_work_that_is_not_spread_evenly():
    a, c, y = torch.ones(16, 16), torch.empty(3, 16, 16), torch.empty(256)
    # Four programs with 3, 2, 1 and no steps, and a copy by more programs, which multiply nothing.
    traffic = count(lambda: one_dot_kernel[(4,)](a, c, 3) or copy(a.view(-1), y), c, y, a=a)
    assert (traffic.programs, traffic.largest_share, traffic.idle) == (4, 2, 1)
    assert traffic.dot_macs == 6 * 16**3
    traffic.check(programs_at_least=4, largest_share=2, idle=1)
    assert excess(traffic, programs_at_least=5).startswith("4 programs do the work")
    assert excess(traffic, largest_share=1.9) == (
        "the busiest program does 2.0 times as many multiply-adds as the average one, but at "
        "most 1.9 times as many are allowed"
    )
    assert excess(traffic, idle=0) == (
        "1 of 8 programs neither load nor store anything, but none may be idle"
    )


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        (200, "has 200 programs, and a grid counts blocks, not what they hold: "
         "triton.cdiv(200, BLOCK) is 4"),
        (5, "has 5 programs: triton.cdiv(200, BLOCK) is 4"),
    ],
)  # fmt: skip
def test_a_grid_with_programs_that_have_no_work(grid, said):
    x, y = torch.randn(200), torch.empty(200)
    traffic = count(lambda: copy_kernel[(grid,)](x, y, 200, 1, BLOCK=64), y, x=x)
    assert excess(traffic, idle=0).splitlines() == [
        f"{grid - 4} of {grid} programs neither load nor store anything, but none may be idle",
        f"why: the grid of copy_kernel {said}",
    ]
    assert "at most 1 may be idle" in excess(
        count(lambda: copy_kernel[(6,)](x, y, 200, 1, BLOCK=64), y, x=x), idle=1
    )


def test_work_without_multiplications():
    traffic = copied(torch.randn(256), torch.empty(256))
    assert (traffic.programs, traffic.largest_share, traffic.idle) == (4, 1, 0)
    traffic.check(programs_at_least=4, largest_share=1, idle=0)


@triton.jit
def window_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr, HALO: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in tl.static_range(HALO + 1):
        acc += tl.load(x_ptr + offs + i)
    tl.store(y_ptr + offs, acc)


def test_what_programs_load_of_their_neighbours():
    x, y = torch.randn(68), torch.empty(64)
    for block, times in ((16, 80), (64, 68)):
        grid = (64 // block,)
        traffic = count(lambda g=grid, b=block: window_kernel[g](x, y, b, 4), y, x=x)
        assert traffic.tensor("x").loads == 5 * 64 / 68
        assert traffic.distinct("x") == times / 68
        traffic.check(distinct={"x": times / 68})
    message = excess(traffic, distinct={"x": 0.9})
    assert message.startswith(
        "the programs together load x 1.0 times, counting each element once per program"
    )


def tile_of(pid: int, group: int) -> tuple[int, int]:
    """Row and column of tiles that a program of `matmul` works on."""
    if group == 1:
        return divmod(pid, 8)
    return pid // (group * 8) * group + pid % group, pid % (group * 8) // group


@ORDERS
def test_distinct_bytes_of_windows(order):
    strip = 16 * 32 * 4
    means = {}
    for group in (1, 4):
        traffic = matmul(group, order)
        tiles = [tile_of(pid, group) for pid in range(64)]
        for window in (1, 8, 16, 64):
            windows = [tiles[first : first + window] for first in range(65 - window)]
            rows = sum(len({m for m, _ in some}) for some in windows) / len(windows)
            columns = sum(len({n for _, n in some}) for some in windows) / len(windows)
            assert traffic.window_bytes(["a"], window) == pytest.approx(rows * strip)
            assert traffic.window_bytes(["b"], window) == pytest.approx(columns * strip)
            means[group, window] = traffic.window_bytes(["a", "b"], window)
            assert means[group, window] == pytest.approx((rows + columns) * strip)
        assert traffic.window_bytes(["a", "b"], 1000) == 16 * strip
    assert means[4, 16] < means[1, 16]


def test_windows_of_several_launches_are_apart():
    traffic = copied(torch.randn(256), torch.empty(256), repeat=2)
    assert traffic.window_bytes(["x"], 2) == 2 * 64 * 4
    assert traffic.window_bytes(["x"], 4) == 4 * 64 * 4
    assert traffic.window_bytes(["x", "result"], 4) == 8 * 64 * 4


@triton.jit
def triangle_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    if tl.program_id(0) >= tl.program_id(1):
        x = tl.load(x_ptr + tl.program_id(0) * BLOCK + offs)
        tl.store(y_ptr + (tl.program_id(0) * 4 + tl.program_id(1)) * BLOCK + offs, x)


def test_programs_that_do_nothing_move_nothing():
    x, y = torch.randn(64), torch.empty(16, 16)
    traffic = count(lambda: triangle_kernel[(4, 4)](x, y, 16), y, x=x)
    assert traffic.tensor("x").loads == 10 / 4
    assert traffic.window_bytes(["x"], 16) == 256
    assert traffic.window_bytes(["x"], 4) < 4 * 64


@triton.jit
def tiles_kernel(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr, FAULT: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :])
    if FAULT == "a column for each lane":
        x += tl.load(x_ptr + rows[:, None] + cols[None, :] * 0)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], x)
    if FAULT == "twice":
        tl.store(y_ptr + rows[:, None] * N + cols[None, :], x + 1)


def tiles(fault: str, x: torch.Tensor, grid: tuple[int, int], BN: int = 16) -> Traffic:
    y = torch.empty_like(x)
    return count(lambda: tiles_kernel[grid](x, y, *x.shape, 16, BN, fault), y, x=x)


@pytest.mark.parametrize(
    ("fault", "grid", "budget", "why"),
    [
        ("twice", (2, 4), {"writes": 1}, r"program \(0, 0, 0\) writes y\[0, 0\] more than once, "
         r"at test_traffic.py:\d+ and test_traffic.py:\d+$"),
        ("a column for each lane", (2, 4), {"reads": 1}, "16 lanes of an access have the same el"),
        ("", (2, 4), {"reads": 0.5}, "no element is loaded twice"),
    ],
)  # fmt: skip
def test_why_a_budget_is_exceeded(fault, grid, budget, why):
    told = excess(tiles(fault, torch.zeros(32, 64), grid), **budget)
    assert re.search(f"why: {why}", told, re.M) if why else "why:" not in told


def test_tiles_that_are_their_own_mirror_image_are_stored_twice():
    x = torch.zeros(32, 32)
    traffic = count(lambda: triangle_of_tiles_kernel[(3,)](x, 32, 16), x)
    assert re.search(
        r"why: program \(0, 0, 0\) writes y\[0, 0\] more than once, at test_traffic.py:\d+ and "
        r"test_traffic.py:\d+ \(as 2 of 3 programs do\): the tiles on the diagonal$",
        excess(traffic, writes=1),
        re.M,
    )


@triton.jit
def triangle_of_tiles_kernel(y_ptr, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    rows = (pid + 1) // 2 * BLOCK + tl.arange(0, BLOCK)
    cols = pid // 2 * BLOCK + tl.arange(0, BLOCK)
    x = rows[:, None] + cols[None, :] + 0.0
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], x)
    tl.store(y_ptr + cols[:, None] * N + rows[None, :], tl.trans(x))


def test_what_each_program_along_an_axis_reads_again():
    x, y = torch.zeros(64), torch.empty(8, 64)
    traffic = count(lambda: column_kernel[(4, 8)](x, y, 64, 16), y, x=x)
    assert (
        "why: each element is read by 8 programs: of the grid (4, 8, 1), the 8 along axis 1 "
        in (excess(traffic, reads=1))
    )


@triton.jit
def overlapping_kernel(x_ptr, y_ptr, N, SHARE, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * SHARE + tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + cols, mask=cols < N, other=0.0)))


def test_which_elements_two_programs_read():
    x, y = torch.zeros(56), torch.empty(4)
    traffic = count(lambda: overlapping_kernel[(4,)](x, y, 56, 14, 16), y, x=x)
    assert (
        "why: 6 elements are read by more than one program: x[14] to x[15] by program (0, 0, 0) "
        "and by program (1, 0, 0)"
    ) in excess(traffic, reads=1)


@triton.jit
def column_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.program_id(1) * N + cols, tl.load(x_ptr + cols))


def test_what_a_launch_hands_on_to_the_next_one():
    x, between, y = torch.zeros(64), torch.empty(64), torch.empty(64)
    traffic = count(lambda: copy(x, between) or copy(between, y), y, x=x)
    assert re.search(
        r"why: copy_kernel hands out on to copy_kernel: stored at test_traffic.py:\d+, loaded at",
        excess(traffic, scratch=0),
    )


def test_rows_of_a_tile_that_are_shorter_than_a_sector():
    told = excess(tiles("", torch.zeros(32, 64), (2, 16), BN=4), sectors=1.1)
    assert "why: along memory the tile has 4 of cols, 16 bytes, and a sector has 32; cols =" in told


def test_descriptors_move_only_what_is_inside():
    x, y = torch.randn(40, 8), torch.empty(40, 8)
    x_desc, y_desc = (TensorDescriptor.from_tensor(tensor, [16, 16]) for tensor in (x, y))
    traffic = count(lambda: descriptor_kernel[(3, 1)](x_desc, y_desc, 16), y, x=x)
    traffic.check(reads={"x": 1}, writes=1, total_reads=320, sectors=1)


def test_elements_are_those_of_the_tensor_whatever_the_pointer():
    x, y = torch.randn(16), torch.empty(16)
    traffic = count(lambda: bytes_kernel[(1,)](x, y, 64), y, x=x)
    traffic.check(reads={"x": 1}, writes=1, total_reads=16)
    assert traffic.tensor("x").loads == 1


@triton.jit
def arithmetic_kernel(x_ptr, y_ptr, OPERATION: tl.constexpr):
    offs = tl.arange(0, 32)
    x = tl.load(x_ptr + offs)
    if OPERATION == "/":
        y = x / x
    elif OPERATION == "div_rn":
        y = tl.div_rn(x, x)
    elif OPERATION == "exp":
        y = tl.exp(x)
    elif OPERATION == "exp2":
        y = tl.exp2(x)
    elif OPERATION == "log":
        y = tl.log(x)
    elif OPERATION == "rsqrt":
        y = tl.rsqrt(x)
    elif OPERATION == "erf":
        y = tl.erf(x)
    else:
        y = x + x
    tl.store(y_ptr + offs, y)


@pytest.mark.parametrize(
    ("operation", "additions"),
    [("+", 1), ("/", 8), ("div_rn", 8), ("exp", 4), ("exp2", 4), ("log", 8), ("rsqrt", 4),
     ("erf", 25)],
)  # fmt: skip
def test_operations_of_lanes_are_counted_by_what_they_cost(operation, additions):
    x, y = torch.ones(32), torch.empty(32)
    traffic = count(lambda: arithmetic_kernel[(1,)](x, y, operation), y, x=x)
    assert traffic.lanes == [32 * additions]
