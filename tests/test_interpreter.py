"""The patched interpreter computes what a GPU would."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda.libdevice import hypot
from triton.language.extra.libdevice import atan2, fast_tanhf

from kernelgauge.core import versions
from kernelgauge.core.verdict import Wrong
from kernelgauge.interpreter import overflow
from kernelgauge.memory.watch import Watch
from tests import test_same_as_gpu as kernels

pytestmark = pytest.mark.skipif(
    not triton.knobs.runtime.interpret, reason="needs TRITON_INTERPRET=1"
)

F16, B16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
I32, I64 = torch.int32, torch.int64
INF, NAN = float("inf"), float("nan")


def assert_raises(kind: type[Exception], match: str, kernel, *arguments) -> str:
    """Launch one program, which must raise this. Returns the message, whatever wraps the error."""
    with pytest.raises(Exception) as info:  # noqa: PT011
        kernel[(1,)](*arguments)
    error: BaseException | None = info.value
    while error and not isinstance(error, kind):
        error = error.__cause__
    assert error, f"{info.value!r} is no {kind.__name__}"
    assert match in str(error)
    return str(error)


def same(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Tell whether all bits are equal, except those of NaN and the sign of zero."""
    assert found.dtype == wanted.dtype
    return bool(((found == wanted) | ((found != found) & (wanted != wanted))).all())


