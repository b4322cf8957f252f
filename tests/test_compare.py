"""kernelgauge.numerics.compare: which elements are right, and which are wrong."""

from __future__ import annotations

import math

import pytest
import torch

from kernelgauge.numerics import compare as numerics
from kernelgauge.numerics.compare import compare
from kernelgauge.words import say

HALF = (torch.float16, torch.bfloat16)
FLOATS = (*HALF, torch.float32, torch.float64)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
every_float = pytest.mark.parametrize("dtype", FLOATS)


@pytest.fixture(params=DEVICES)
def randn(request):
    generator = torch.Generator().manual_seed(0)

    def make(*shape):
        return torch.randn(shape, generator=generator).to(request.param)

    return make


@pytest.fixture
def truth(randn):
    return randn(8, 64).double()


def changed(tensor, index, value):
    tensor = tensor.clone()
    tensor[index] = value
    return tensor


def wrong_rows(*compared):
    """Return the rows in which anything is wrong."""
    return compare(*compared).mask.any(1).nonzero()[:, 0].tolist()


@every_float
def test_the_rounded_truth_is_right(randn, dtype):
    truth = randn(33, 65).double() / 3
    assert compare(truth.to(dtype), truth, truth.to(dtype)) is None


@every_float
@pytest.mark.parametrize("shape", [(), (1,), (50,), (4, 3), (2, 3, 40, 16)])
def test_zeros_never_pass(randn, dtype, shape):
    truth = randn(*shape).double()
    mismatch = compare(torch.zeros_like(truth, dtype=dtype), truth, truth.to(dtype))
    assert mismatch.count == truth.numel()


@every_float
def test_a_factor_of_1_01_fails(randn, dtype):
    truth = randn(33, 65).double() / 3
    assert compare((truth * 1.01).to(dtype), truth, truth.to(dtype))


def test_a_factor_of_1_01_drifts_in_bfloat16_beside_a_careless_yardstick(randn):
    truth = randn(64, 512).double()
    step = numerics.spacing(truth.abs(), torch.bfloat16)
    careless = truth + 2 * step * randn(64, 512).double().clamp(-1, 1)
    mismatch = compare((truth * 1.01).bfloat16(), truth, careless)
    assert mismatch.drift > 0.55
    assert mismatch.count > truth.numel() / 4
    assert "too large on average" in say(mismatch.notes()[0])
    assert compare(truth.bfloat16(), truth, careless) is None
    assert compare((truth * 1.01).bfloat16(), truth, truth * 1.01) is None


@every_float
def test_large_rows_do_not_excuse_a_tiny_one(truth, dtype):
    truth[3] *= 1e-4
    assert wrong_rows(changed(truth.to(dtype), 3, 0), truth, truth.to(dtype)) == [3]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_tiny_element_of_a_1d_result_is_judged_by_its_magnitude(randn, dtype):
    truth = changed(randn(100).double(), 7, 1e-12)
    got = changed(truth.to(dtype), 7, 0)
    assert compare(got, truth, truth.to(dtype), magnitude=truth.abs()).worst == (7,)


def test_large_elements_of_a_softmax_do_not_excuse_small_ones(randn):
    truth = (3 * randn(4, 256)).double().softmax(1)
    careless = truth * (1 + 1e-2 * randn(4, 256).double())
    got = truth.half().where(truth > 1e-4, 0)
    assert compare(got, truth, careless).count > 50
    assert compare((truth * 1.002).half(), truth, careless) is None


@every_float
def test_noise_in_a_row_that_cancels_to_zero_is_right_and_more_is_wrong(randn, dtype):
    truth = changed(randn(8, 64).double(), 0, 0)
    yardstick = changed(truth + 1e-2 * randn(8, 64).double(), 0, 0)
    assert compare(changed(truth, 0, 1e-2).to(dtype), truth, yardstick) is None
    assert compare(changed(truth, 0, 0.3).to(dtype), truth, yardstick).mask[0].all()
    noise = 1e-15 if dtype == torch.float64 else 1e-6
    assert compare(changed(truth, 0, noise).to(dtype), truth, truth) is None


def test_a_zero_element_allows_no_more_than_its_row(truth):
    truth[2, 5] = 0
    got = changed(truth.float(), (2, 5), 1e-3)
    assert compare(got, truth, truth.float()).worst == (2, 5)


def test_a_row_in_which_the_yardstick_is_exact_by_luck_is_judged_by_the_others(randn, truth):
    yardstick = truth + 1e-3 * randn(8, 64).double()
    yardstick[4] = truth[4]
    got = (truth + 1e-3 * randn(8, 64).double()).float()
    assert compare(got, truth, yardstick) is None


def test_a_careless_row_of_the_yardstick_excuses_no_other(truth):
    got = truth.float()
    got[1] += 0.01
    assert wrong_rows(got, truth, changed(truth, 4, truth[4] + 1)) == [1]


