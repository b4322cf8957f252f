"""How interpreted launches run: arguments, grids, the order of programs, errors."""

from __future__ import annotations

import math
import signal

import pytest
import torch
import triton
import triton.language as tl
from torch.utils._python_dispatch import TorchDispatchMode

from kernelgauge.core.verdict import Wrong
from kernelgauge.memory import access_hooks, executor, selftest
from kernelgauge.memory.budgets import Traffic
from kernelgauge.memory.executor import KernelError
from kernelgauge.memory.watch import Watch
from kernelgauge.words import message, title
from kernelgauge.words.fault import note
from tests.launching import fault, found, interpreted_only, watched

pytestmark = interpreted_only

interpreter = executor.interpreter


@triton.jit
def add_kernel(x_ptr, y_ptr, N, value=1.0, BLOCK: tl.constexpr = 16):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
    tl.store(y_ptr + offs, x + value, mask=offs < N)


@triton.jit
def pid_kernel(order_ptr, count_ptr):
    pid = tl.program_id(0) + tl.num_programs(0) * (
        tl.program_id(1) + tl.num_programs(1) * tl.program_id(2)
    )
    tl.store(order_ptr + tl.atomic_add(count_ptr, 1), pid)


def order_of(grid: tuple[int, ...], **options) -> list[int]:
    order = torch.full((math.prod(grid),), -1, dtype=torch.int32)
    watched(pid_kernel, grid, order, torch.zeros(1, dtype=torch.int32), **options)
    return order.tolist()


def identity(original):
    return original


def test_the_self_test_passes():
    assert selftest.failures() == []


@pytest.mark.parametrize(
    ("owner", "name", "value", "reported"),
    [
        (access_hooks, "_note_missing_other", lambda memory: identity, "create_masked_load"),
        (Traffic, "count_dots", lambda self, original: original, "create_dot"),
        (selftest._Counting, "load", staticmethod(lambda *args: args[2]), "_interpreter.load"),
        (interpreter.InterpreterBuilder, "create_masked_store", None, "small kernel"),
    ],
)
def test_the_self_test_names_what_triton_changed(monkeypatch, owner, name, value, reported):
    monkeypatch.setattr(owner, name, value, raising=False)
    problems = selftest.failures()
    assert problems
    assert all(reported in problem.line for problem in problems)


def test_install_is_idempotent(monkeypatch):
    monkeypatch.setattr(interpreter, "GridExecutor", executor.StockExecutor)
    executor.install()
    executor.install()
    assert interpreter.GridExecutor is executor.Executor
    x = torch.zeros(5)
    add_kernel[(1,)](x, x, 5)
    assert x.tolist() == [1] * 5


def test_programs_run_in_the_order_of_a_gpu():
    assert order_of((2, 3, 2)) == list(range(12))


def test_the_shuffled_order_is_a_permutation_by_seed():
    first = order_of((30,), order="shuffled", seed=1)
    assert sorted(first) == list(range(30))
    assert first != list(range(30))
    assert first == order_of((30,), order="shuffled", seed=1)
    assert first != order_of((30,), order="shuffled", seed=2)


def test_launches_are_recorded_as_requested():
    x, y = torch.zeros(20), torch.zeros(20)
    with Watch() as watch:
        add_kernel[lambda meta: (triton.cdiv(meta["N"], meta["BLOCK"]),)](
            x, y, N=20, BLOCK=8, num_warps=2
        )
        add_kernel[(2, 1)](x, y, 20)
    first, second = watch.launches
    assert first.kernel is add_kernel.fn
    assert first.grid == (3, 1, 1)
    assert first.arguments.pop("x_ptr") is x
    assert first.arguments.pop("y_ptr") is y
    assert first.arguments == {"N": 20, "value": 1.0, "BLOCK": 8}
    assert first.constexprs == {"BLOCK"}
    assert first.options == {"num_warps": 2}
    assert second.arguments["BLOCK"] == 16
    assert second.grid == (2, 1, 1)


def test_a_launch_outside_a_watch_is_checked():
    x = torch.zeros(20)
    add_kernel[(2,)](x, x, 20)
    assert x.tolist() == [1] * 20
    with pytest.raises(Wrong, match=r"reads x\[20..31\]"):
        add_kernel[(2,)](x, torch.zeros(40), 40)


