"""Threads of one program that meet in an element, sums in no order, and promises of runs."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernelgauge.core.verdict import Wrong
from kernelgauge.subject import surroundings
from kernelgauge.words import message
from tests.launching import fault, found, interpreted_only, line_of, watched

pytestmark = interpreted_only


@triton.jit
def pairs_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr, SAME: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    if SAME:
        x = tl.load(x_ptr + offs // 2)
    tl.store(y_ptr + offs // 2, x, mask=offs != 5)


def test_lanes_that_store_two_values_in_one_element():
    wrong = found(pairs_kernel, (1,), torch.arange(64.0), torch.empty(64), 64, False)
    assert wrong.kind == "thread-race"
    assert "2 lanes of program (0, 0, 0) store to y[0]" in message(wrong)
    assert "lanes 0 and 1 differ" in message(wrong)


def test_lanes_that_store_one_value_in_one_element():
    watched(pairs_kernel, (1,), torch.arange(64.0), torch.empty(64), 64, True)


def test_lanes_that_store_nan_in_one_element():
    watched(pairs_kernel, (1,), torch.full((64,), float("nan")), torch.empty(64), 64, False)


@triton.jit
def twice_kernel(y_ptr, at, BLOCK: tl.constexpr, HOW: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, offs.to(tl.float32))
    if HOW == "barrier":
        tl.debug_barrier()
    if HOW == "sum":
        tl.store(y_ptr + BLOCK, tl.sum(offs))
    if HOW == "load":
        tl.store(y_ptr + BLOCK, tl.load(y_ptr + at))
    elif HOW == "same":
        tl.store(y_ptr + offs, tl.load(y_ptr + offs) + 1)
    elif HOW == "reversed":
        tl.store(y_ptr + BLOCK - 1 - offs, 0.0)
    else:
        tl.store(y_ptr + at, -1.0)


# 4 warps share 512 lanes out by 1, 2 or 4 to a thread: none of these is the first warp's then.
@pytest.mark.parametrize("at", [160, 255, 320, 511])
@pytest.mark.parametrize("how", ["store", "load"])
def test_another_thread_is_not_waited_for(how, at):
    wrong = found(twice_kernel, (1,), torch.empty(513), at, 512, how)
    assert wrong.kind == "thread-race"
    assert wrong.tensor == "y"
    assert f"y[{at}], which another of its threads stored at" in message(wrong)
    assert line_of(twice_kernel, "tl.store(y_ptr + offs, offs") in message(wrong)


def test_a_tile_that_is_stored_the_other_way_round():
    wrong = fault(twice_kernel, (1,), torch.empty(513), 0, 512, "reversed")
    assert "without a barrier" in wrong


@pytest.mark.parametrize("how", ["barrier", "sum", "same"])
def test_threads_that_wait_or_are_the_same(how):
    watched(twice_kernel, (1,), torch.empty(513), 511, 512, how)


@pytest.mark.parametrize("at", [0, 100, 130])
def test_what_may_be_the_same_warp_is_not_told(at):
    watched(twice_kernel, (1,), torch.empty(513), at, 512, "store")


def test_tiles_that_each_thread_may_have_a_copy_of_are_not_told():
    watched(twice_kernel, (1,), torch.empty(65), 63, 64, "store")


@triton.jit
def add_kernel(x_ptr, y_ptr):
    tl.atomic_add(y_ptr, tl.load(x_ptr + tl.program_id(0)))


@pytest.mark.parametrize("order", ["ascending", "shuffled", "reversed"])
def test_a_sum_of_floats_in_no_order(order):
    x, y = torch.tensor([0.5, 0.25]), torch.zeros(1)
    wrong = found(add_kernel, (2,), x, y, order=order, fixed_order=True)
    assert wrong.kind == "unordered-sum"
    assert "adds to y[0], and so does program" in message(wrong)
    watched(add_kernel, (2,), x, y, order=order)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32])
def test_a_sum_of_whole_numbers_has_one_result(dtype):
    x, y = torch.ones(3, dtype=dtype), torch.zeros(1, dtype=dtype)
    watched(add_kernel, (3,), x, y, fixed_order=True)


def test_a_sum_of_one_program_is_in_order():
    watched(add_kernel, (1,), torch.rand(1), torch.zeros(1), fixed_order=True)


@triton.jit
def last_comes_kernel(y_ptr):
    tl.atomic_xchg(y_ptr, tl.program_id(0))


def test_two_programs_run_the_other_way_round():
    shuffled, reverse = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    watched(last_comes_kernel, (2,), shuffled, order="shuffled")
    watched(last_comes_kernel, (2,), reverse, order="reversed")
    assert shuffled.item() + reverse.item() == 1


@triton.jit
def runs_kernel(y_ptr, N, PROMISE: tl.constexpr, STEP: tl.constexpr):
    offs = tl.arange(0, 32) * STEP
    if PROMISE == "contiguous":
        offs = tl.max_contiguous(offs, 8)
    elif PROMISE == "modulo":
        offs = tl.max_contiguous(offs % N, 32)
    else:
        offs = tl.max_constancy(offs // 4, N)
    tl.atomic_add(y_ptr + offs, 1.0)


@pytest.mark.parametrize(
    ("promise", "step", "n", "line", "said"),
    [
        (
            "contiguous",
            2,
            8,
            "(offs, 8)",
            "0 is followed by 2, where tl.max_contiguous promises runs of 8",
        ),
        (
            "modulo",
            3,
            40,
            "(offs % N",
            "0 is followed by 3, where tl.max_contiguous promises runs of 32",
        ),
        (
            "constant",
            1,
            8,
            "constancy(",
            "0 is followed by 1, where tl.max_constancy promises runs of 8",
        ),
    ],
)
def test_a_promise_of_runs_that_does_not_hold(promise, step, n, line, said):
    wrong = found(runs_kernel, (1,), torch.zeros(128), n, promise, step)
    assert wrong.kind == "false-promise"
    assert said in message(wrong)
    assert line_of(runs_kernel, line) in message(wrong)


@triton.jit
def aligned_kernel(x_ptr, y_ptr, stride, BYTES: tl.constexpr):
    rows, cols = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
    x_ptrs = tl.multiple_of(x_ptr + rows * stride + cols, (1, BYTES))
    tl.atomic_add(y_ptr, tl.sum(tl.load(x_ptrs)))


@pytest.mark.parametrize(("first", "stride", "bytes"), [(0, 10, 16), (1, 8, 16), (4, 16, 32)])
def test_pointers_that_are_promised_to_be_aligned(first, stride, bytes):
    x, y = torch.zeros(80), torch.zeros(1)
    wrong = found(aligned_kernel, (1,), x[first:], y, stride, bytes)
    assert wrong.kind == "false-promise"
    assert f"bytes past a multiple of {bytes}, which tl.multiple_of" in message(wrong)


@pytest.mark.parametrize(("first", "stride", "bytes"), [(0, 12, 16), (1, 7, 4), (0, 16, 256)])
def test_pointers_that_are_aligned_as_promised(first, stride, bytes):
    watched(aligned_kernel, (1,), torch.zeros(80)[first:], torch.zeros(1), stride, bytes)


@pytest.mark.parametrize(("promise", "n"), [("contiguous", 8), ("modulo", 20), ("constant", 4)])
def test_a_promise_of_runs_that_holds(promise, n):
    watched(runs_kernel, (1,), torch.zeros(128), n, promise, 1)


@pytest.mark.parametrize(
    "line",
    [
        "FAST = os.environ.get('TRITON_INTERPRET') == '1'",
        "FAST = 'TRITON_INTERPRET' in os.environ",
        "test = os.getenv('PYTEST_CURRENT_TEST', '')",
        "graded = 'pytest' in sys.modules",
        "FAST = triton.knobs.runtime.interpret",
        "import triton.runtime.interpreter as I\nx = I.InterpretedFunction",
    ],
)
def test_a_file_that_asks_where_it_runs(tmp_path, line):
    file = tmp_path / "subject.py"
    file.write_text(line)
    with pytest.raises(Wrong) as caught:
        surroundings.check(file)
    assert caught.value.fault.kind == "tampering"
    file.write_text(f"if __name__ == '__main__':\n    {line.splitlines()[-1]}")
    surroundings.check(file)


def test_a_file_that_tells_of_the_interpreter(tmp_path):
    file = tmp_path / "subject.py"
    file.write_text('"""Run it under TRITON_INTERPRET=1, with pytest."""\nmodules = ["pytest"]\n')
    surroundings.check(file)
