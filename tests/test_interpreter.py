"""The repaired interpreter computes what a GPU would, says what is not repaired, and is fast."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda.libdevice import hypot
from triton.language.extra.libdevice import atan2, fast_tanhf

if triton.knobs.runtime.interpret:
    from triton.runtime import interpreter as stock

    from judge.interpreter import overflow, patches, selftest

    patches.install()

ROOT = Path(__file__).parents[1]
GPU = torch.cuda.is_available()

interpreted = pytest.mark.skipif(
    not triton.knobs.runtime.interpret, reason="needs TRITON_INTERPRET=1"
)

VERSION = tuple(map(int, triton.__version__.split(".")[:2]))
BEFORE_3_8 = VERSION < (3, 8)

BRAIN, HALF = torch.bfloat16, torch.float16
INF, NAN = float("inf"), float("nan")


def raised(kind: type[Exception], match: str, action) -> str:
    """The message of an exception in a kernel, whatever the launch wrapped it in."""
    with pytest.raises(Exception) as info:  # noqa: PT011
        action()
    error: BaseException | None = info.value
    while error and not isinstance(error, kind):
        error = error.__cause__
    assert error, f"{info.value!r} is no {kind.__name__}"
    assert match in str(error)
    return str(error)


def same(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Equal in every bit but those of NaN and the sign of zero."""
    assert found.dtype == wanted.dtype
    return bool(((found == wanted) | ((found != found) & (wanted != wanted))).all())