@pytest.mark.parametrize(
    ("grid", "reason"),
    [
        ((-1,), "a size cannot be negative"),
        ((1, 1, 1, 1), "a tuple of 1 to 3 integers"),
        ((), "a tuple of 1 to 3 integers"),
        (4, "a tuple of 1 to 3 integers"),
        ((2.0,), "its sizes must be integers"),
        ((1, 65536), "at most 65535 programs along axis 1"),
        ((1, 1, 65536), "at most 65535 programs along axis 2"),
        ((2**31,), "at most 2147483647 programs along axis 0"),
        (lambda meta: meta["N"], "a tuple of 1 to 3 integers"),
    ],
)
def test_grids_that_no_gpu_takes(grid, reason):
    wrong = found(add_kernel, grid, torch.zeros(5), torch.zeros(5), 5)
    assert wrong.kind == "bad-grid"
    assert reason in message(wrong)
    assert "the grid of add_kernel is" in message(wrong)


def test_a_grid_of_zero_runs_nothing_as_on_a_gpu():
    x = torch.zeros(5)
    watch = watched(add_kernel, (0,), x, x, 5)
    assert not x.any()
    assert watch.launches[0].grid == (0, 1, 1)


def test_a_grid_function_sees_plain_values():
    seen = {}
    x = torch.zeros(5)
    add_kernel[lambda meta: seen.update(meta) or (1,)](x, x, 5)
    assert seen["x_ptr"] is x
    assert type(seen["N"]) is int
    assert seen["BLOCK"] == 16


@pytest.mark.parametrize(
    ("arguments", "options", "reason"),
    [
        ((), {}, r"add_kernel\(\): missing a required argument: 'N'"),
        ((5,), {"BLOK": 8}, r"add_kernel\(\) got an unexpected .* 'BLOK'"),
        ((5, 1.0, 16, 17), {}, "too many positional"),
    ],
    ids=["missing", "unexpected", "too many"],
)
def test_wrong_arguments_raise_as_in_triton(arguments, options, reason):
    with pytest.raises(TypeError, match=reason):
        add_kernel[(1,)](torch.zeros(5), torch.zeros(5), *arguments, **options)


def test_launch_options_are_accepted():
    x = torch.zeros(5)
    add_kernel[(1,)](x, x, 5, num_warps=4, num_stages=3, num_ctas=1, maxnreg=128)
    assert x.tolist() == [1] * 5


@triton.jit
def failing_kernel(x_ptr, KIND: tl.constexpr):
    offs = tl.arange(0, 16)
    if KIND == "shape":
        x = tl.load(x_ptr + offs) + tl.arange(0, 8)
    elif KIND == "name":
        x = undefined_name + offs  # noqa: F821
    elif KIND == "arange":
        x = tl.arange(0, 12)
    elif KIND == "helper":
        x = failing_helper(offs)
    elif KIND == "deep":
        x = outer_helper(x_ptr)
    elif KIND == "dot":
        tile = tl.zeros((32, 32), tl.int8)
        x = tl.dot(tile, tile, tl.zeros((32, 32), tl.int32))
    elif KIND == "static_assert":
        tl.static_assert(KIND == "other", "not this one")
    tl.store(x_ptr + offs, x)


@triton.jit
def failing_helper(offs):
    return offs.no_such_attribute


@triton.jit
def outer_helper(x_ptr):
    return inner_helper(x_ptr)


@triton.jit
def inner_helper(x_ptr):
    return tl.load(x_ptr + 99)


@pytest.mark.parametrize(
    ("kind", "kind_of_error", "source"),
    [
        ("shape", "ValueError", "tl.load(x_ptr + offs) + tl.arange(0, 8)"),
        ("name", "NameError", "x = undefined_name + offs"),
        ("arange", "ValueError", "x = tl.arange(0, 12)"),
        ("helper", "AttributeError", "return offs.no_such_attribute"),
        ("static_assert", "AssertionError", 'tl.static_assert(KIND == "other", "not this one")'),
    ],
)
def test_an_exception_in_a_kernel_names_the_line(kind, kind_of_error, source):
    with pytest.raises(KernelError) as caught:
        failing_kernel[(1,)](torch.zeros(16), kind)
    message = str(caught.value)
    assert message.startswith("tests/test_executor.py:") or "/tests/test_executor.py:" in message
    assert f": {kind_of_error}: " in message
    assert source in message.splitlines()[-1]
    assert type(caught.value.__cause__).__name__ == kind_of_error
    raised = caught.value.fault
    assert title(raised) == f"it raises {kind_of_error}"
    after = raised.but(said=(note("wrong-after-a-call"), *raised.said))
    assert title(after) == f"it raises {kind_of_error}"
    assert isinstance(caught.value, Wrong)