def test_a_yardstick_that_overflowed_shows_nothing(truth):
    yardstick = changed(changed(truth.half(), 0, math.inf), 1, math.nan)
    got = truth.half()
    assert compare(got, truth, yardstick) is None
    got[0] *= 1.05
    assert wrong_rows(got, truth, yardstick) == [0]


def test_the_worst_of_several_yardsticks_counts(truth):
    got = (truth + 1e-3).float()
    assert compare(got, truth, truth)
    assert compare(got, truth, [truth, truth + 1e-3]) is None


def test_float64_summed_in_float32_fails(randn):
    x = randn(16, 1000).double()
    assert compare(x.float().sum(1).double(), x.sum(1), x.sum(1))
    assert compare(x.flip(1).cumsum(1)[:, -1], x.sum(1), x.sum(1)) is None


def test_tf32_passes_only_if_the_spec_allows_it(randn):
    a, b = randn(32, 256), randn(256, 32)
    truth, yardstick = a.double() @ b.double(), a @ b

    def product_of_factors_cut_by(bits):
        cut = [(x.view(torch.int32) & -(1 << bits)).view(torch.float32).double() for x in (a, b)]
        return (cut[0] @ cut[1]).float()

    got = product_of_factors_cut_by(13)
    magnitude = (a.double() ** 2 @ b.double() ** 2).sqrt()
    assert compare(got, truth, yardstick, magnitude=magnitude)
    allowed = {"magnitude": magnitude, "input_precision": "tf32"}
    assert compare(got, truth, yardstick, **allowed) is None
    assert compare(got, truth, yardstick, input_precision="tf32") is None
    assert compare(product_of_factors_cut_by(16), truth, yardstick, **allowed)
    with pytest.raises(ValueError, match="input_precision"):
        compare(got, truth, yardstick, input_precision="ieee")


def test_sums_of_8_bit_floats_pass_only_if_the_spec_allows_them(randn):
    a, b = (randn(32, 4096).to(torch.float8_e4m3fn).double() for _ in range(2))
    truth = a @ b.mT
    magnitude = (a**2 @ b.mT**2).sqrt()

    def off_by(part):
        """Errors of this size, in proportion to the terms, of a kernel whose result is exact."""
        return (truth + part * magnitude * randn(32, 32).sign()).float()

    # What an H200 loses: see FP8_NOISE.
    got, yardstick = off_by(6.9e-4), truth.float()
    assert compare(got, truth, yardstick, magnitude=magnitude)
    allowed = {"magnitude": magnitude, "input_precision": "fp8"}
    assert compare(got, truth, yardstick, **allowed) is None
    assert compare(got.bfloat16(), truth, truth.bfloat16(), **allowed) is None
    assert compare(off_by(2.0**-7), truth, yardstick, **allowed)


NONFINITE = {
    "NaN": (math.nan, [0.0, math.inf], math.nan),
    "-inf": (-math.inf, [math.inf, math.nan, "the least number", 0.0], math.inf),
}


@every_float
@pytest.mark.parametrize(("expected", "wrong", "stray"), NONFINITE.values(), ids=NONFINITE)
def test_nan_and_inf_must_be_where_the_truth_has_them(randn, dtype, expected, wrong, stray):
    truth = changed(randn(4, 32).double(), (1, 2), expected)
    yardstick = truth.to(dtype)
    assert compare(yardstick, truth, yardstick) is None
    for place, value in (*(((1, 2), value) for value in wrong), ((3, 4), stray)):
        value = torch.finfo(dtype).min if value == "the least number" else value
        mismatch = compare(changed(yardstick, place, value), truth, yardstick)
        assert mismatch.worst == place
        assert mismatch.count == 1


@pytest.mark.parametrize(
    ("truth", "right", "wrong"),
    [
        (70000.0, [math.inf], [65504.0, -math.inf, 0.0]),
        (-1e30, [-math.inf], [math.inf, -65504.0]),
        (65519.0, [math.inf, 65504.0], [-math.inf, 65000.0]),
        (65530.0, [math.inf, 65504.0], [math.nan, 60000.0]),
        (65480.0, [65472.0, 65504.0], [math.inf]),
    ],
)
def test_the_edge_of_the_range_of_float16(truth, right, wrong):
    true = torch.tensor([truth, 1.0], dtype=torch.float64)
    for value in right + wrong:
        got = torch.tensor([value, 1.0], dtype=torch.float16)
        assert (compare(got, true, true) is None) == (value in right), value


@pytest.mark.parametrize(
    ("dtype", "value", "beside", "right"),
    [
        (torch.float32, 1e-40, 1e-37, True),
        (torch.float32, 1e-35, 1e-37, False),
        (torch.bfloat16, 1e-40, 1e-37, True),
        (torch.bfloat16, 1e-35, 1e-37, False),
        (torch.float16, 3e-6, 1.0, False),
    ],
)
def test_subnormal_numbers_may_be_flushed_but_not_in_float16(dtype, value, beside, right):
    truth = torch.tensor([value, beside], dtype=torch.float64)
    got = torch.tensor([0.0, beside], dtype=dtype)
    assert (compare(got, truth, truth.to(dtype), magnitude=truth) is None) is right


