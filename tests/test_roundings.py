"""Roundings to 16 bits that make a result wrong: the line is named, and no other."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.diagnosis.observations import diagnose
from kernelgauge.kernel import Kernel
from kernelgauge.memory.roundings import Roundings
from kernelgauge.words import message
from tests.launching import line_of

pytestmark = pytest.mark.skipif(not settings.interpreted, reason="runs in the interpreter alone")


@triton.jit
def parts_kernel(x_ptr, parts_ptr, N, BLOCK: tl.constexpr, HOW: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
    if HOW != "summed":
        x = x.to(tl.float32)
    total = tl.sum(x)
    tl.store(parts_ptr + tl.program_id(0), total)


@triton.jit
def total_kernel(parts_ptr, y_ptr, P, BLOCK: tl.constexpr, HOW: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(parts_ptr + offs, mask=offs < P, other=0.0).to(tl.float32))
    if HOW == "doubled":
        total += total
    tl.store(y_ptr, total.to(y_ptr.dtype.element_ty))


def subject(how):
    def total(x):
        parts = torch.empty(16, dtype=x.dtype if how == "stored" else torch.float32)
        y = torch.empty((), dtype=x.dtype)
        parts_kernel[(16,)](x, parts, x.numel(), BLOCK=64, HOW=how)
        total_kernel[(1,)](parts, y, 16, BLOCK=16, HOW=how)
        return y

    return Kernel(total, reference=lambda x: x.sum(), strict=True)


def told(how, dtype, check="check"):
    kernel = subject(how)
    kernel.run.defers = True
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    with pytest.raises(Wrong) as raised:
        getattr(kernel, check)((100 * x + 300 * x.sign().roll(1)).to(dtype))
    (fault,) = diagnose([raised.value.observation])
    return message(fault)


@pytest.mark.parametrize(
    ("how", "dtype", "line"),
    [
        ("stored", torch.bfloat16, "tl.store(parts_ptr"),
        ("stored", torch.float16, "tl.store(parts_ptr"),
        ("summed", torch.float16, "total = tl.sum(x)"),
    ],
)
def test_the_line_is_named(how, dtype, line):
    number = line_of(parts_kernel, line).rpartition(":")[2]
    said = told(how, dtype)
    assert f"in line {number}, rounds to {str(dtype).removeprefix('torch.')}, and too much" in said


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_roundings_are_not_blamed_for_another_fault(dtype):
    assert "rounds to" not in told("doubled", dtype)


def test_nothing_is_said_where_no_error_is_allowed():
    assert "rounds to" not in told("stored", torch.bfloat16, "check_exactly")


@triton.jit
def cast_kernel(y_ptr, value, BLOCK: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, BLOCK), tl.full((BLOCK,), value, tl.float32))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value", [1 / 3, -1e-3, 1e-7, 1000.3, 0.75])
def test_other_roundings_have_the_number_as_their_mean(dtype, value):
    y, held = torch.empty(2**14, dtype=dtype), torch.tensor(value)

    def rounded():
        cast_kernel[(1,)](y, value, BLOCK=2**14)
        return y.double()

    is_exact = held.to(dtype).double() == held.double()
    with Roundings(seed=0) as roundings:
        drawn = rounded()
    assert len(drawn.unique()) == (1 if is_exact else 2)
    assert abs(drawn.mean() - held.double()) <= 0.02 * (drawn.max() - drawn.min())
    assert len(roundings.seen) == (not is_exact)
    assert (rounded() == held.to(dtype)).all()
