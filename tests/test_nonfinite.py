"""Where NaN and infinity come from is told by the operation that made them, and its line."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernelgauge.memory.nonfinite import LOADED, Origin, Origins
from kernelgauge.memory.watch import Watch
from kernelgauge.words import say
from tests.launching import interpreted_only, line_of, watched

pytestmark = interpreted_only


@triton.jit
def step_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr, STEP: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    # Lanes past N hold 0, and what is made of them is not stored.
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
    harmless = x / x
    if STEP == "quotient":
        y = (x - 1) / (x - 1)
    elif STEP == "root":
        y = tl.sqrt(1 - x)
    elif STEP == "logarithm":
        y = tl.log(x - 1)
    elif STEP == "exponential":
        e = tl.exp(x * 100)
        y = e / tl.sum(e)
    elif STEP == "cast":
        y = (x * 70000).to(tl.float16).to(tl.float32)
    elif STEP == "difference":
        low = tl.where(offs < N, float("-inf"), 0.0)
        y = low - tl.max(low + x - x)
    elif STEP == "scalar":
        y = x / (tl.max(x) - tl.max(x))
    elif STEP == "square":
        y = x * x
    else:
        y = harmless
    tl.store(y_ptr + offs, y, mask=offs < N)


@triton.jit
def half_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + row, tl.load(x_ptr + row, mask=row < N, other=0.0) / 2, mask=row < N)


def test_nan_that_an_earlier_kernel_stored_comes_from_there():
    x = torch.full((48,), 2.0)
    x[0] = 1.0
    part, out = torch.empty_like(x), torch.empty_like(x)

    def run(program):
        with Origins(program) as origins, Watch() as watch:
            watch.remember(part)
            step_kernel[(3,)](x, part, 48, 16, "quotient")
            half_kernel[(3,)](part, out, 48, 16)
        return origins.found

    assert run((2, 0, 0)).operation == LOADED
    assert run(None).operation == "0 / 0"
    assert line_of(step_kernel, "y = (x - 1) / (x - 1)") in say(run(None).said)


def origin(step: str, x: torch.Tensor, program: int = 0) -> Origin:
    with Origins((program, 0, 0)) as origins:
        grid = (triton.cdiv(len(x), 16),)
        watched(step_kernel, grid, x, torch.empty_like(x), len(x), 16, step)
    return origins.found


@pytest.mark.parametrize(
    ("step", "operation", "line"),
    [
        ("quotient", "0 / 0", "y = (x - 1) / (x - 1)"),
        ("root", "sqrt(-1)", "y = tl.sqrt(1 - x)"),
        ("logarithm", "log(0)", "y = tl.log(x - 1)"),
        ("cast", "7e+04 as float16", "y = (x * 70000)"),
        ("scalar", "1 / 0", "y = x / (tl.max(x) - tl.max(x))"),
    ],
)
def test_the_operation_and_its_line(step, operation, line):
    x = torch.ones(10) + (step == "root")
    found = origin(step, x)
    assert found.operation == operation
    assert f"at tests/{line_of(step_kernel, line)}" in say(found.said)


def test_what_made_the_infinity_comes_first():
    found = origin("exponential", torch.ones(10))
    assert found.operation == "exp(100)"
    assert say(found.said).startswith("inf / inf at ")
    assert f"the infinity is exp(100) at tests/{line_of(step_kernel, 'e = tl.exp')}" in say(
        found.said
    )


def test_what_is_not_stored_does_not_count():
    assert origin("square", torch.ones(10)) == Origin()


@triton.jit
def ways_kernel(x_ptr, y_ptr, WAY: tl.constexpr):
    rows, cols = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    x = tl.load(x_ptr + rows * 16 + cols)
    # NaN in row 0, where x is 0: it is replaced, not stored, or stays in its row.
    early = tl.where(rows == 0, x / x, 0.0)
    # NaN in row 3, where x is 3.
    late = tl.where(rows == 3, tl.log(2 - x), 0.0)
    if WAY == "replaced":
        y = tl.where(early == early, early, 0.0) + tl.trans(late)
    elif WAY == "sum":
        y = (tl.sum(early + late, axis=1)[:, None] + x).reshape(16, 16)
    elif WAY == "scan":
        y = tl.cumsum(early + late, axis=1)
    elif WAY == "maximum":
        y = tl.where(early == early, 0.0, 1.0) * 0 + tl.abs(
            tl.minimum(late, x, tl.PropagateNan.ALL)
        )
    elif WAY == "dot":
        y = tl.dot(early + late, x)
    elif WAY == "split":
        y, _ = tl.split(tl.join(early + late, x))
    tl.store(y_ptr + rows * 16 + cols, y, mask=(rows == 3) | (WAY == "replaced"))


@pytest.mark.parametrize("way", ["replaced", "sum", "scan", "maximum", "dot", "split"])
def test_data_is_followed_to_the_operation_that_made_it(way):
    x = torch.arange(16.0)[:, None].expand(16, 16).contiguous()
    with Origins((0, 0, 0)) as origins:
        watched(ways_kernel, (1,), x, torch.empty(16, 16), way)
    assert origins.found.operation == "log(-1)"


@triton.jit
def sum_kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(y_ptr, tl.sum(x))


@triton.jit
def horner_kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    y = tl.zeros((4,), dtype=tl.float32)
    for _ in tl.static_range(3):
        y = y * x + 1.0
    tl.store(y_ptr + tl.arange(0, 4), y)


def test_each_element_has_an_origin_of_its_own():
    x, y = torch.tensor([1.0, torch.inf, torch.nan, 1e20]), torch.empty(4)
    with Origins((0, 0, 0)) as origins:
        watched(horner_kernel, (1,), x, y)
    made = [origins.at(y[i].data_ptr(), 4).operation for i in (1, 2, 3)]
    assert made == ["0 * inf", LOADED, "1e+20 * 1e+20"]
    assert origins.at(0, 4) == origins.found


def test_a_sum_may_overflow():
    with Origins((0, 0, 0)) as origins:
        watched(sum_kernel, (1,), torch.full((16,), 6e4).half(), torch.empty(1))
    assert origins.found.operation == "tl.sum in float16"


def test_of_the_program_alone():
    x = torch.cat([torch.ones(16), torch.full((16,), 2.0)])
    assert origin("quotient", x).operation == "0 / 0"
    assert origin("quotient", x, program=1) == Origin()


def test_what_was_loaded_is_no_operation():
    found = origin("right", torch.full((10,), float("nan")))
    assert found.is_loaded
    assert f"NaN in memory at tests/{line_of(step_kernel, 'x = tl.load')}" in say(found.said)


def test_what_was_loaded_and_never_stored_is_named():
    x, y = torch.full((10,), float("nan")), torch.empty(10)
    for inputs, unset in (({}, "x[0]"), ({"x": x}, "")):
        with Origins((0, 0, 0)) as origins:
            watched(step_kernel, (1,), x, y, 10, 16, "square", inputs=inputs)
        assert origins.found.is_loaded
        assert origins.found.unset == unset


def test_afterwards_the_interpreter_is_as_before():
    from kernelgauge.memory.access_hooks import Builder

    before = Builder.create_fdiv
    origin("quotient", torch.ones(10))
    assert Builder.create_fdiv is before


@triton.jit
def integer_dot_kernel(x_ptr, y_ptr):
    offs = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    ones = (offs >= 0).to(tl.int8)
    product = tl.dot(ones, ones, tl.zeros((16, 16), tl.int32), out_dtype=tl.int32)
    x = tl.load(x_ptr + offs)
    tl.store(y_ptr + offs, tl.log(x - product))


def test_products_of_integers_are_no_origin():
    with Origins((0, 0, 0)) as origins:
        watched(integer_dot_kernel, (1,), torch.zeros(16, 16), torch.empty(16, 16))
    assert origins.found.operation == "log(-16)"


@triton.jit
def two_infinities_kernel(x_ptr, y_ptr):
    offs = tl.arange(0, 16)
    low = tl.where(offs >= 0, float("-inf"), 0.0)
    tl.store(y_ptr + offs, low + tl.log(tl.load(x_ptr + offs)))


def test_of_two_infinities_the_one_that_was_made_counts():
    with Origins((0, 0, 0)) as origins:
        watched(two_infinities_kernel, (1,), torch.zeros(16), torch.empty(16))
    assert origins.found.operation == "log(0)"
