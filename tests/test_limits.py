"""Limits of sizes: read out of a file, found by its cases, and told with their line."""

from __future__ import annotations

import ast
import contextlib
import copy
from collections.abc import Iterator

import pytest
import torch

from course import paths
from course.plugin import ladder
from course.proof import runner
from kernelgauge.core import timeouts, work
from kernelgauge.core.verdict import NotMeasured, Wrong
from kernelgauge.subject.constants import constants, told_apart
from kernelgauge.words.fault import Cause
from tests import sampling

LADDER = ladder.ladder()
# How many programs, how long a loop by tiles, and how many steps of another one the mutants below
# allow.
PROGRAMS, LENGTH, STEPS = 40, 4096, 24


def values(code: str, rank: int | None = None) -> list[int]:
    return [it.value for it in constants(code) if rank in (None, it.rank)]


def test_numbers_at_which_a_size_is_cut_off_come_first():
    code = "HEADS = 96\nCHUNK = 512\nBLOCK = min(HEADS, n)\nf(CHUNK, ROWS=640)\nif n > 77: pass"
    assert values(code, 0) == [77, 96]
    assert values(code, 1) == [512, 640]


def test_products_of_two_are_numbers_too():
    found = {it.value: it for it in constants("for i in tl.static_range(24):\n    f(128)")}
    assert found[24 * 128].factors == (24, 128)
    assert found[24 * 128].lines == (1, 2)


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("x = 1 << 14", 2**14),
        ("x = 2**17", 2**17),
        ("key = expert * 4 << 9", 2**9),
        ("n = n.to(tl.int16)", 2**15),
        ("def f(n, most=700): pass", 700),
        ("triton.Config({'BLOCK': 320})", 320),
        ("limit = 4096.0", 4096),
    ],
)
def test_where_a_number_may_stand(code, value):
    assert value in values(code)


def test_options_of_a_launch_are_no_sizes():
    assert values("k[grid](x, num_warps=8, num_stages=5, maxnreg=168)") == []
    assert values("triton.Config({}, num_warps=8)") == []


@pytest.mark.parametrize(
    ("code", "others"),
    [
        ("if x.dtype == torch.float16: pass", [torch.float16]),
        ("y = 1 if x_ptr.dtype.element_ty != tl.float32 else 2", [torch.float16]),
        ("if x.dtype in (torch.bfloat16,): pass", [torch.bfloat16]),
        ("MOST = {torch.float16: 512}", [torch.float16]),
        ("if x_ptr.dtype.element_ty.is_bf16(): pass", [torch.bfloat16]),
        ("HALF = torch.half\nif x.dtype == HALF: pass", [torch.float16]),
        ("match x.dtype:\n    case torch.float16: pass", [torch.float16]),
        ("f(HALF=x.element_size() == 2)", [torch.float16]),
        ("f(NAME=str(x.dtype) == 'fp16')", [torch.float16]),
        ("if str(x.dtype) == 'torch.bfloat16': pass", [torch.bfloat16]),
        ("most = {2: 512, 4: 1024}[x.element_size()]", [torch.float16]),
        ("if torch.finfo(x.dtype).bits == 16: pass", [torch.float16]),
        (
            "if x.dtype == torch.bfloat16 or x.dtype == torch.float16: pass",
            [torch.float16, torch.bfloat16],
        ),
        ("if x.dtype not in (torch.float16, torch.bfloat16, torch.float32): pass", []),
        ("if y.dtype != x.dtype: pass", []),
        ("f(dtype=torch.float16, BLOCK=128 // x.element_size())", []),
    ],
)
def test_dtypes_that_a_file_tells_apart(code, others):
    dtypes = [torch.float32, torch.float16, torch.bfloat16]
    assert told_apart(code, dtypes) == [torch.float32, *others]


@pytest.mark.parametrize(
    ("code", "others"),
    [
        ("if x.dtype == torch.int16: pass", ["int16"]),
        ("if x.dtype.is_floating_point: pass", ["uint8"]),
        ("if x_ptr.dtype.element_ty.is_floating(): pass", ["uint8"]),
        ("if x_ptr.dtype.element_ty.is_int(): pass", ["uint8"]),
        ("if x_ptr.dtype.element_ty.is_uint8(): pass", ["uint8"]),
        ("if x.dtype.is_signed: pass", ["uint8"]),
        ("if x_ptr.dtype.element_ty == tl.float8e4nv: pass", ["float8_e4m3fn"]),
        ("x.is_contiguous()", []),
    ],
)
def test_integers_that_a_file_tells_from_floats(code, others):
    dtypes = [torch.float32, torch.uint8, torch.int16, torch.float8_e4m3fn]
    assert told_apart(code, dtypes) == [torch.float32, *(getattr(torch, it) for it in others)]


def test_work_is_limited_in_its_innermost_body():
    with work.at_most(10) as outer:
        with pytest.raises(work.TooMuch), work.at_most(2):
            work.spend(3)
        work.spend(10)
        assert outer.spent == 10
    work.spend(1000)