def numbers(count: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Of all magnitudes, with the special ones first."""
    generator = torch.Generator().manual_seed(seed)
    scale = 2.0 ** torch.randint(-9, 9, (count,), generator=generator)
    values = torch.randn(count, generator=generator) * scale
    values[:6] = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 3.3e38]).roll(seed)
    return values.to(dtype)


@triton.jit
def _binary_kernel(x_ptr, y_ptr, out_ptr, OP: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    if OP == "add":
        out = x + y
    elif OP == "sub":
        out = x - y
    elif OP == "mul":
        out = x * y
    elif OP == "div":
        out = x / y
    elif OP == "mod":
        out = x % y
    elif OP == "floordiv":
        out = x // y
    elif OP == "lt":
        out = x < y
    elif OP == "ne":
        out = x != y
    elif OP == "where":
        out = tl.where(x > y, x, y)
    elif OP == "maximum":
        out = tl.maximum(x, y)
    elif OP == "minimum":
        out = tl.minimum(x, y)
    elif OP == "maximum_nan":
        out = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "clamp":
        out = tl.clamp(x, -1.0, 1.0)
    elif OP == "clamp_nan":
        out = tl.clamp(x, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "neg":
        out = -x
    elif OP == "invert":
        out = ~x
    elif OP == "abs":
        out = tl.abs(x)
    elif OP == "erf":
        out = tl.erf(x)
    elif OP == "scaled":
        out = x * 0.1 + 2
    elif OP == "shift":
        out = x >> y
    elif OP == "umulhi":
        out = tl.umulhi(x, y)
    elif OP == "bits":
        out = ((x < y) + (y < 1)) * (x > -1)
    elif OP == "and":
        out = x < y and y < 1 and x > -1
    elif OP == "or":
        out = x < y or not (y < 1)
    tl.store(out_ptr + offs, out)


def binary(op: str, x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    out = torch.zeros(x.numel(), dtype=dtype)
    _binary_kernel[(1,)](x, y, out, op, x.numel())
    return out


BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "where": lambda x, y: torch.where(x > y, x, y),
    "neg": lambda x, y: 0 - x,
    "abs": lambda x, y: x.abs(),
    "maximum": torch.fmax,
    "minimum": torch.fmin,
    "maximum_nan": torch.maximum,
    "clamp": lambda x, y: x.fmax(-torch.ones_like(x)).fmin(torch.ones_like(x)),
    "clamp_nan": lambda x, y: x.clamp(-1, 1),
}


@interpreted
@pytest.mark.parametrize("dtype", [HALF, BRAIN, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("op", BINARY)
def test_elementwise_as_torch(op, dtype):
    x, y = numbers(256, dtype), numbers(256, dtype, seed=1)
    assert same(binary(op, x, y, dtype), BINARY[op](x, y))


@interpreted
@pytest.mark.parametrize("dtype", [HALF, BRAIN, torch.float32], ids=str)
def test_division_is_in_float32(dtype):
    x, y = numbers(256, dtype), numbers(256, dtype, seed=1)
    assert same(binary("div", x, y, torch.float32), x.float() / y.float())


@interpreted
@pytest.mark.parametrize("dtype", [HALF, BRAIN, torch.float32], ids=str)
@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        ("bits", lambda x, y: ((x < y) ^ (y < 1)) & (x > -1)),
        ("lt", lambda x, y: x < y),
        ("ne", lambda x, y: x != y),
        ("and", lambda x, y: (x < y) & (y < 1) & (x > -1)),
        ("or", lambda x, y: (x < y) | ~(y < 1)),
    ],
    ids=["bits", "lt", "ne", "and", "or"],
)
def test_conditions_as_torch(op, wanted, dtype):
    x, y = numbers(256, dtype), numbers(256, dtype, seed=1)
    assert torch.equal(binary(op, x, y, torch.int8), wanted(x, y).to(torch.int8))


@interpreted
def test_bfloat16_and_a_python_number_stay_bfloat16():
    x = numbers(64, BRAIN)
    wanted = (x * torch.tensor(0.1, dtype=BRAIN)) + torch.tensor(2.0, dtype=BRAIN)
    assert same(binary("scaled", x, x, BRAIN), wanted)


@triton.jit
def _cast_kernel(x_ptr, out_ptr, TO: tl.constexpr, ROUND: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs).to(TO, fp_downcast_rounding=ROUND)
    tl.store(out_ptr + offs, x)


def cast(x: torch.Tensor, to, dtype: torch.dtype, rounding=None) -> torch.Tensor:
    out = torch.zeros(x.numel(), dtype=dtype)
    _cast_kernel[(1,)](x, out, to, rounding, x.numel())
    return out


FLOATS = {"fp16": HALF, "bf16": BRAIN, "fp32": torch.float32, "fp64": torch.float64}


@interpreted
@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("source", FLOATS)
def test_casts_between_floats_round_to_nearest_even(source, target):
    x = numbers(1024, FLOATS[source])
    # Triton converts fp16 and bf16 by way of float32; and torch's fp64 to bf16 rounds twice.
    wanted = x.to(FLOATS[target])
    assert same(cast(x, tl.dtype(target), FLOATS[target]), wanted)


@interpreted
def test_float32_to_bfloat16_rounds_ties_to_even_and_keeps_nan():
    bits = torch.arange(0, 2**16, dtype=torch.int32)
    x = (bits << 16 | 0x8000).view(torch.float32)
    for start in range(0, 2**16, 2**12):
        part = x[start : start + 2**12]
        assert same(cast(part, tl.bfloat16, BRAIN), part.to(BRAIN))
    nan = torch.tensor([0x7F800001, -1, 0x7FFFFFFF, 0x7FBFFFFF], dtype=torch.int32)
    assert cast(nan.view(torch.float32), tl.bfloat16, BRAIN).isnan().all()


@interpreted
def test_float64_to_bfloat16_rounds_once():
    # Just above the middle of 1 and the next bfloat16, and in float32 exactly in the middle.
    x = torch.tensor([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8], dtype=torch.float64)
    assert cast(x, tl.bfloat16, BRAIN).tolist() == [1 + 2**-7, 1]


@interpreted
def test_rounding_toward_zero():
    x = torch.tensor([1.999999, -1.999999, 1e6, NAN])
    found = cast(x, tl.float16, HALF, "rtz")
    assert same(found, torch.tensor([2 - 2**-10, -2 + 2**-10, 65504, NAN], dtype=HALF))
    found = cast(x[:2], tl.bfloat16, BRAIN, "rtz")
    assert same(found, torch.tensor([2 - 2**-7, -2 + 2**-7], dtype=BRAIN))


@interpreted
@pytest.mark.parametrize("source", [HALF, BRAIN, torch.float32, torch.float64], ids=str)
def test_float_to_integer_saturates(source):
    x = torch.tensor([1.75, -1.75, NAN, INF, -INF, 0.0, 2.0**40, 3.0]).to(source)
    top, of_nan = 2**31 - 1, 2**31 if source is torch.float64 else 0
    found = cast(x, tl.int32, torch.int32).tolist()
    assert found == [1, -1, -of_nan, top, -top - 1, 0, top, 3]
    assert cast(x, tl.uint32, torch.uint32).tolist()[:5] == [1, 0, of_nan, 2**32 - 1, 0]
    assert cast(x, tl.int64, torch.int64)[2] == -(2**63)


@interpreted
@pytest.mark.parametrize("source", [torch.int32, torch.int64, torch.uint8], ids=str)
def test_integer_to_bfloat16(source):
    x = torch.tensor([0, 1, 127, 255, 100, 77, 3, 2], dtype=source)
    if source is not torch.uint8:
        x = torch.cat([x * 65537, -x * 12345])
    assert same(cast(x, tl.bfloat16, BRAIN), x.to(BRAIN))


@triton.jit
def _float8_kernel(x_ptr, bits_ptr, back_ptr, TO: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs).to(TO)
    tl.store(bits_ptr + offs, x.to(tl.uint8, bitcast=True))
    tl.store(back_ptr + offs, x.to(tl.float32))


@interpreted
@pytest.mark.parametrize("source", [HALF, BRAIN, torch.float32], ids=str)
@pytest.mark.parametrize(
    ("to", "dtype", "largest"),
    [
        ("fp8e5", torch.float8_e5m2, 57344),
        ("fp8e4nv", torch.float8_e4m3fn, 448),
        ("fp8e5b16", torch.float8_e5m2fnuz, 57344),
        ("fp8e4b8", torch.float8_e4m3fnuz, 240),
    ],
)
def test_float8_as_torch_and_saturating(to, dtype, largest, source):
    if to in ("fp8e5b16", "fp8e4b8") and BEFORE_3_8:
        pytest.skip("unknown to the interpreter of Triton before 3.8")
    exact = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    exact = exact[exact.isfinite()].unique()
    middles = (exact[1:] + exact[:-1]) / 2
    x = torch.cat([exact, middles, numbers(1024, torch.float32)])[:1024].clamp(-largest, largest)
    x = x.to(source)
    bits, back = torch.zeros(1024, dtype=torch.uint8), torch.zeros(1024)
    _float8_kernel[(1,)](x, bits, back, tl.dtype(to), 1024)
    wanted = x.to(dtype)
    assert same(bits.view(dtype).float(), wanted.float())
    assert same(back, wanted.float())
    over = torch.tensor([1e9, -1e9, INF, NAN])
    _float8_kernel[(1,)](over, bits, back, tl.dtype(to), 4)
    assert same(back[:4], torch.tensor([largest, -largest, largest, NAN], dtype=torch.float32))


@triton.jit
def _fma_kernel(x_ptr, y_ptr, z_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    product = tl.fma(tl.load(x_ptr + offs), tl.load(y_ptr + offs), tl.load(z_ptr + offs))
    tl.store(out_ptr + offs, product)


@interpreted
@pytest.mark.parametrize("dtype", [HALF, BRAIN, torch.float32, torch.float64], ids=str)
def test_fma_rounds_once(dtype):
    """Nearer to the exact value, which a longdouble holds, than any other number of the type."""
    generator = torch.Generator().manual_seed(3)
    bits = {HALF: 10, BRAIN: 7, torch.float32: 23, torch.float64: 30}[dtype]
    x, y = (
        1 + torch.randint(0, 2**bits, (512,), generator=generator).double() / 2**bits for _ in "xy"
    )
    x, y = x.to(dtype), y.to(dtype)
    z = (-x.double() * y.double()).to(dtype)
    z[::2] = 2.0 ** -(2 * bits)
    out = torch.zeros(512, dtype=dtype)
    _fma_kernel[(1,)](x, y, z, out, 512)
    exact = x.double().numpy().astype(np.longdouble) * y.double().numpy() + z.double().numpy()
    if dtype is torch.float64:
        assert np.array_equal(out.numpy(), exact.astype(np.float64))
    else:
        error = np.abs(out.double().numpy() - exact)
        for limit in (INF, -INF):
            other = torch.nextafter(out, torch.full_like(out, limit)).double().numpy()
            assert (error <= np.abs(other - exact)).all()


@interpreted
@pytest.mark.parametrize("dtype", [BRAIN, torch.float32, torch.float64], ids=str)
def test_fma_is_not_rounded_to_the_middle_first(dtype):
    """x * y lies in the middle of two numbers, and z is too small for any sum but the exact one."""
    bits = {BRAIN: 7, torch.float32: 23, torch.float64: 52}[dtype]
    x, y = (torch.full((2,), 1 + 2.0**-n, dtype=dtype) for n in (bits // 2, bits - bits // 2 + 1))
    z, out = torch.tensor([2.0**-120, -(2.0**-120)], dtype=dtype), torch.zeros(2, dtype=dtype)
    _fma_kernel[(1,)](x, y, z, out, 2)
    assert out[0] - out[1] == 2.0**-bits


@triton.jit
def _reduce_kernel(
    x_ptr, out_ptr, OP: tl.constexpr, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr
):
    rows = tl.arange(0, M)
    columns = tl.arange(0, N)
    x = tl.load(x_ptr + rows[:, None] * N + columns[None, :])
    if OP == "sum":
        out = tl.sum(x, axis=AXIS)
    elif OP == "max":
        out = tl.max(x, axis=AXIS)
    elif OP == "min":
        out = tl.min(x, axis=AXIS)
    elif OP == "argmax":
        out = tl.argmax(x, axis=AXIS)
    elif OP == "argmin":
        out = tl.argmin(x, axis=AXIS)
    elif OP == "xor":
        out = tl.xor_sum(x, axis=AXIS)
    if AXIS == 0:
        tl.store(out_ptr + columns, out)
    else:
        tl.store(out_ptr + rows, out)


def reduced(op: str, x: torch.Tensor, axis: int, dtype: torch.dtype) -> torch.Tensor:
    out = torch.zeros(x.shape[1 - axis], dtype=dtype)
    _reduce_kernel[(1,)](x, out, op, axis, *x.shape)
    return out


@interpreted
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [HALF, BRAIN, torch.float32, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("op", ["sum", "max", "min", "argmax", "argmin"])
def test_reductions_as_torch(op, dtype, axis):
    generator = torch.Generator().manual_seed(5)
    x = torch.randint(-9, 9, (16, 8), generator=generator).to(dtype)
    out = torch.int32 if op.startswith("arg") else dtype
    # A tie is won by the first one, and torch's is any.
    if op.startswith("arg"):
        wanted = torch.from_numpy(getattr(np, op)(x.double().numpy(), axis=axis)).to(out)
    else:
        wanted = getattr(torch, {"sum": "sum", "max": "amax", "min": "amin"}[op])(x, dim=axis).to(
            out
        )
    assert torch.equal(reduced(op, x, axis, out), wanted)


@interpreted
@pytest.mark.parametrize(("dtype", "limit"), [(HALF, 2048), (BRAIN, 256)], ids=["fp16", "bf16"])
def test_sum_of_small_floats_is_rounded_at_each_step(dtype, limit):
    x = torch.ones(1, 4 * limit, dtype=dtype)
    assert reduced("sum", x, 1, dtype).item() == 4 * limit
    x[0, 0] = limit
    # In float32 it would be 5 * limit - 1, and one by one it would stay at limit.
    assert reduced("sum", x, 1, dtype).item() == 5 * limit
    x[0, 1:] = 0
    x[0, 2 * limit :: limit] = 1
    assert reduced("sum", x, 1, dtype).item() in (limit, limit + 2)


@interpreted
@pytest.mark.parametrize("op", ["max", "min"])
def test_extrema_pass_over_nan(op):
    x = torch.tensor([[NAN, 1, 2, -3], [NAN, NAN, NAN, NAN]])
    found = reduced(op, x, 1, torch.float32)
    assert same(found, torch.tensor([2.0 if op == "max" else -3.0, NAN]))


@interpreted
def test_argmax_takes_nan_for_the_larger_on_its_right_only():
    x = torch.tensor([[NAN, 1, 2, -3], [5, 1, 2, NAN]])
    assert reduced("argmax", x, 1, torch.int32).tolist() == [2, 3]


@triton.jit
def _welford(mean_a, sum_a, count_a, mean_b, sum_b, count_b):
    delta = mean_b - mean_a
    count = count_a + count_b
    mean = mean_a + delta * (count_b / count)
    return mean, sum_a + sum_b + delta * delta * (count_a * count_b / count), count


@triton.jit
def _branching_max(a, b):
    if a > b:  # noqa: SIM108
        larger = a
    else:
        larger = b
    return larger


@triton.jit
def _first(a, b):
    return a


@triton.jit
def _own_reduce_kernel(x_ptr, out_ptr, OP: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    if OP == "welford":
        zero = tl.zeros((N,), dtype=tl.float32)
        mean, squares, _ = tl.reduce((x, zero, zero + 1), 0, _welford)
        tl.store(out_ptr, mean)
        tl.store(out_ptr + 1, squares / (N - 1))
    elif OP == "branch":
        tl.store(out_ptr, tl.reduce(x, 0, _branching_max))
    elif OP == "first":
        tl.store(out_ptr, tl.reduce(x, 0, _first))
    elif OP == "keep":
        total = tl.sum(x, axis=0, keep_dims=True)
        tl.store(out_ptr + tl.arange(0, 1), total)


@interpreted
def test_own_combine_functions():
    x = torch.randn(64, generator=torch.Generator().manual_seed(0))
    out = torch.zeros(2)
    _own_reduce_kernel[(1,)](x, out, "welford", 64)
    torch.testing.assert_close(out, torch.stack([x.mean(), x.var()]))
    for op, wanted in {"branch": x.max(), "first": x[0]}.items():
        _own_reduce_kernel[(1,)](x, out, op, 64)
        assert out[0] == wanted
    _own_reduce_kernel[(1,)](x, out, "keep", 64)
    torch.testing.assert_close(out[0], x.sum())


@triton.jit
def _recurrence(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def _scan_kernel(x_ptr, y_ptr, out_ptr, OP: tl.constexpr, N: tl.constexpr):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    if OP == "cumsum":
        out = tl.cumsum(x, 0)
    elif OP == "reverse":
        out = tl.cumsum(x, 0, reverse=True)
    elif OP == "cumprod":
        out = tl.cumprod(x, 0)
    elif OP == "recurrence":
        _, out = tl.associative_scan((x, tl.load(y_ptr + offs)), 0, _recurrence)
    elif OP == "sort":
        out = tl.sort(x)
    tl.store(out_ptr + offs, out)


@interpreted
@pytest.mark.parametrize("dtype", [HALF, BRAIN, torch.float32, torch.int32], ids=str)
def test_scans_as_torch(dtype):
    generator = torch.Generator().manual_seed(2)
    x = torch.randint(-3, 4, (64,), generator=generator).to(dtype)
    wanted = {
        "cumsum": x.cumsum(0, dtype=dtype),
        "reverse": x.flip(0).cumsum(0, dtype=dtype).flip(0),
        "cumprod": x.cumprod(0, dtype=dtype),
        "sort": x.sort().values,
    }
    for op, expected in wanted.items():
        out = torch.zeros(64, dtype=dtype)
        _scan_kernel[(1,)](x, x, out, op, 64)
        assert torch.equal(out, expected), op


@interpreted
def test_scan_keeps_the_order_of_its_operands():
    generator = torch.Generator().manual_seed(2)
    x, y = (torch.randint(-1, 2, (32,), generator=generator).float() for _ in "xy")
    out, state, wanted = torch.zeros(32), 0.0, []
    _scan_kernel[(1,)](x, y, out, "recurrence", 32)
    for factor, term in zip(x.tolist(), y.tolist(), strict=True):
        state = state * factor + term
        wanted.append(state)
    assert out.tolist() == wanted


@triton.jit
def _dot_kernel(
    a_ptr, b_ptr, acc_ptr, out_ptr, PRECISION: tl.constexpr, OUT: tl.constexpr, B: tl.constexpr
):
    row = tl.arange(0, B)
    offs = row[:, None] * B + row[None, :]
    acc = tl.load(acc_ptr + offs)
    out = tl.dot(
        tl.load(a_ptr + offs), tl.load(b_ptr + offs), acc, input_precision=PRECISION, out_dtype=OUT
    )
    tl.store(out_ptr + offs, out)


def dot(a, b, precision="ieee", out=tl.float32, dtype=torch.float32, acc=None) -> torch.Tensor:
    acc = torch.zeros(a.shape, dtype=dtype) if acc is None else acc
    result = torch.zeros(a.shape, dtype=dtype)
    _dot_kernel[(1,)](a, b, acc, result, precision, out, len(a))
    return result


@interpreted
@pytest.mark.parametrize("dtype", [HALF, BRAIN, torch.float32], ids=str)
def test_dot_sums_in_float32(dtype):
    generator = torch.Generator().manual_seed(1)
    a, b, acc = (torch.randn(64, 64, generator=generator) for _ in range(3))
    a, b = a.to(dtype), b.to(dtype)
    wanted = a.double() @ b.double() + acc
    assert (dot(a, b, acc=acc) - wanted).abs().max() < 2e-5


@interpreted
@pytest.mark.parametrize(
    ("precision", "worst", "best"),
    [("ieee", 1e-6, 0), ("tf32x3", 1e-6, 0), ("tf32", 2e-3, 1e-4), ("bf16x3", 2e-4, 1e-7)],
)
def test_dot_of_float32_in_each_precision(precision, worst, best):
    x = 1 + torch.rand(32, 32, generator=torch.Generator().manual_seed(1))
    error = ((dot(x, torch.eye(32), precision) - x) / x).abs().max()
    assert best <= error <= worst


@interpreted
def test_tf32_is_the_default_and_truncates():
    x = torch.full((16, 16), 1 + 2**-10 + 2**-11 + 2**-12)
    found = dot(x, torch.eye(16), None)
    assert (found == 1 + 2**-10).all()
    assert dot(torch.full((16, 16), NAN), torch.eye(16), None).isnan().all()


@interpreted
def test_dot_in_float16_loses_small_terms():
    a, b = torch.ones(64, 64, dtype=HALF), torch.ones(64, 64, dtype=HALF)
    a[:, 0] = 2048
    a[:, 1:] = 0.0625
    found = dot(a, b, out=tl.float16, dtype=HALF)
    # The first sixteen products are 2048.94, and each sixteen after that make 1.
    assert (found == 2048).all()
    assert (dot(a, b) == 2048 + 63 / 16).all()


@interpreted
def test_dot_of_int8_is_exact():
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randint(-128, 128, (64, 64), generator=generator).to(torch.int8) for _ in "ab")
    found = dot(a, b, out=tl.int32, dtype=torch.int32)
    assert torch.equal(found, (a.double() @ b.double()).int())


@interpreted
@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_dot_of_float8(kind):
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(32, 32, generator=generator).to(kind) for _ in "ab")
    found = dot(a, b)
    assert (found - a.double() @ b.double()).abs().max() < 1e-4


@triton.jit
def _histogram_kernel(x_ptr, out_ptr, N: tl.constexpr, BINS: tl.constexpr, limit):
    offs = tl.arange(0, N)
    counts = tl.histogram(tl.load(x_ptr + offs), BINS, mask=offs < limit)
    tl.store(out_ptr + tl.arange(0, BINS), counts)


@interpreted
def test_histogram_counts_what_is_in_range():
    x = torch.tensor([0, 3, 3, 4, 7, -1, 1, 3], dtype=torch.int32)
    out = torch.full((4,), -1, dtype=torch.int32)
    _histogram_kernel[(1,)](x, out, 8, 4, 7)
    assert out.tolist() == [1, 1, 0, 2]


@interpreted
def test_histogram_of_int64_is_int32():
    if VERSION >= (3, 9):
        pytest.skip("Triton 3.9 takes 32-bit integers only")
    x = torch.tensor([0, 3, 3, 2, 2, 2, 1, 3])
    out = torch.full((4,), -1, dtype=torch.int32)
    _histogram_kernel[(1,)](x, out, 8, 4, 8)
    assert out.tolist() == [1, 1, 3, 3]


@interpreted
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_integer_division_truncates(dtype):
    x = torch.tensor([7, -7, 7, -7, 6, -6, 0, 1], dtype=dtype)
    y = torch.tensor([2, 2, -2, -2, 3, 3, 5, -1], dtype=dtype)
    assert torch.equal(binary("floordiv", x, y, dtype), torch.div(x, y, rounding_mode="trunc"))
    assert torch.equal(binary("mod", x, y, dtype), torch.fmod(x, y))


@interpreted
def test_integer_division_by_zero_sets_all_bits():
    x, zero = torch.tensor([7, -7, 0, 1], dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    assert binary("floordiv", x, zero, torch.int32).tolist() == [-1] * 4
    assert binary("mod", x, zero, torch.int32).tolist() == [-1] * 4


@interpreted
def test_integers():
    x = torch.tensor([2**31 - 1, -(2**31), -1, 5], dtype=torch.int32)
    y = torch.tensor([1, 1, 4, 2], dtype=torch.int32)
    assert binary("add", x, y, torch.int32).tolist() == [-(2**31), -(2**31) + 1, 3, 7]
    assert binary("shift", x, y, torch.int32).tolist() == [2**30 - 1, -(2**30), -1, 1]
    u = torch.tensor([0, 1, 2**32 - 1, 5], dtype=torch.uint32)
    assert binary("invert", u, u, torch.uint32).tolist() == [2**32 - 1, 2**32 - 2, 0, 2**32 - 6]
    high = binary("umulhi", x, y, torch.int32).tolist()
    assert high == [0, 0, 3, 0]
    assert x.tolist() == [2**31 - 1, -(2**31), -1, 5]


@triton.jit
def _loop_kernel(out_ptr, N, STEP: tl.constexpr):
    total = tl.zeros((1,), dtype=tl.int64)
    for i in range(0, N, STEP):
        total += i.to(tl.int64)
    for i in tl.range(0, N, STEP, num_stages=2):
        total += i.to(tl.int64)
    for i in tl.static_range(2):
        total += i
    for i in range(N - 1, -1, -1):
        total += 100 * i
    tl.store(out_ptr + tl.arange(0, 1), total)


@interpreted
def test_loops_count_in_tensors():
    out = torch.zeros(1, dtype=torch.int64)
    _loop_kernel[(1,)](out, 7, 3)
    assert out.item() == 2 * (0 + 3 + 6) + 1 + 100 * 21


@triton.jit
def _debugged_kernel(out_ptr, N):
    if int(tl.program_id(0)) == 1:
        tl.store(out_ptr, int(N) + 1)


@interpreted
def test_scalars_convert_to_python_numbers_for_debugging():
    out = torch.zeros(1, dtype=torch.int32)
    _debugged_kernel[(2,)](out, 4)
    assert out.item() == 5


@triton.jit
def _arguments_kernel(x_ptr, out_ptr, alpha, flag, missing):
    value = tl.load(x_ptr) * alpha
    if flag and missing is None:
        value += 1
    tl.store(out_ptr, value)


@interpreted
@pytest.mark.parametrize("dtype", [HALF, BRAIN], ids=str)
def test_float_arguments_are_float32(dtype):
    x, out = torch.tensor([3.0], dtype=dtype), torch.zeros(1)
    _arguments_kernel[(1,)](x, out, 0.1, True, None)
    assert out.item() == (torch.tensor(0.1) * 3 + 1).item()
    _arguments_kernel[(1,)](x, out, 0.1, False, None)
    assert out.item() == (torch.tensor(0.1) * 3).item()


@triton.jit
def _condition_kernel(x_ptr, out_ptr, OP: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    if OP == "tile":
        if x > 0:
            tl.store(out_ptr, 1.0)
    elif OP == "choice":
        tl.store(out_ptr, 1.0 if x > 0 else 2.0)
    elif OP == "scalar":
        value = 1.0 if tl.sum(x) > 0 else 2.0
        tl.store(out_ptr, value)
    elif OP == "assert":
        assert x > 0, "x must be positive"
    elif OP == "device_assert":
        tl.device_assert(x > 0, "x must be positive", mask=tl.arange(0, 4) > 0)


@interpreted
def test_condition_must_be_one_value():
    x, out = torch.tensor([0.0, 1, 2, 3]), torch.zeros(1)
    raised(ValueError, "a tile of shape [4]", lambda: _condition_kernel[(1,)](x, out, "tile"))
    raised(ValueError, "a tile of shape [4]", lambda: _condition_kernel[(1,)](x, out, "choice"))
    _condition_kernel[(1,)](x, out, "scalar")
    assert out.item() == 1


@interpreted
def test_asserts_look_at_every_element():
    x, out = torch.tensor([0.0, 1, 2, 3]), torch.zeros(1)
    raised(AssertionError, "x must be positive", lambda: _condition_kernel[(1,)](x, out, "assert"))
    _condition_kernel[(1,)](x + 1, out, "assert")
    _condition_kernel[(1,)](x, out, "device_assert")
    x[2] = -1
    raised(
        AssertionError,
        "x must be positive",
        lambda: _condition_kernel[(1,)](x, out, "device_assert"),
    )


@interpreted
def test_nothing_warns():
    x = torch.tensor([1e30, INF, 0.0, NAN, -1.0, 1e-40, 3.4e38, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for op in ("add", "sub", "mul", "div", "erf", "where"):
            binary(op, x, x.flip(0), torch.float32)
        cast(x, tl.int32, torch.int32)
        cast(x, tl.float16, HALF)
        cast(x, tl.bfloat16, BRAIN)
        _math_kernel[(1,)](x, torch.zeros(8), 8)
        binary("floordiv", torch.ones(4).int(), torch.zeros(4).int(), torch.int32)


@triton.jit
def _math_kernel(x_ptr, out_ptr, N: tl.constexpr):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, tl.exp(x) + tl.log(x) + tl.sqrt(x) + tl.rsqrt(x) + tl.sigmoid(x))


@interpreted
def test_erf_to_half_a_unit_of_float32():
    x = torch.cat(
        [
            torch.linspace(-7, 7, 4000),
            torch.logspace(-30, 0, 90),
            torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0]),
        ]
    )
    found = binary("erf", x, x, torch.float32)
    truth = torch.erf(x.double())
    unit = torch.nextafter(truth.float().abs(), torch.tensor(INF)) - truth.float().abs()
    assert same(found[-6:], truth[-6:].float())
    assert ((found - truth).abs()[:-6] <= 0.51 * unit.double()[:-6]).all()


@triton.jit
def _libdevice_kernel(x_ptr, y_ptr, out_ptr, OP: tl.constexpr, N: tl.constexpr):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    if OP == "asin":
        out = libdevice.asin(x)
    elif OP == "acosh":
        out = libdevice.acosh(x + 1.5)
    elif OP == "atan2":
        out = atan2(x, y)
    elif OP == "hypot":
        out = hypot(x, y)
    elif OP == "erfinv":
        out = libdevice.erfinv(x)
    elif OP == "erfc":
        out = libdevice.erfc(9 * x)
    elif OP == "lgamma":
        out = libdevice.lgamma(x + 2)
    elif OP == "tgamma":
        out = libdevice.tgamma(x + 2)
    elif OP == "tanh":
        out = libdevice.tanh(x)
    elif OP == "round":
        out = libdevice.round(5 * x)
    elif OP == "pow":
        out = libdevice.pow(x + 2, y)
    elif OP == "pow_of_int":
        out = libdevice.pow(x, 3)
    elif OP == "isnan":
        out = libdevice.isnan(x).to(x.dtype)
    elif OP == "fast":
        out = libdevice.fast_dividef(x, y)
    elif OP == "popc":
        out = libdevice.popc((x * 1000).to(tl.int32)).to(x.dtype)
    elif OP == "scalar":
        out = x + libdevice.sqrt(2.0)
    elif OP == "unknown":
        out = libdevice.j0(x)
    elif OP == "amd":
        out = fast_tanhf(x)
    elif OP == "half":
        out = libdevice.sin(x.to(tl.float16))
    elif OP == "assembly":
        out = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], tl.float32, True, 1)
    tl.store(out_ptr + offs, out)


LIBDEVICE = {
    "asin": lambda x, y: torch.asin(x),
    "acosh": lambda x, y: torch.acosh(x + 1.5),
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "erfinv": lambda x, y: torch.erfinv(x),
    "erfc": lambda x, y: torch.erfc(9 * x),
    "lgamma": lambda x, y: torch.lgamma(x + 2),
    "tgamma": lambda x, y: torch.lgamma(x + 2).exp(),
    "tanh": lambda x, y: torch.tanh(x),
    "round": lambda x, y: torch.copysign((5 * x).abs().add(0.5).floor(), x),
    "pow": lambda x, y: torch.pow(x + 2, y),
    "pow_of_int": lambda x, y: x**3,
    "isnan": lambda x, y: x.isnan().to(x.dtype),
    "popc": lambda x, y: torch.tensor(
        [int(v * 1000).__and__(2**32 - 1).bit_count() for v in x.tolist()]
    ),
    "scalar": lambda x, y: x + 2**0.5,
}


@interpreted
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("op", LIBDEVICE)
def test_libdevice_as_torch(op, dtype):
    x = torch.linspace(-1, 1, 256, dtype=dtype)
    y = torch.linspace(3, -3, 256, dtype=dtype)
    if op == "scalar" and dtype is torch.float64:
        pytest.skip("a Python float is float32 to libdevice")
    out = torch.zeros(256, dtype=dtype)
    _libdevice_kernel[(1,)](x, y, out, op, 256)
    # The arguments are computed in the kernel, in the type.
    wide = x.double() if op in ("asin", "erfinv", "tanh", "atan2", "hypot") else x
    wanted = LIBDEVICE[op](wide, y.to(wide.dtype)).to(dtype)
    tolerance = 2e-6 if dtype is torch.float32 else 1e-13
    torch.testing.assert_close(out, wanted, rtol=tolerance, atol=tolerance * 1e-2, equal_nan=True)


@interpreted
def test_libdevice_without_a_numpy_version_names_itself():
    x = torch.linspace(-1, 1, 8)

    def run(op):
        return lambda: _libdevice_kernel[(1,)](x, x, torch.zeros(8), op, 8)

    raised(NotImplementedError, "__nv_j0f", run("unknown"))
    raised(NotImplementedError, "fast_tanhf", run("amd"))
    raised(NotImplementedError, "tl.inline_asm_elementwise needs a GPU", run("assembly"))
    raised(TypeError, "libdevice.sin takes no fp16: convert first", run("half"))


@interpreted
def test_fast_libdevice_functions():
    x, out = torch.linspace(-1, 1, 8), torch.zeros(8)
    _libdevice_kernel[(1,)](x, x + 3, out, "fast", 8)
    torch.testing.assert_close(out, x / (x + 3))


@triton.jit
def _offset_kernel(out_ptr, stride, OP: tl.constexpr):
    offs = 65530 + tl.arange(0, 16)
    if OP == "argument":
        offset = offs * stride
    elif OP == "constant":
        offset = offs * 65536
    elif OP == "scalar":
        offset = (tl.program_id(0) + 65536) * stride + offs
    elif OP == "sum":
        offset = offs + (stride + 2147400000)
    elif OP == "wide":
        offset = offs.to(tl.int64) * stride
    elif OP == "random":
        offset = (tl.rand(7, offs) * 10).to(tl.int32)
    elif OP == "loop":
        offset = offs
        for i in range(65530, 65538):
            offset = offs * 0 + i * stride
    elif OP == "unmarked":
        offset = tl.mul(offs, stride, sanitize_overflow=False)
    elif OP == "bytes":
        offset = tl.full((16,), 200, tl.uint8) + tl.full((16,), 100, tl.uint8)
    tl.store(out_ptr + tl.arange(0, 16), offset.to(tl.int64))


@interpreted
@pytest.mark.parametrize("op", ["argument", "constant", "scalar", "sum", "loop", "bytes"])
def test_overflow_is_an_error_where_asked_for(op):
    out = torch.zeros(16, dtype=torch.int64)
    with overflow.overflow_errors():
        raised(
            overflow.IntegerOverflow,
            "does not fit uint8" if op == "bytes" else "does not fit int32",
            lambda: _offset_kernel[(1,)](out, 65536, op),
        )
    _offset_kernel[(1,)](out, 65536, op)
    assert out.abs().max() < 2**31


@interpreted
@pytest.mark.parametrize("op", ["wide", "random", "unmarked"])
def test_overflow_that_is_none_or_is_meant(op):
    out = torch.zeros(16, dtype=torch.int64)
    with overflow.overflow_errors():
        _offset_kernel[(1,)](out, 65536, op)
    if op == "wide":
        assert out[-1] == (65530 + 15) * 65536


@interpreted
def test_overflow_message_names_the_numbers():
    with overflow.overflow_errors():
        message = raised(
            overflow.IntegerOverflow,
            "int32",
            lambda: _offset_kernel[(1,)](torch.zeros(16, dtype=torch.int64), 65536, "argument"),
        )
    assert message.startswith(
        "65530 * 65536 = 4294574080 does not fit int32: 16 of 16 values overflow\nhint: "
    )


@interpreted
def test_self_test_is_content_and_fast():
    patches.install()
    start = time.process_time()
    assert selftest.failures() == []
    assert time.process_time() - start < 0.3


def _old(name):
    ufunc = {"create_maxnumf": np.maximum, "create_fma": None}[name]
    if ufunc:
        return lambda self, x, y: self.binary_op(x, y, ufunc)
    return lambda self, x, y, z: stock.TensorHandle(x.data * y.data + z.data, z.dtype.scalar)


@interpreted
@pytest.mark.parametrize(
    ("name", "line"), [("create_maxnumf", "tl.maximum of NaN"), ("create_fma", "tl.fma")]
)
def test_self_test_tells_of_a_repair_that_is_gone(monkeypatch, name, line):
    monkeypatch.setattr(stock.InterpreterBuilder, name, _old(name))
    (found,) = selftest.failures()
    assert found.startswith(f"not repaired in triton {triton.__version__}: {line}: ")


@interpreted
def test_self_test_tells_of_a_function_that_is_gone(monkeypatch):
    monkeypatch.delattr(stock.InterpreterBuilder, "create_histogram")
    (found,) = selftest.failures()
    assert "tl.histogram: " in found


@interpreted
def test_self_test_tells_of_an_option_that_is_gone():
    overflow.set_option("debug", False)
    try:
        (found,) = selftest.failures()
    finally:
        overflow.set_option("debug", True)
    assert "tl.device_assert: no AssertionError was raised" in found


def script(text: str, *arguments: str, interpret: bool = True) -> str:
    """Run Python in a process of its own. Returns what it printed."""
    environment = {**os.environ, "TRITON_INTERPRET": "1" if interpret else "0"}
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_does_nothing():
    text = """
import triton.language as tl, triton.runtime.interpreter as stock
from triton.language import core
before = dict(vars(stock.InterpreterBuilder)), dict(vars(stock)), dict(vars(tl.tensor))
from judge.interpreter import patches, selftest
from judge.subject import autotuning
after = dict(vars(stock.InterpreterBuilder)), dict(vars(stock)), dict(vars(tl.tensor))
print(before == after, stock.interpreter_builder.options.debug)
"""
    assert script(text, interpret=False) == "True False\n"


def test_without_the_repairs_the_self_test_complains():
    text = "from judge.interpreter import selftest; print(len(selftest.failures()))"
    assert int(script(text)) > 10


MATMUL = Path(__file__).with_name("matmul_benchmark.py")


@interpreted
def test_matmul_is_faster_than_stock():
    """256 cubed in 32-blocks, seconds of CPU, the better of two runs."""

    def seconds(*arguments: str) -> float:
        done = subprocess.run(
            [sys.executable, str(MATMUL), *arguments],
            cwd=ROOT,
            env={**os.environ, "TRITON_INTERPRET": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        return float(done.stdout)

    assert seconds("repaired") < 0.75 * seconds("stock")


@pytest.mark.skipif(not GPU, reason="needs a GPU")
def test_same_as_a_gpu(tmp_path):
    same_as_gpu = Path(__file__).with_name("same_as_gpu.py")
    theirs = [tmp_path / f"gpu{part}.npz" for part in range(6)]
    commands = [("1", tmp_path / "here.npz")]
    commands += [("0", file, str(part), "6") for part, file in enumerate(theirs)]
    running = [
        subprocess.Popen(
            [sys.executable, str(same_as_gpu), *map(str, arguments)],
            env={**os.environ, "TRITON_INTERPRET": mode},
        )
        for mode, *arguments in commands
    ]
    assert {process.wait() for process in running} == {0}
    text = """
import sys
import numpy as np
sys.path.insert(0, "tests")
from same_as_gpu import differences
ours, *theirs = (dict(np.load(path)) for path in sys.argv[1:])
print(*differences(ours, {k: v for part in theirs for k, v in part.items()}), sep="\\n", end="")
"""
    found = script(text, str(tmp_path / "here.npz"), *map(str, theirs))
    assert found == ""