def numbers(count: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Return numbers of all magnitudes, the special ones first."""
    generator = torch.Generator().manual_seed(seed)
    scale = 2.0 ** torch.randint(-9, 9, (count,), generator=generator)
    values = torch.randn(count, generator=generator) * scale
    values[:6] = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 3.3e38]).roll(seed)
    return values.to(dtype)


def computed(kernel, out: torch.dtype, x, y=None, z=None, **constants) -> torch.Tensor:
    """Run one of `kernels`; y and z are x if they are not given."""
    y = x if y is None else y
    result = torch.zeros(x.numel(), dtype=out)
    kernel[(1,)](x, y, y if z is None else z, result, x.numel(), **constants)
    return result


def elementwise(op: str, out: torch.dtype, x, y=None, z=None) -> torch.Tensor:
    return computed(kernels.elementwise, out, x, y, z, OP=op)


def cast(x: torch.Tensor, to: tl.dtype, out: torch.dtype, rounding=None) -> torch.Tensor:
    return computed(kernels.cast, out, x, TO=to, ROUND=rounding)


def integers(low: int, high: int, *shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


ELEMENTWISE = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "where_greater": lambda x, y: torch.where(x > y, x, y),
    "negative": lambda x, y: 0 - x,
    "abs": lambda x, y: x.abs(),
    "maximum": torch.fmax,
    "minimum": torch.fmin,
    "maximum_nan": torch.maximum,
    "clamp_to_1": lambda x, y: x.fmax(-torch.ones_like(x)).fmin(torch.ones_like(x)),
    "clamp_to_1_nan": lambda x, y: x.clamp(-1, 1),
}


@pytest.mark.parametrize("dtype", [F16, B16, F32, F64], ids=str)
@pytest.mark.parametrize("op", ELEMENTWISE)
def test_elementwise_as_torch(op, dtype):
    x, y = numbers(256, dtype), numbers(256, dtype, seed=1)
    assert same(elementwise(op, dtype, x, y), ELEMENTWISE[op](x, y))


@pytest.mark.parametrize("dtype", [F16, B16, F32], ids=str)
def test_division_is_in_float32(dtype):
    x, y = numbers(256, dtype), numbers(256, dtype, seed=1)
    assert same(elementwise("div", F32, x, y), x.float() / y.float())


CONDITIONS = {
    "bits_times": lambda x, y: ((x < y) ^ (y < 1)) & (x > -1),
    "less": lambda x, y: x < y,
    "unequal": lambda x, y: x != y,
    "and_and": lambda x, y: (x < y) & (y < 1) & (x > -1),
    "or_not": lambda x, y: (x < y) | ~(y < 1),
}


@pytest.mark.parametrize("dtype", [F16, B16, F32], ids=str)
@pytest.mark.parametrize("op", CONDITIONS)
def test_conditions_as_torch(op, dtype):
    x, y = numbers(256, dtype), numbers(256, dtype, seed=1)
    found = elementwise(op, torch.int8, x, y)
    assert torch.equal(found, CONDITIONS[op](x, y).to(torch.int8))


def test_bfloat16_and_a_python_number_stay_bfloat16():
    x = numbers(64, B16)
    wanted = (x * torch.tensor(0.1, dtype=B16)) + torch.tensor(2.0, dtype=B16)
    assert same(elementwise("scaled", B16, x), wanted)


FLOATS = {"fp16": F16, "bf16": B16, "fp32": F32, "fp64": F64}


@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("source", FLOATS)
def test_casts_between_floats_round_to_nearest_even(source, target):
    x = numbers(1024, FLOATS[source])
    # Triton converts fp16 and bf16 by way of float32; and torch's fp64 to bf16 rounds twice.
    wanted = x.to(FLOATS[target])
    assert same(cast(x, tl.dtype(target), FLOATS[target]), wanted)


def test_float32_to_bfloat16_rounds_ties_to_even_and_keeps_nan():
    bits = torch.arange(0, 2**16, dtype=I32)
    x = (bits << 16 | 0x8000).view(F32)
    for part in x.split(2**12):
        assert same(cast(part, tl.bfloat16, B16), part.to(B16))
    nan = torch.tensor([0x7F800001, -1, 0x7FFFFFFF, 0x7FBFFFFF], dtype=I32)
    assert cast(nan.view(F32), tl.bfloat16, B16).isnan().all()


def test_float64_to_bfloat16_rounds_once():
    # Just above the middle of 1 and the next bfloat16, and in float32 exactly in the middle.
    x = torch.tensor([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8], dtype=F64)
    assert cast(x, tl.bfloat16, B16).tolist() == [1 + 2**-7, 1]


def test_rounding_toward_zero():
    x = torch.tensor([1.999999, -1.999999, 1e6, NAN])
    found = cast(x, tl.float16, F16, "rtz")
    assert same(found, torch.tensor([2 - 2**-10, -2 + 2**-10, 65504, NAN], dtype=F16))
    found = cast(x[:2], tl.bfloat16, B16, "rtz")
    assert same(found, torch.tensor([2 - 2**-7, -2 + 2**-7], dtype=B16))


@pytest.mark.parametrize("source", [F16, B16, F32, F64], ids=str)
def test_float_to_integer_saturates(source):
    x = torch.tensor([1.75, -1.75, NAN, INF, -INF, 0.0, 2.0**40, 3.0]).to(source)
    top, of_nan = 2**31 - 1, 2**31 if source is F64 else 0
    assert cast(x, tl.int32, I32).tolist() == [1, -1, -of_nan, top, -top - 1, 0, top, 3]
    assert cast(x, tl.uint32, torch.uint32).tolist()[:5] == [1, 0, of_nan, 2**32 - 1, 0]
    assert cast(x, tl.int64, I64)[2] == -(2**63)


@pytest.mark.parametrize("source", [I32, I64, torch.uint8], ids=str)
def test_integer_to_bfloat16(source):
    x = torch.tensor([0, 1, 127, 255, 100, 77, 3, 2], dtype=source)
    if source is not torch.uint8:
        x = torch.cat([x * 65537, -x * 12345])
    assert same(cast(x, tl.bfloat16, B16), x.to(B16))


@pytest.mark.parametrize("source", [F16, B16, F32], ids=str)
@pytest.mark.parametrize(
    ("name", "dtype", "largest"),
    [
        ("fp8e5", torch.float8_e5m2, 57344),
        ("fp8e4nv", torch.float8_e4m3fn, 448),
        ("fp8e5b16", torch.float8_e5m2fnuz, 57344),
        ("fp8e4b8", torch.float8_e4m3fnuz, 240),
    ],
)
def test_float8_as_torch_and_saturating(name, dtype, largest, source):
    if name in ("fp8e5b16", "fp8e4b8") and versions.TRITON < (3, 8):
        pytest.skip("unknown to the interpreter of Triton before 3.8")

    def there_and_back(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        bits = computed(kernels.to_float8, torch.uint8, x, TO=tl.dtype(name))
        return bits, computed(kernels.from_float8, F32, bits, FROM=tl.dtype(name))

    exact = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    exact = exact[exact.isfinite()].unique()
    middles = (exact[1:] + exact[:-1]) / 2
    x = torch.cat([exact, middles, numbers(1024, F32)])[:1024].clamp(-largest, largest)
    x = x.to(source)
    bits, back = there_and_back(x)
    wanted = x.to(dtype)
    assert same(bits.view(dtype).float(), wanted.float())
    assert same(back, wanted.float())
    _, back = there_and_back(torch.tensor([1e9, -1e9, INF, NAN]))
    assert same(back, torch.tensor([largest, -largest, largest, NAN], dtype=F32))


@pytest.mark.parametrize("dtype", [F16, B16, F32, F64], ids=str)
def test_fma_rounds_once(dtype):
    """It is nearer to the exact value, which a longdouble holds, than any other number is."""
    bits = {F16: 10, B16: 7, F32: 23, F64: 30}[dtype]
    x, y = (1 + half.double() / 2**bits for half in integers(0, 2**bits, 2, 512, seed=3))
    x, y = x.to(dtype), y.to(dtype)
    z = (-x.double() * y.double()).to(dtype)
    z[::2] = 2.0 ** -(2 * bits)
    out = elementwise("fma", dtype, x, y, z)
    exact = x.double().numpy().astype(np.longdouble) * y.double().numpy() + z.double().numpy()
    if dtype is F64:
        assert np.array_equal(out.numpy(), exact.astype(np.float64))
    else:
        error = np.abs(out.double().numpy() - exact)
        for limit in (INF, -INF):
            other = torch.nextafter(out, torch.full_like(out, limit)).double().numpy()
            assert (error <= np.abs(other - exact)).all()


@pytest.mark.parametrize("dtype", [B16, F32, F64], ids=str)
def test_fma_is_not_rounded_to_the_middle_first(dtype):
    """x * y lies in the middle of two numbers, and z is too small for any sum but the exact one."""
    bits = {B16: 7, F32: 23, F64: 52}[dtype]
    x, y = (torch.full((2,), 1 + 2.0**-n, dtype=dtype) for n in (bits // 2, bits - bits // 2 + 1))
    out = elementwise("fma", dtype, x, y, torch.tensor([2.0**-120, -(2.0**-120)], dtype=dtype))
    assert out[0] - out[1] == 2.0**-bits


@triton.jit
def _reduce_kernel(
    x_ptr, out_ptr, OP: tl.constexpr, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr
):
    rows = tl.arange(0, M)
    columns = tl.arange(0, N)
    x = tl.load(x_ptr + rows[:, None] * N + columns[None, :])
    tl.store(out_ptr + (columns if AXIS == 0 else rows), getattr(tl, OP)(x, axis=AXIS))


def reduced(op: str, x: torch.Tensor, axis: int, dtype: torch.dtype) -> torch.Tensor:
    out = torch.zeros(x.shape[1 - axis], dtype=dtype)
    _reduce_kernel[(1,)](x, out, op, axis, *x.shape)
    return out


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [F16, B16, F32, I32, I64], ids=str)
@pytest.mark.parametrize(
    ("op", "reference"),
    [("sum", torch.sum), ("max", torch.amax), ("min", torch.amin)],
    ids=["sum", "max", "min"],
)
def test_reductions_as_torch(op, reference, dtype, axis):
    x = integers(-9, 9, 16, 8, seed=5).to(dtype)
    assert torch.equal(reduced(op, x, axis, dtype), reference(x, dim=axis).to(dtype))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [F16, B16, F32, I32, I64], ids=str)
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_the_first_of_equal_values_wins(op, dtype, axis):
    x = integers(-9, 9, 16, 8, seed=5).to(dtype)
    wanted = torch.from_numpy(getattr(np, op)(x.double().numpy(), axis=axis))
    assert torch.equal(reduced(op, x, axis, I32), wanted.to(I32))


@pytest.mark.parametrize(("dtype", "limit"), [(F16, 2048), (B16, 256)], ids=["fp16", "bf16"])
def test_sum_of_small_floats_is_rounded_at_each_step(dtype, limit):
    x = torch.ones(1, 4 * limit, dtype=dtype)
    assert reduced("sum", x, 1, dtype).item() == 4 * limit
    x[0, 0] = limit
    # In float32 it would be 5 * limit - 1, and one by one it would stay at limit.
    assert reduced("sum", x, 1, dtype).item() == 5 * limit
    x[0, 1:] = 0
    x[0, 2 * limit :: limit] = 1
    assert reduced("sum", x, 1, dtype).item() in (limit, limit + 2)


@pytest.mark.parametrize(("op", "wanted"), [("max", 2.0), ("min", -3.0)])
def test_extrema_ignore_nan(op, wanted):
    x = torch.tensor([[NAN, 1, 2, -3], [NAN, NAN, NAN, NAN]])
    assert same(reduced(op, x, 1, F32), torch.tensor([wanted, NAN]))


def test_argmax_takes_nan_for_the_larger_on_its_right_only():
    x = torch.tensor([[NAN, 1, 2, -3], [5, 1, 2, NAN]])
    assert reduced("argmax", x, 1, I32).tolist() == [2, 3]


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


SCANS = {
    "cumsum": lambda x: x.cumsum(0, dtype=x.dtype),
    "reverse": lambda x: x.flip(0).cumsum(0, dtype=x.dtype).flip(0),
    "cumprod": lambda x: x.cumprod(0, dtype=x.dtype),
    "sort": lambda x: x.sort().values,
}


@pytest.mark.parametrize("dtype", [F16, B16, F32, I32], ids=str)
@pytest.mark.parametrize("op", SCANS)
def test_scans_as_torch(op, dtype):
    x = integers(-3, 4, 64, seed=2).to(dtype)
    assert torch.equal(computed(kernels.scan, dtype, x, OP=op), SCANS[op](x))


def test_scan_keeps_the_order_of_its_operands():
    x, y = integers(-1, 2, 2, 32, seed=2).float()
    state, wanted = 0.0, []
    for factor, term in zip(x.tolist(), y.tolist(), strict=True):
        state = state * factor + term
        wanted.append(state)
    assert computed(kernels.scan, F32, x, y, OP="linear").tolist() == wanted


def dot(a, b, precision="ieee", out=tl.float32, dtype=F32, acc=None) -> torch.Tensor:
    constants = {"B": len(a), "PRECISION": precision, "OUT": out, "ADD_Z": acc is not None}
    return computed(kernels.dot, dtype, a, b, acc, **constants).view(a.shape)


@pytest.mark.parametrize("dtype", [F16, B16, F32], ids=str)
def test_dot_sums_in_float32(dtype):
    a, b, acc = torch.randn(3, 64, 64, generator=torch.Generator().manual_seed(1))
    a, b = a.to(dtype), b.to(dtype)
    wanted = a.double() @ b.double() + acc
    assert (dot(a, b, acc=acc) - wanted).abs().max() < 2e-5


@pytest.mark.parametrize(
    ("precision", "worst", "best"),
    [("ieee", 1e-6, 0), ("tf32x3", 1e-6, 0), ("tf32", 2e-3, 1e-4), ("bf16x3", 2e-4, 1e-7)],
)
def test_dot_of_float32_in_each_precision(precision, worst, best):
    x = 1 + torch.rand(32, 32, generator=torch.Generator().manual_seed(1))
    error = ((dot(x, torch.eye(32), precision) - x) / x).abs().max()
    assert best <= error <= worst


def test_tf32_is_the_default_and_truncates():
    x = torch.full((16, 16), 1 + 2**-10 + 2**-11 + 2**-12)
    assert (dot(x, torch.eye(16), None) == 1 + 2**-10).all()
    assert dot(torch.full((16, 16), NAN), torch.eye(16), None).isnan().all()


def test_dot_in_float16_loses_small_terms():
    a, b = torch.ones(2, 64, 64, dtype=F16)
    a[:, 0] = 2048
    a[:, 1:] = 0.0625
    # The first sixteen products are 2048.94, and each sixteen after that make 1.
    assert (dot(a, b, out=tl.float16, dtype=F16) == 2048).all()
    assert (dot(a, b) == 2048 + 63 / 16).all()


def test_dot_of_int8_is_exact():
    a, b = integers(-128, 128, 2, 64, 64).to(torch.int8)
    assert torch.equal(dot(a, b, out=tl.int32, dtype=I32), (a.double() @ b.double()).int())


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_dot_of_float8(dtype):
    a, b = torch.randn(2, 32, 32, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert (dot(a, b) - a.double() @ b.double()).abs().max() < 1e-4


@triton.jit
def _histogram_kernel(x_ptr, out_ptr, N: tl.constexpr, BINS: tl.constexpr, limit):
    offs = tl.arange(0, N)
    counts = tl.histogram(tl.load(x_ptr + offs), BINS, mask=offs < limit)
    tl.store(out_ptr + tl.arange(0, BINS), counts)


@pytest.mark.parametrize(
    ("values", "dtype", "limit", "counts"),
    [
        ([0, 3, 3, 4, 7, -1, 1, 3], I32, 7, [1, 1, 0, 2]),
        ([0, 3, 3, 2, 2, 2, 1, 3], I64, 8, [1, 1, 3, 3]),
    ],
    ids=["out of range or masked off", "int64 gives int32"],
)
def test_histogram_counts_what_is_in_range(values, dtype, limit, counts):
    if dtype is I64 and versions.TRITON >= (3, 9):
        pytest.skip("Triton 3.9 takes 32-bit integers only")
    out = torch.full((4,), -1, dtype=I32)
    _histogram_kernel[(1,)](torch.tensor(values, dtype=dtype), out, 8, 4, limit)
    assert out.tolist() == counts


@pytest.mark.parametrize("dtype", [I32, I64], ids=str)
def test_integer_division_truncates(dtype):
    x = torch.tensor([7, -7, 7, -7, 6, -6, 0, 1], dtype=dtype)
    y = torch.tensor([2, 2, -2, -2, 3, 3, 5, -1], dtype=dtype)
    wanted = torch.div(x, y, rounding_mode="trunc")
    assert torch.equal(elementwise("floordiv", dtype, x, y), wanted)
    assert torch.equal(elementwise("mod", dtype, x, y), torch.fmod(x, y))


@pytest.mark.parametrize("dtype", [I32, torch.uint32], ids=str)
@pytest.mark.parametrize("op", ["floordiv", "mod"])
def test_integer_division_by_zero_sets_all_bits(op, dtype):
    x = torch.tensor([7, -7, 0, 1], dtype=I32).view(dtype)
    assert elementwise(op, dtype, x, torch.zeros_like(x)).view(I32).tolist() == [-1] * 4


SIGNED = {
    "add": [-(2**31), -(2**31) + 1, 3, 7],
    "shift_right": [2**30 - 1, -(2**30), -1, 1],
    "umulhi": [0, 0, 3, 0],
}


@pytest.mark.parametrize("op", SIGNED)
def test_signed_integers(op):
    x = torch.tensor([2**31 - 1, -(2**31), -1, 5], dtype=I32)
    y = torch.tensor([1, 1, 4, 2], dtype=I32)
    assert elementwise(op, I32, x, y).tolist() == SIGNED[op]
    assert x.tolist() == [2**31 - 1, -(2**31), -1, 5]


def test_inverting_unsigned_integers():
    x = torch.tensor([0, 1, 2**32 - 1, 5], dtype=torch.uint32)
    wanted = [2**32 - 1, 2**32 - 2, 0, 2**32 - 6]
    assert elementwise("invert", torch.uint32, x).tolist() == wanted


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


def test_loops_count_in_tensors():
    out = torch.zeros(1, dtype=I64)
    _loop_kernel[(1,)](out, 7, 3)
    assert out.item() == 2 * (0 + 3 + 6) + 1 + 100 * 21


@triton.jit
def _debugged_kernel(out_ptr, N):
    if int(tl.program_id(0)) == 1:
        tl.store(out_ptr, int(N) + 1)


def test_scalars_convert_to_python_numbers_for_debugging():
    out = torch.zeros(1, dtype=I32)
    _debugged_kernel[(2,)](out, 4)
    assert out.item() == 5


@triton.jit
def _arguments_kernel(x_ptr, out_ptr, alpha, flag, missing):
    value = tl.load(x_ptr) * alpha
    if flag and missing is None:
        value += 1
    tl.store(out_ptr, value)


@pytest.mark.parametrize("dtype", [F16, B16], ids=str)
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


@pytest.mark.parametrize("op", ["tile", "choice"])
def test_condition_must_be_a_single_value(op):
    x, out = torch.tensor([0.0, 1, 2, 3]), torch.zeros(1)
    assert_raises(ValueError, "a tile of shape [4]", _condition_kernel, x, out, op)


def test_condition_on_a_scalar():
    out = torch.zeros(1)
    _condition_kernel[(1,)](torch.tensor([0.0, 1, 2, 3]), out, "scalar")
    assert out.item() == 1


HALF = tl.constexpr(0.5)


@triton.jit
def _constant_on_the_left_kernel(x_ptr, out_ptr, OP: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    if OP == "exp":
        y = tl.exp(HALF * x)
    elif OP == "where":
        y = tl.where(HALF < x, HALF - x, HALF / x)  # noqa: SIM300
    elif OP == "constants":
        y = (HALF + HALF) * (3 - HALF) * x
    tl.store(out_ptr + tl.arange(0, 4), y)


@pytest.mark.parametrize(
    ("op", "truth"),
    [
        ("exp", lambda x: torch.exp(0.5 * x)),
        ("where", lambda x: torch.where(x > 0.5, 0.5 - x, 0.5 / x)),
        ("constants", lambda x: 2.5 * x),
    ],
)
def test_global_constant_on_the_left_of_a_tile(op, truth):
    x, out = torch.tensor([0.25, 1, 2, 4]), torch.zeros(4)
    _constant_on_the_left_kernel[(1,)](x, out, op)
    torch.testing.assert_close(out, truth(x))


@triton.jit
def _largest(dtype: tl.constexpr):
    element = dtype.value
    if element.is_floating():
        value: tl.constexpr = float("inf")
    else:
        value: tl.constexpr = 2 ** (element.int_bitwidth - 1) - 1
    return value


@triton.jit
def _constant_value_kernel(x_ptr, out_ptr, n, N: tl.constexpr):
    half: tl.constexpr = N // 2
    lanes = tl.arange(0, N)
    x = tl.load(x_ptr + lanes, mask=lanes < half.value, other=_largest(x_ptr.dtype.element_ty))
    tl.store(out_ptr + lanes, x)
    if n > 0:
        tl.store(out_ptr, HALF.value + n.value)


@pytest.mark.parametrize(("dtype", "largest"), [(F32, INF), (I32, 2**31 - 1)], ids=str)
def test_value_of_a_constexpr(dtype, largest):
    x, out = torch.zeros(4, dtype=dtype), torch.zeros(4, dtype=dtype)
    _constant_value_kernel[(1,)](x, out, 0, 4)
    assert out.tolist() == [0, 0, largest, largest]
    # An argument of the launch is a number on the GPU, and no constexpr.
    assert_raises(AttributeError, "value", _constant_value_kernel, x, out, 2, 4)


@pytest.mark.parametrize(("op", "failing"), [("assert", 0), ("device_assert", 2)])
def test_asserts_look_at_every_element(op, failing):
    x, out = torch.tensor([1.0, 1, 2, 3]), torch.zeros(1)
    if op == "device_assert":
        x[0] = 0  # masked off
    _condition_kernel[(1,)](x, out, op)
    x[failing] = -1
    assert_raises(AssertionError, "x must be positive", _condition_kernel, x, out, op)


def test_nothing_warns():
    x = torch.tensor([1e30, INF, 0.0, NAN, -1.0, 1e-40, 3.4e38, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for op in ("add", "sub", "mul", "div", "where_greater"):
            elementwise(op, F32, x, x.flip(0))
        for op in ("exp", "log", "sqrt", "rsqrt", "sigmoid", "erf"):
            computed(kernels.function, F32, x, OP=op)
        cast(x, tl.int32, I32)
        cast(x, tl.float16, F16)
        cast(x, tl.bfloat16, B16)
        elementwise("floordiv", I32, torch.ones(4).int(), torch.zeros(4).int())


def test_erf_to_half_a_unit_of_float32():
    special = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0])
    x = torch.cat([torch.linspace(-7, 7, 4000), torch.logspace(-30, 0, 90), special])
    found = computed(kernels.function, F32, x, OP="erf")
    truth = torch.erf(x.double())
    unit = torch.nextafter(truth.float().abs(), torch.tensor(INF)) - truth.float().abs()
    assert same(found[-6:], truth[-6:].float())
    assert ((found - truth).abs()[:-6] <= 0.51 * unit.double()[:-6]).all()


def assert_near(found: torch.Tensor, wanted: torch.Tensor) -> None:
    rtol = 2e-6 if found.dtype is F32 else 1e-13
    wanted = wanted.to(found.dtype)
    torch.testing.assert_close(found, wanted, rtol=rtol, atol=rtol * 1e-2, equal_nan=True)


# The argument that each is given, and what it must be near.
LIBDEVICE = {
    "asin": (lambda x: x, torch.asin),
    "acosh": (lambda x: x + 1.5, torch.acosh),
    "erfinv": (lambda x: x, torch.erfinv),
    "erfc": (lambda x: 9 * x, torch.erfc),
    "lgamma": (lambda x: x + 2, torch.lgamma),
    "tgamma": (lambda x: x + 2, lambda x: torch.lgamma(x).exp()),
    "tanh": (lambda x: x, torch.tanh),
    "round": (lambda x: 5 * x, lambda x: x.abs().add(0.5).floor().copysign(x)),
    "isnan": (lambda x: x, torch.isnan),
    "popc": (
        lambda x: (x * 1000).to(I32),
        lambda x: torch.tensor([(int(v) & (2**32 - 1)).bit_count() for v in x.tolist()]),
    ),
}


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("op", LIBDEVICE)
def test_libdevice_as_torch(op, dtype):
    argument, reference = LIBDEVICE[op]
    x = argument(torch.linspace(-1, 1, 256, dtype=dtype))
    found = computed(kernels.libdevice_function, dtype, x, OP=op, ARITY=1)
    assert_near(found, reference(x.double()))


@triton.jit
def _libdevice_kernel(x_ptr, y_ptr, z_ptr, out_ptr, N: tl.constexpr, OP: tl.constexpr):
    offs = tl.arange(0, N)
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    if OP == "atan2":
        out = atan2(x, y)
    elif OP == "hypot":
        out = hypot(x, y)
    elif OP == "pow":
        out = libdevice.pow(x + 2, y)
    elif OP == "pow_of_int":
        out = libdevice.pow(x, 3)
    elif OP == "scalar":
        out = x + libdevice.sqrt(2.0)
    elif OP == "amd":
        out = fast_tanhf(x)
    elif OP == "assembly":
        out = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], tl.float32, True, 1)
    tl.store(out_ptr + offs, out)


CALLED_BY_NAME = {
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "pow": lambda x, y: torch.pow(x + 2, y),
    "pow_of_int": lambda x, y: x**3,
    "scalar": lambda x, y: x + 2**0.5,
}


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("op", CALLED_BY_NAME)
def test_libdevice_called_by_name_and_with_numbers(op, dtype):
    if op == "scalar" and dtype is F64:
        pytest.skip("a Python float is float32 to libdevice")
    x, y = torch.linspace(-1, 1, 256, dtype=dtype), torch.linspace(3, -3, 256, dtype=dtype)
    # The others compute an argument in the kernel, in the type.
    wide = (x.double(), y.double()) if op in ("atan2", "hypot") else (x, y)
    assert_near(computed(_libdevice_kernel, dtype, x, y, OP=op), CALLED_BY_NAME[op](*wide))


def test_fast_libdevice_functions():
    x = torch.linspace(-1, 1, 8)
    found = computed(kernels.libdevice_function, F32, x, x + 3, OP="fast_dividef", ARITY=2)
    torch.testing.assert_close(found, x / (x + 3))


def test_what_the_interpreter_lacks_is_named():
    def check(kind: type[Exception], message: str, kernel, *constants, dtype=F32):
        x = torch.linspace(-1, 1, 8, dtype=dtype)
        assert_raises(kind, message, kernel, x, x, x, torch.zeros(8), 8, *constants)

    check(NotImplementedError, "__nv_j0f", kernels.libdevice_function, "j0", 1)
    check(NotImplementedError, "fast_tanhf", _libdevice_kernel, "amd")
    check(NotImplementedError, "tl.inline_asm_elementwise needs", _libdevice_kernel, "assembly")
    message = "libdevice.sin does not take fp16: convert first"
    check(TypeError, message, kernels.libdevice_function, "sin", 1, dtype=F16)


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


@pytest.mark.parametrize("op", ["argument", "constant", "scalar", "sum", "loop", "bytes"])
def test_overflow_is_an_error_inside_overflow_errors(op):
    out = torch.zeros(16, dtype=I64)
    message = "does not fit uint8" if op == "bytes" else "does not fit int32"
    with overflow.overflow_errors():
        assert_raises(overflow.IntegerOverflow, message, _offset_kernel, out, 65536, op)
    _offset_kernel[(1,)](out, 65536, op)
    assert out.abs().max() < 2**31


@pytest.mark.parametrize("op", ["wide", "random", "unmarked"])
def test_no_error_without_overflow_or_where_it_is_meant(op):
    out = torch.zeros(16, dtype=I64)
    with overflow.overflow_errors():
        _offset_kernel[(1,)](out, 65536, op)
    if op == "wide":
        assert out[-1] == (65530 + 15) * 65536


def test_overflow_message_names_the_numbers():
    out = torch.zeros(16, dtype=I64)
    with overflow.overflow_errors():
        message = assert_raises(
            overflow.IntegerOverflow, "int32", _offset_kernel, out, 65536, "argument"
        )
    with overflow.overflow_errors(), pytest.raises(Wrong) as caught:
        _offset_kernel[(1,)](out, 65536, "argument")
    wrong = caught.value.fault
    assert (wrong.kind, wrong.numbers) == ("offset-overflow", {"lanes": 16, "of": 16})
    assert wrong.place.source == "offset = offs * stride"
    assert message.startswith(
        "65530 * 65536 = 4294574080 does not fit int32: 16 of 16 values overflow\n"
        "hint: make an operand of this int64 before, as in pid = tl.program_id(0).to(tl.int64): "
    )


own_cast = tl.cast


@triton.jit
def _cast_by_a_name_of_its_own(x, dtype):
    return own_cast(x, dtype)


@triton.jit
def _alias_kernel(x_ptr, y_ptr):
    x = _cast_by_a_name_of_its_own(own_cast(tl.load(x_ptr), tl.int32), tl.float32)
    tl.store(y_ptr, x)


def test_functions_of_triton_have_names_of_the_learner():
    y = torch.zeros(1)
    _alias_kernel[(1,)](torch.tensor([2.5]), y)
    assert y.item() == 2.0


@triton.jit
def divide_kernel(x_ptr, y_ptr, out_ptr, HOW: tl.constexpr):
    offs = tl.arange(0, 1024)
    x, y = tl.load(x_ptr + offs), tl.load(y_ptr + offs)
    if HOW == "rounded":
        out = tl.div_rn(x, y)
    elif HOW == "exp":
        out = tl.exp(x)
    else:
        out = x / y
    tl.store(out_ptr + offs, out)


@pytest.mark.parametrize("how", ["rounded", "slash", "exp"])
@pytest.mark.parametrize("approximate", [False, True])
def test_what_a_gpu_approximates_differs_in_the_last_bits(how, approximate):
    x, y, out = torch.randn(1024), torch.randn(1024), torch.empty(1024)
    with Watch(poison=approximate):
        divide_kernel[(1,)](x, y, out, how)
    exact = torch.exp(x.double()) if how == "exp" else x.double() / y.double()
    error = (out.double() - exact).abs() / (exact.float().abs() * 2.0**-23)
    assert error.max() < (8 if how == "exp" else 2)
    if how != "exp":
        assert torch.equal(out, exact.float()) is not (approximate and how == "slash")


def test_an_approximate_division_leaves_what_has_one_result():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([1.0, 0.0, inf, nan, 1e-45, 3e38, -1.0, 8.0] * 128)
    y = torch.tensor([0.0, 0.0, 2.0, 1.0, 1.0, 1e-10, inf, 2.0] * 128)
    out = torch.empty(1024)
    with Watch(poison=True):
        divide_kernel[(1,)](x, y, out, "slash")
    assert torch.equal(out.nan_to_num(7.0), (x / y).nan_to_num(7.0))
