"""What a kernel's syntax tree shows, and what it does not."""

from __future__ import annotations

import ast
import textwrap

import pytest

from kernelgauge.diagnosis import dataflow

KERNEL = """
@triton.jit
def kernel(x_ptr, y_ptr, N, stride, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * stride + cols[None, :], mask=cols[None, :] < N, other=0.0)
    z = x.to(tl.float32)
"""


def found(detect, body):
    tree = ast.parse(KERNEL + textwrap.indent(textwrap.dedent(body), "    "))
    return getattr(detect(tree), "text", None)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            "mean = tl.sum(z) / N\nv = tl.sum(z * z) / N - mean * mean",
            "tl.sum(z * z) / N - mean * mean",
        ),
        (
            "s = 0.0\nfor i in range(N):\n    s += z * z\nm = tl.sum(z)\nm2 = m * m\nv = s - m2",
            "s - m2",
        ),
        ("m = tl.sum(z)\nv = (tl.sum(z * z) - N * m ** 2) / N", "tl.sum(z * z) - N * m ** 2"),
        ("d = z - tl.sum(z) / N\nv = tl.sum(d * d)", None),
        ("v = z - z * z", None),
        # What is shifted first may lie near zero.
        ("d = z - 3\nm = tl.sum(d) / N\nv = tl.sum(d * d) / N - m * m", None),
    ],
)
def test_difference_of_squares(body, text):
    assert found(dataflow.difference_of_squares, body) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            "s = tl.zeros((1,), x_ptr.dtype.element_ty)\nfor i in range(N):\n    s += tl.sum(x)",
            "s += tl.sum(x)",
        ),
        ("s = tl.zeros((BLOCK,), dtype=tl.float16)\nwhile N > 0:\n    s = s + x", "s = s + x"),
        (
            "s = 0.0\nfor i in range(N):\n    s = (s + x).to(tl.bfloat16)",
            "s = (s + x).to(tl.bfloat16)",
        ),
        ("s = tl.zeros((BLOCK,), tl.float32)\nfor i in range(N):\n    s += x.to(tl.float16)", None),
        ("s = tl.zeros((BLOCK,), tl.float16)\ns += x", None),
    ],
)
def test_narrow_sum(body, text):
    assert found(dataflow.narrow_sum, body) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("tl.store(y_ptr + cols, tl.sum(z, axis=1))", "tl.sum(z, axis=1)"),
        ("s = tl.zeros((BLOCK,), tl.float32)\ns += tl.max(z, 0)\n"
         "tl.store(y_ptr + rows, s / N)", "tl.max(z, 0)"),
        ("m = tl.sum(z, axis=0) / N\nd = z - m[:, None]", "tl.sum(z, axis=0)"),
        ("tl.store(y_ptr + rows, tl.sum(z, axis=1))", None),
        ("m = tl.sum(z, axis=0) / N\nd = z - m[None, :]", None),
        # Other lanes, which may be those of the axis that is left.
        ("tl.store(y_ptr + tl.arange(0, BLOCK), tl.sum(z, axis=1))", None),
        ("i = tl.arange(0, BLOCK)\nw = tl.load(x_ptr + i[:, None] + cols[None, :])\n"
         "tl.store(y_ptr + cols, tl.sum(w, axis=1))", None),
        ("tl.store(y_ptr + cols, tl.sum(tl.trans(z), axis=1))", None),
    ],
)  # fmt: skip
def test_other_axis(body, text):
    assert found(dataflow.other_axis, body) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("y = tl.clamp(z, 0.0, 1.0)", "tl.clamp(z, 0.0, 1.0)"),
        ("y = tl.where(z > 0, z, 0.0)", "tl.where(z > 0, z, 0.0)"),
        ("y = tl.maximum(z, -1.0, propagate_nan=tl.PropagateNan.ALL)", None),
        ("y = tl.where(cols < N, z, 0.0)", None),
        ("y = tl.where(z == 0, 0.0, z)", None),
        ("y = tl.where(z == z, z, 0.0)", "tl.where(z == z, z, 0.0)"),
        ("y = tl.where(z != z, 0.0, z)", "tl.where(z != z, 0.0, z)"),
        ("m = tl.maximum(m, tl.max(z))", None),
        ("y = tl.clamp(z, 0.0, 1.0)\nw = tl.where(z > 0, z, 0.0)", None),
    ],
)
def test_nan_replaced(body, text):
    assert found(dataflow.nan_replaced, body) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("tl.dot(z, z, s)", "tl.dot(z, z, s)"),
        ("for i in range(N):\n    tl.maximum(m, tl.max(z))", "tl.maximum(m, tl.max(z))"),
        ("s = tl.dot(z, z, s)", None),
        ("tl.store(y_ptr + cols, tl.max(z, axis=0))", None),
        ("tl.atomic_add(y_ptr, tl.sum(z))", None),
        ("tl.multiple_of(rows, 16)", None),
    ],
)
def test_dropped(body, text):
    assert found(dataflow.dropped, body) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("s += tl.dot(z, z, s)", "s += tl.dot(z, z, s)"),
        ("s += tl.dot(z, z, acc=s)", "s += tl.dot(z, z, acc=s)"),
        ("s = s + tl.dot(z, z, s)", "s = s + tl.dot(z, z, s)"),
        ("s += tl.dot(z, z)", None),
        ("s = tl.dot(z, z, s)", None),
        ("s = tl.dot(z, z, s + z)", None),
        ("s += tl.dot(z, z, t)", None),
    ],
)
def test_doubled(body, text):
    assert found(dataflow.doubled, body) == text
