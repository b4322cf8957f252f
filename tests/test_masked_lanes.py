"""Masked-off lanes that are loaded without `other`: noted, and poisoned."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from tests.launching import interpreted_only, line_of, watched

pytestmark = interpreted_only


@triton.jit
def reduce_kernel(x_ptr, y_ptr, n, OTHER: tl.constexpr, OP: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    if OTHER:
        x = tl.load(x_ptr + offs, mask=offs < n, other=0)
    else:
        x = tl.load(x_ptr + offs, mask=offs < n)
    if OP == "sum":
        tl.store(y_ptr, tl.sum(x))
    elif OP == "max":
        tl.store(y_ptr, tl.max(x))
    else:
        tl.store(y_ptr, tl.min(x))


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int8])
def test_lanes_without_other_show_in_the_result(op, dtype):
    x, y = torch.zeros(13, dtype=dtype), torch.zeros(1, dtype=dtype)
    watch = watched(reduce_kernel, (1,), x, y, 13, False, op, 16)
    assert y.item() != 0
    (((file, line), lanes),) = watch.loads_without_other.items()
    assert f"{Path(file).name}:{line}" == line_of(reduce_kernel, "mask=offs < n)")
    assert lanes == 3
    watch = watched(reduce_kernel, (1,), x, y, 13, False, op, 16, poison=False)
    assert y.item() == 0
    assert watch.loads_without_other
    watch = watched(reduce_kernel, (1,), x, y, 13, True, op, 16)
    assert y.item() == 0
    assert not watch.loads_without_other


@pytest.mark.parametrize("op", ["sum", "max"])
def test_one_lane_without_other_shows(op):
    y = torch.zeros(1)
    watched(reduce_kernel, (1,), torch.zeros(15), y, 15, False, op, 16)
    assert y.item() != 0


def test_a_full_mask_needs_no_other():
    y = torch.zeros(1)
    watch = watched(reduce_kernel, (1,), torch.ones(16), y, 16, False, "sum", 16)
    assert y.item() == 16
    assert not watch.loads_without_other


@triton.jit
def one_value_kernel(x_ptr, y_ptr, SHAPE: tl.constexpr):
    offs = tl.zeros(SHAPE, tl.int32)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs > tl.program_id(0), other=0))


@triton.jit
def masked_scalar_kernel(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(x_ptr, mask=tl.program_id(0) > 0, other=0.0))


@pytest.mark.parametrize(
    ("kernel", "shape"),
    [(masked_scalar_kernel, ()), (one_value_kernel, ((1,),)), (one_value_kernel, ((1, 1),))],
    ids=["scalar", "(1,)", "(1, 1)"],
)
def test_other_of_one_lane_may_be_0(kernel, shape):
    # Triton passes it on only if it is true as a Python number.
    y = torch.ones(1)
    watch = watched(kernel, (1,), torch.ones(1), y, *shape)
    assert y.item() == 0
    assert not watch.loads_without_other


@triton.jit
def masked_copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.float64, torch.int64])
def test_poison_of_other_types(dtype):
    y = torch.zeros(8, dtype=dtype)
    watched(masked_copy_kernel, (1,), torch.zeros(5, dtype=dtype), y, 5, 8)
    assert not y[:5].any()
    assert (y[5:] != 0).all()