def test_integers_and_bool_are_exact():
    truth = torch.tensor([2**53 + 1, 5, -3])
    assert compare(truth.clone(), truth, None) is None
    mismatch = compare(truth + torch.tensor([1, 0, 0]), truth, None)
    assert (mismatch.count, mismatch.worst, mismatch.exact) == (1, (0,), True)
    flags = torch.tensor([True, False])
    assert compare(flags, flags, None) is None
    assert compare(flags, ~flags, None).count == 2


def test_integers_may_be_off_by_one_on_request():
    truth = torch.tensor([100, 5, -3])
    near, far = truth + torch.tensor([1, -1, 0]), truth + torch.tensor([2, 0, 0])
    assert compare(near.to(torch.int8), truth, truth, exact=False) is None
    assert compare(far.to(torch.int8), truth, truth, exact=False).worst == (0,)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64])
def test_copies_are_bit_for_bit(dtype):
    values = torch.tensor([1.5, 0.0, math.nan, -math.inf], dtype=dtype)
    wide = values.to(torch.complex128 if dtype.is_complex else torch.float64)
    assert compare(values.clone(), wide, None, exact=True) is None
    for place, value in ((0, 1.5078125), (1, -0.0), (2, 0.0), (3, math.inf)):
        assert compare(changed(values, place, value), wide, None, exact=True).worst == (place,)


def test_any_nan_is_nan_in_a_copy():
    nan = torch.tensor([0x7FC00001, -1], dtype=torch.int32).view(torch.float32)
    assert compare(nan, torch.full((2,), math.nan, dtype=torch.float64), None, exact=True) is None


def test_a_row_of_float16_may_hold_the_float32_noise_of_its_steps(truth):
    truth[:, 3] = 1e-6
    got = truth.half()
    got[2, 3] += 2e-7
    assert compare(got, truth, truth.half(), magnitude=truth.abs()) is None
    got[2, 3] = 3e-6
    assert compare(got, truth, truth.half(), magnitude=truth.abs()).worst == (2, 3)


def test_one_rounding_can_be_demanded():
    truth = torch.tensor([1 / 3], dtype=torch.float64)
    assert compare(truth.float(), truth, None, exact=True) is None
    assert compare(torch.nextafter(truth.float(), torch.ones(1)), truth, None, exact=True)


def test_complex_parts_are_judged_by_the_size_of_the_number(randn):
    x, y = (torch.view_as_complex(randn(500, 2)) for _ in range(2))
    truth = x.to(torch.complex128) * y.to(torch.complex128)
    a, b, c, d = x.real, x.imag, y.real, y.imag
    three_products = torch.complex(a * c - b * d, (a + b) * (c + d) - a * c - b * d)
    assert compare(three_products, truth, x * y) is None
    for wrong in (x * y.conj(), x * y * 1.0001, torch.complex(a * c, (x * y).imag), 0 * x):
        assert compare(wrong, truth, x * y).mask.shape == truth.shape
    only_one_part = changed(x * y, 9, (x * y)[9].conj())
    assert compare(only_one_part, truth, x * y).worst == (9,)


def test_nothing_to_compare():
    empty = torch.empty(0, 5)
    assert compare(empty, empty.double(), empty) is None


def test_strides_do_not_matter(randn):
    truth = randn(40, 20).double().T
    got = truth.float()
    assert compare(got, truth, truth.float()) is None
    got = got.contiguous()
    got[3, 4] += 1
    assert compare(got, truth, truth.float()).worst == (3, 4)


def test_the_message_says_how_many_which_and_how_far():
    truth = torch.linspace(1, 2, 64, dtype=torch.float64).reshape(8, 8)
    got = truth.half()
    got[2, 3] += 0.25
    head, line = map(say, compare(got, truth, truth.half(), name="out").notes())
    assert head == "out is wrong in 1 of 64 elements"
    assert line.startswith("worst at [2, 3]: got 1.552, expected 1.302; off by 0.25 (2.6e+02 ulps")
    assert "allowed 0.000" in line


@pytest.mark.parametrize(
    ("got", "expected", "words"),
    [
        (math.nan, 1.0, "got nan, expected 1"),
        (1.0, 1.00001, "got 1, expected 1.00001"),
        (-0.0, 0.0, "got -0, expected 0"),
    ],
)
def test_the_message_shows_numbers_that_differ(got, expected, words):
    got = torch.tensor([got, 2.0])
    expected = torch.tensor([expected, 2.0], dtype=torch.float64)
    assert words in say(compare(got, expected, None, exact=True).notes()[1])


@every_float
def test_spacing_is_that_of_the_dtype(dtype):
    info = torch.finfo(dtype)
    sizes = torch.tensor([0.0, 1.0, 1.999, 2.0, info.smallest_normal], dtype=torch.float64)
    least = info.smallest_normal * info.eps
    expected = [least, info.eps, info.eps, 2 * info.eps, least]
    assert numerics.spacing(sizes, dtype).tolist() == expected
