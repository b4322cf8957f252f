"""Special values in each floating-point input of a puzzle, one at a time, by one declared line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
import torch

from course.challenge import Challenge
from kernelgauge.core.tensors import tensors

# Of an input's dtype, but for the constant, which all elements get: every comparison is a tie.
VALUES: dict[str, Callable[[torch.finfo], float]] = {
    "nan": lambda info: math.nan,
    "inf": lambda info: math.inf,
    "minus_inf": lambda info: -math.inf,
    "largest": lambda info: info.max,
    "large": lambda info: 0.75 * info.max,
    "smallest": lambda info: info.tiny,
    "subnormal": lambda info: info.tiny * info.eps,
    "minus_zero": lambda info: -0.0,
    "constant": lambda info: 0.5,
}
# Infinity where the other inputs are 0 all over: a product of them is NaN.
BESIDE_ZEROS = "inf_beside_zeros"
# What stands for all inputs where each is as large as float16 may be: a sum or a product of them
# overflows in float16, and in wider dtypes no step does, so that their order is free.
TOGETHER = "all"
# With all inputs of attention large scores reach 1e10, and what rounding took from the maximum is
# hundreds: a fused multiply-add, score * scale - maximum, keeps it, and its exponential overflows.
FUSED_SCORES = {TOGETHER: ("large_half",)}
LARGE_HALF = 0.75 * torch.finfo(torch.float16).max
# What a spec that excludes a value excludes, too.
ALIKE = {"largest": "large", "inf": BESIDE_ZEROS}
# These have no infinity, or no sign of 0.
FINITE_DTYPES = (torch.float8_e4m3fn,)


def special_values(
    puzzle: Challenge,
    build: Callable[[], Iterable[Any]],
    names: str,
    apart: Mapping[str, Iterable[str]] | None = None,
) -> Callable:
    """Return a test with a case for each of these inputs and each of VALUES.

    The value stands in the first, the middle and the last element, and the reference says what
    becomes of it: in float64, or in the inputs' dtype where the spec names rounding. Of several
    inputs each is infinite there while the others are 0, too, and all are large at once, where the
    spec excludes that of none.

    build: makes the positional arguments of a call, finite ones, and may end them with a dict of
        those that go by name
    names: the inputs, tensors or lists of them, as the reference calls them, with blanks between
    apart: of an input, or of TOGETHER, the values that the spec excludes, or whose result it leaves
        to the order of steps, as where only some ways overflow
    """
    given, apart = names.split(), apart or {}
    if unknown := apart.keys() - {*given, TOGETHER}:
        raise TypeError(f"{sorted(unknown)} are not among the inputs {names}")
    values = [*VALUES, BESIDE_ZEROS] if len(given) > 1 else [*VALUES]
    left_out = {
        name: {*excluded, *(ALIKE[it] for it in excluded if it in ALIKE)}
        for name, excluded in apart.items()
    }
    rows = [(name, it) for name in given for it in values if it not in left_out.get(name, ())]
    is_free = TOGETHER in apart or any("large" in it for it in left_out.values())
    if len(given) > 1 and not is_free:
        rows.append((TOGETHER, "large_half"))

    def test(name: str, value: str) -> None:
        inputs = list(build())
        options = inputs.pop() if isinstance(inputs[-1], dict) else {}
        arguments = puzzle.arguments(tuple(inputs), options)
        if value == BESIDE_ZEROS:
            for other in given:
                for tensor in tensors(arguments.values[other]):
                    tensor.zero_()
        if name == TOGETHER:
            for tensor in (it for each in given for it in tensors(arguments.values[each])):
                put_number(tensor, min(LARGE_HALF, 0.75 * torch.finfo(tensor.dtype).max))
        else:
            for tensor in tensors(arguments.values[name]):
                put(tensor, "inf" if value == BESIDE_ZEROS else value)
        puzzle.check(*inputs, **options)

    ids = [f"{name}-{value}" for name, value in rows]
    return pytest.mark.parametrize(("name", "value"), rows, ids=ids)(test)


def put(tensor: torch.Tensor, value: str) -> None:
    """Put one of VALUES into three elements of a contiguous tensor, or all for the constant."""
    number = VALUES[value](torch.finfo(tensor.dtype))
    if tensor.dtype in FINITE_DTYPES and math.isinf(number):
        number = math.copysign(torch.finfo(tensor.dtype).max, number)
    if value == "constant":
        tensor.fill_(number)
    else:
        put_number(tensor, number)


def put_number(tensor: torch.Tensor, number: float) -> None:
    """Put a number into the first, the middle and the last element of a contiguous tensor."""
    held = torch.uint8 if tensor.itemsize == 1 else tensor.dtype
    special = torch.tensor([number], device=tensor.device).to(tensor.dtype).view(held)
    elements = tensor.view(-1).view(held)
    elements[[0, elements.numel() // 2, -1]] = special
