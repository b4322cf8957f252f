"""The interpreter's shortcuts give the types, shapes and values that Triton's own rules give."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

from kernelgauge.interpreter import arithmetic, overflow, shortcuts

pytestmark = pytest.mark.skipif(
    not triton.knobs.runtime.interpret, reason="needs TRITON_INTERPRET=1"
)

DTYPES = [tl.int1, tl.int8, tl.int32, tl.int64, tl.uint32, tl.float8e5]
DTYPES += [tl.float16, tl.bfloat16, tl.float32, tl.float64]
SHAPES = [(), (4,), (1, 4), (2, 1)]
NUMBERS = [0, 1, -1, 2**31, 2**63, 1.5, float("inf"), True]
# Which operands may be pointers, whether types are converted, whether it is a division.
RULES = {
    "addition": (True, True, True, False),
    "multiplication": (False, False, True, False),
    "division": (False, False, True, True),
    "bitwise": (False, False, False, False),
}


def tensor(dtype: tl.dtype, shape: tuple[int, ...]) -> tl.tensor:
    data = np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape)
    return arithmetic.make_tensor(data.astype(arithmetic.numpy_dtype(dtype)), dtype)


TENSORS = [tensor(dtype, shape) for dtype in DTYPES for shape in SHAPES]
POINTERS = [tensor(tl.pointer_type(tl.float32), shape) for shape in SHAPES]


def described(operands: tuple[tl.tensor, tl.tensor]) -> list[tuple]:
    """What may be seen of them."""
    return [
        (
            str(x.type),
            [int(size) for size in x.shape],
            str(x.handle.data.tolist()),
            x.handle.dtype.name,
        )
        for x in operands
    ]


def outcome(function, *arguments) -> list[tuple] | str:
    try:
        return described(function(interpreter.interpreter_semantic, *arguments))
    except Exception as error:
        return repr(error)


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_operands_are_converted_as_triton_does(rules, monkeypatch):
    convert = TritonSemantic.binary_op_type_checking_impl
    broadcast = TritonSemantic.broadcast_impl_value
    operands = [*TENSORS, *POINTERS, *NUMBERS]
    pairs = list(itertools.product(operands, operands))
    short = [outcome(convert, left, right, *rules) for left, right in pairs]
    monkeypatch.setattr(TritonSemantic, "broadcast_impl_value", broadcast.__wrapped__)
    own = [outcome(convert.__wrapped__, left, right, *rules) for left, right in pairs]
    for pair, one, other in zip(pairs, short, own, strict=True):
        assert one == other, pair


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("checked", [False, True], ids=["wraps", "checks_overflow"])
@pytest.mark.parametrize("name", shortcuts.ELEMENTWISE)
def test_operations_give_what_triton_gives(name, checked):
    operate = getattr(TritonSemantic, name)
    rest = (True,) if name in ("add", "sub", "mul") else ()
    operands = [*TENSORS, *POINTERS, *NUMBERS]
    with overflow.overflow_errors() if checked else contextlib.nullcontext():
        for pair in itertools.product(operands, operands):
            short = outcome(single(operate), *pair, *rest)
            assert short == outcome(single(operate.__wrapped__), *pair, *rest), pair


def test_casts_give_what_triton_gives():
    cast = TritonSemantic.cast
    for x, dtype in itertools.product(TENSORS, DTYPES):
        short, own = (outcome(single(function), x, dtype) for function in (cast, cast.__wrapped__))
        assert short == own, (x, dtype)


def single(function):
    return lambda *arguments: (function(*arguments),)


def test_atomics_of_one_value_store_it_in_each_place():
    @triton.jit
    def add_one_value(y_ptr, BLOCK: tl.constexpr):
        rows, columns = tl.arange(0, 2), tl.arange(0, BLOCK)
        values = tl.broadcast_to(columns[None, :] + 1, (2, BLOCK))
        tl.atomic_add(y_ptr + rows[:, None] * BLOCK + columns[None, :], values)

    y = torch.zeros(2, 4, dtype=torch.int32)
    add_one_value[(1,)](y, BLOCK=4)
    assert y.tolist() == [[1, 2, 3, 4]] * 2