# The mutants of these are rejected with the sizes between which they turn wrong, which no number of
# their files gives: tiles are as long as the sizes let them be.
UNNAMED = {
    "02_indexing/transpose",
    "04_softmax/online_softmax",
    "06_fusion/bias_gelu",
    "08_debugging/running_sum",
    "10_convolution/dweight",
    "17_persistent/persistent_softmax",
}
MOST = {"programs": [PROGRAMS], "length": [LENGTH, STEPS]}


def capped(puzzle: str) -> Iterator[tuple[str, str]]:
    """Our solution with a limit: of one axis of a grid, or of one loop of a kernel."""
    tree = ast.parse((paths.SOLUTIONS / f"{puzzle}.py").read_text())
    counts = {ends: len([*ends(tree)]) for ends in (_axes, _loops)}
    for place in range(max(counts.values())):
        for ends in (it for it, count in counts.items() if place < count):
            edited = copy.deepcopy(tree)
            what, most, parts, at = [*ends(edited)][place]
            parts[at] = _least(parts[at], most)
            yield what, ast.unparse(ast.fix_missing_locations(edited))


# What is limited, to how much, and the expression: its place in a list of a syntax tree.
End = tuple[str, int, list[ast.expr], int]


def _axes(tree: ast.Module) -> Iterator[End]:
    """Yield the axes of each grid that is written in a launch, or set before it."""
    for node in ast.walk(tree):
        grids: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            grids = [node.func.slice]
        elif isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            is_tuple = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            names = target.elts if is_tuple else [target]
            values = value.elts if is_tuple else [value]
            grids = [
                it
                for name, it in zip(names, values, strict=False)
                if ast.unparse(name).startswith("grid")
            ]
        for grid in grids:
            shape = grid.body if isinstance(grid, ast.Lambda) else grid
            if isinstance(shape, ast.Tuple):
                for axis, size in enumerate(shape.elts):
                    if not isinstance(size, ast.Constant):
                        yield "programs", PROGRAMS, shape.elts, axis


def _loops(tree: ast.Module) -> Iterator[End]:
    """Yield the ends of the loops of kernels."""
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.decorator_list:
            for node in ast.walk(function):
                is_loop = isinstance(node, ast.For) and isinstance(node.iter, ast.Call)
                if is_loop and ast.unparse(node.iter.func) in ("range", "tl.range"):
                    ends = node.iter.args
                    at = int(len(ends) > 1)
                    if not isinstance(ends[at], ast.Constant):
                        by_tiles = len(ends) > 2 and "BLOCK" in ast.unparse(ends[2])
                        yield "length", LENGTH if by_tiles else STEPS, ends, at


def _least(expression: ast.expr, most: int) -> ast.expr:
    return ast.parse(f"min({ast.unparse(expression)}, {most})", mode="eval").body


@pytest.mark.proof
@pytest.mark.parametrize("puzzle", sampling.names(LADDER, one_in=4))
def test_a_limit_is_found(puzzle, tmp_path):
    """Of one mutant at least: some limits change nothing, or take more than a test may.

    A grid may be of as many programs as one likes where they take turns, and only products of many
    millions of multiplications copy their operands first.
    """
    cases = runner.cases_of(puzzle, ladder.PRODUCTION)
    limits = [it for it in cases if it.test.startswith("test_masks_limits")]
    told = []
    for what, source in capped(puzzle):
        # Each mutant has the time of a test: those of train_step together take most of a minute.
        with (
            timeouts.no_time_limit(),
            timeouts.time_limit(60),
            runner.graded(puzzle, source, tmp_path),
        ):
            for case in limits:
                with contextlib.suppress(NotMeasured):
                    try:
                        case.run()
                    except Wrong as wrong:
                        told.append((what, wrong.fault.cause))
        if any(is_named(puzzle, *it) for it in told):
            return
    pytest.fail(f"no limit is found: {told}")


def is_named(puzzle: str, what: str, cause: Cause | None) -> bool:
    """Whether this is told of a limit, with the number that is one in the file, if any is."""
    if not cause or not cause.note.id.startswith("limit-"):
        return False
    return puzzle in UNNAMED or bool({*MOST[what]} & {*cause.note.values.get("factors", ())})


@pytest.mark.parametrize("puzzle", LADDER)
def test_inputs_are_built_in_the_first_of_their_dtypes(puzzle, monkeypatch):
    def check(kernel, build, sizes, setting, dtypes):
        *inputs, last = build(**{name: values[0] for name, values in sizes.items()})
        options = last if isinstance(last, dict) else {}
        inputs = inputs if isinstance(last, dict) else [*inputs, last]
        arguments = kernel.arguments(tuple(inputs), options)
        known = arguments.values | arguments.tensors
        for names, each in dtypes.items():
            built = {
                getattr(known[it], "dtype", known[it]) for it in names.split() or arguments.tensors
            }
            assert not each or (each[0] in built if not names else built == {each[0]})

    monkeypatch.setattr("kernelgauge.kernel.check_limits", check)
    for case in runner.cases_of(puzzle, ladder.PRODUCTION):
        if case.test.startswith("test_masks_limits"):
            case.run()