def test_an_assertion_without_words_says_what_it_asserts():
    with pytest.raises(KernelError, match=r"AssertionError: .*acc\.type"):
        failing_kernel[(1,)](torch.zeros(16), "dot")


def test_wrong_in_nested_functions_comes_out_as_itself():
    with pytest.raises(Wrong) as caught:
        failing_kernel[(1,)](torch.zeros(16), "deep")
    assert type(caught.value) is Wrong
    (caller,) = caught.value.fault.place.callers
    assert caller.source == "x = outer_helper(x_ptr)"
    assert "reads x[99]" in str(caught.value)


def test_triton_is_left_as_it_was():
    def state() -> tuple:
        index = tl.core.tensor.__dict__.get("__index__")
        builder = dict(vars(interpreter.InterpreterBuilder))
        return interpreter._interpreter, builder, tl.load, index

    before = state()
    with pytest.raises(KernelError):
        failing_kernel[(1,)](torch.zeros(16), "shape")
    add_kernel[(1,)](torch.zeros(5), torch.zeros(5), 5)
    assert before == state()


class Interrupted(BaseException):
    pass


@triton.jit
def endless_kernel(x_ptr):
    while True:
        tl.load(x_ptr)


@triton.jit
def waiting_kernel(x_ptr):
    if tl.program_id(0) == 0:
        while tl.atomic_add(x_ptr, 0) == 0:
            pass
    else:
        while True:
            tl.load(x_ptr + 1)


@pytest.mark.parametrize("kernel", [endless_kernel, waiting_kernel], ids=["alone", "in a thread"])
def test_an_interruption_passes_through(kernel):
    def interrupt(*_):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    stock = interpreter._interpreter
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(Interrupted):
            watched(kernel, (2,), torch.zeros(2, dtype=torch.int32))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interpreter._interpreter is stock


@triton.jit
def failing_while_others_wait_kernel(x_ptr):
    if tl.program_id(0) == 1:
        tl.load(x_ptr + 99)
    while tl.atomic_add(x_ptr, 0) == 0:
        pass


def test_the_fault_of_a_program_that_another_waits_for():
    message = fault(failing_while_others_wait_kernel, (4,), torch.zeros(2, dtype=torch.int32))
    assert "program (1, 0, 0) reads x[99]" in message


@triton.jit
def printing_kernel(x_ptr):
    print("here", tl.load(x_ptr))


def test_print_in_a_kernel(capsys):
    printing_kernel[(1,)](torch.full((1,), 7.0))
    assert capsys.readouterr().out.startswith("here [7.]")


class Forbidding(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} was called")


def test_a_dispatch_mode_sees_nothing_of_a_launch():
    x, y = torch.zeros(20), torch.zeros(20)
    with Watch() as watch, Forbidding():
        watch.remember(y)
        add_kernel[(2,)](x, y, 20)
        stored = watch.stored(y)
    assert stored.all()


@triton.jit
def arguments_kernel(out_ptr, flag, count, factor, nothing, pair, N: tl.constexpr):
    if nothing is None:
        value = factor * count + pair[0] * 100 + pair[1] * 1000
        tl.store(out_ptr + tl.arange(0, N), tl.where(flag, value, 0.0))


@pytest.mark.parametrize("flag", [True, False])
def test_arguments_of_all_kinds(flag):
    out = torch.zeros(4)
    arguments_kernel[(1,)](out, flag, 3, 0.5, None, (1, 2), N=4)
    assert out.tolist() == [2101.5 if flag else 0.0] * 4


@triton.jit
def number_kernel(out_ptr, number):
    tl.store(out_ptr, number)


@pytest.mark.parametrize("number", [2**31 - 1, -(2**31), 2**33, -(2**40)])
def test_large_integers(number):
    out = torch.zeros(1, dtype=torch.int64)
    number_kernel[(1,)](out, number)
    assert out.item() == number


@triton.jit
def annotated_kernel(x_ptr, y_ptr, wide: tl.int64, half: tl.float16, whole: int):
    offs = tl.arange(0, 2)
    tl.store(x_ptr + offs, (2**30 + offs) * wide)
    tl.store(x_ptr + 2 + offs, (2**30 + offs) * whole)
    tl.store(y_ptr, half)


def test_annotated_parameters_take_their_types():
    x, y = torch.zeros(4, dtype=torch.int64), torch.zeros(1)
    annotated_kernel[(1,)](x, y, 4, 0.1, 4)
    assert x.tolist() == [2**32, 2**32 + 4, 0, 4]
    assert y.item() == torch.tensor(0.1, dtype=torch.float16).item()
    with pytest.raises(TypeError, match=r"wide is annotated int64, but 0\.5 is not an integer"):
        annotated_kernel[(1,)](x, y, 0.5, 0.1, 4)


def test_pre_run_hooks_are_called(monkeypatch):
    seen = []
    monkeypatch.setattr(number_kernel, "pre_run_hooks", [])
    number_kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append((args, kwargs)))
    x = torch.zeros(1)
    number_kernel[(1,)](x, number=3)
    assert seen == [((x,), {"number": 3})]


@triton.jit
def move_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs))


def test_reinterpreted_tensors():
    x = torch.arange(16, dtype=torch.int8)
    y = torch.empty_like(x)
    views = (triton.reinterpret(tensor, tl.float8e5) for tensor in (x, y))
    watch = watched(move_kernel, (1,), *views, 16)
    assert torch.equal(x, y)
    assert watch.stored(y).all()


@triton.jit
def rounding_kernel(x_ptr, y_ptr, STEP: tl.constexpr):
    offs = tl.arange(0, 16)
    x = tl.load(x_ptr + offs)
    if STEP == "product":
        x = x * x
    elif STEP == "sum":
        x += tl.sum(x, axis=0)
    elif STEP == "scratch":
        tl.store(y_ptr + offs, x)
        tl.debug_barrier()
        x = tl.load(y_ptr + offs)
    elif STEP == "maximum":
        x = tl.maximum(x, tl.max(x, axis=0))
    tl.store(y_ptr + offs, x.to(tl.float32) * 2)


@pytest.mark.parametrize(
    ("step", "rounded"),
    [
        ("", set()),
        ("maximum", set()),
        ("product", {"fp16"}),
        ("sum", {"fp16"}),
        ("scratch", {"scratch fp16"}),
    ],
)
def test_the_formats_that_a_kernel_rounds_to_are_known(step, rounded):
    x = torch.ones(16).half()
    with Watch(inputs={"x": x}) as watch:
        rounding_kernel[(1,)](x, torch.empty_like(x), step)
    assert watch.rounded & {"fp16", "scratch fp16"} == rounded
    assert {"fp32", "to fp16"} <= watch.rounded


@triton.jit
def wait_for_another_kernel(flags_ptr, EARLIER: tl.constexpr):
    pid = tl.program_id(0)
    last = tl.num_programs(0) - 1
    if pid == (0 if EARLIER else last):
        tl.atomic_xchg(flags_ptr, 1)
    else:
        while tl.atomic_add(flags_ptr, 0) == 0:
            pass


def test_programs_that_wait_in_a_launch_of_more_than_fit():
    # 4 multiprocessors of 16 programs with 4 warps each.
    for programs, earlier in [(64, False), (65, False), (65, True)]:
        flags = torch.zeros(1, dtype=torch.int32)
        watch = watched(wait_for_another_kernel, (programs,), flags, earlier)
        assert watch.waits_beyond_the_gpu is (programs == 65 and not earlier)


def test_programs_that_wait_for_those_that_begin_when_others_end():
    flags = torch.zeros(1, dtype=torch.int32)
    wrong = fault(wait_for_another_kernel, (65,), flags, False, as_started=True)
    assert "waits here forever: a GPU starts programs in their order" in wrong
    assert "64 have begun" in wrong
    assert "the 1 that" in wrong


@pytest.mark.parametrize(("programs", "earlier"), [(64, False), (65, True)])
def test_programs_that_wait_for_those_that_run(programs, earlier):
    flags = torch.zeros(1, dtype=torch.int32)
    watched(wait_for_another_kernel, (programs,), flags, earlier, as_started=True)
