"""judge.diagnosis.report: what is said of a wrong result, and what is not."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import gelu

from judge.diagnosis import report, symptoms
from judge.diagnosis.source import Source
from judge.diagnosis.wrong_result import Mistake
from judge.numerics import compare


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(shape, generator=seeded(seed))


X = randn(67, 131)
SOFTMAX = X.double().softmax(1)
A, B = randn(64, 256), randn(256, 96, seed=1)
PRODUCT = A.double() @ B.double()
LINE = randn(1000)
IMAGE = torch.view_as_complex(randn(300, 2))
SMALL = torch.randint(-4, 5, (48, 64), generator=seeded(0)).float()


def describe(got, truth, *, inputs=None, mistakes=(), exact=None, yardstick=None, **more):
    if yardstick is None:
        yardstick = truth.to(got.dtype)
    mismatch = compare.compare(got, truth, yardstick, exact=exact)
    return report.describe(got, truth, mismatch, inputs=inputs or {}, mistakes=mistakes, **more)


def changed(tensor, index, value):
    tensor = tensor.clone()
    tensor[index] = value
    return tensor


def accumulated(a, b, dtype, step=16):
    total = torch.zeros(a.shape[0], b.shape[1], dtype=dtype)
    for k in range(0, a.shape[1], step):
        total = total + (a[:, k : k + step].float() @ b[k : k + step].float()).to(dtype)
    return total


def softmax_with_sums_in(dtype, scale):
    """The sums of a tree whose every step is rounded, as a GPU makes them. And the truth."""
    x = (scale * randn(3, 4096, seed=2)).to(dtype)
    exponentials = sums = torch.exp(x.float())
    while sums.shape[1] > 1:
        sums = sums.unflatten(1, (2, -1)).sum(1).to(dtype).float()
    return (exponentials / sums).to(dtype), x.double().softmax(1)


def per_block(function, x, block):
    return torch.cat([function(part) for part in x.split(block, -1)], -1)


SYMPTOMS = {
    "not stored": (
        lambda: describe(changed(SOFTMAX.float(), (slice(64, None),), math.nan), SOFTMAX),
        ["rows 64..66: only the last, partial tile", "NaN", "wrong mask of the last tile"],
    ),
    "NaN without a place": (
        lambda: describe(changed(SOFTMAX.float(), (20, slice(None)), math.nan), SOFTMAX),
        ["only row 20", "all wrong elements are NaN", "loaded without `other=`"],
    ),
    "exp overflows": (
        lambda: describe(
            (100 * X).exp() / (100 * X).exp().sum(1, keepdim=True),
            (100 * X).double().softmax(1),
            inputs={"x": 100 * X},
        ),
        ["where inputs reach", "subtract the row's largest value"],
    ),
    "a square overflows": (
        lambda: describe(
            changed(LINE, [4, 5], math.inf),
            LINE.double(),
            inputs={"x": changed(LINE, [4, 5], 1e20)},
        ),
        ["infinite", "a square passes above 1.8e19"],
    ),
    "-inf minus -inf": (
        lambda: describe(
            changed(SOFTMAX.float(), ([3, 40],), math.nan),
            changed(SOFTMAX, ([3, 40],), 0.0),
            inputs={"x": changed(X, ([3, 40],), -math.inf)},
        ),
        ["all wrong elements are NaN, where inputs are -inf", "inf - inf", "subtract 0 and not"],
    ),
    "inf minus inf of one element": (
        lambda: describe(
            changed(LINE, [4, 5], math.nan),
            changed(LINE.double(), [4, 5], math.inf),
            inputs={"x": changed(LINE, [4, 5], math.inf)},
        ),
        ["where inputs are infinite", "this looks like inf - inf, inf / inf or 0 * inf"],
    ),
    "exp overflows beside -inf": (
        lambda: describe(
            changed(SOFTMAX.float(), (3,), math.nan),
            SOFTMAX,
            inputs={"x": changed(changed(X, (3, 5), -math.inf), (3, 6), 100.0)},
        ),
        ["where inputs reach 100", "subtract the row's largest value"],
    ),
    "float16 overflows": (
        lambda: describe((300 * LINE).half() ** 2 / 300, 300 * LINE.double() ** 2),
        ["infinite", "65504"],
    ),
    "a cast from bfloat16 to float16 overflows": (
        lambda: describe(
            (1e6 * X).bfloat16().half().bfloat16() * 0,
            (1e6 * X).double() * 0,
            inputs={"x": (1e6 * X).bfloat16()},
        ),
        ["NaN", "where inputs reach", "a cast to float16 ends at 65504"],
    ),
    "a cast from bfloat16 to float16 overflows in a sum": (
        lambda: describe(
            ((1e6 * X).bfloat16().half() * 0).sum(0)[:7].bfloat16(),
            torch.zeros(7).double(),
            inputs={"x": (1e6 * X).bfloat16()},
        ),
        ["NaN, and inputs reach", "this looks like a cast to float16, which ends at 65504"],
    ),
    "NaN is lost": (
        lambda: describe(
            changed(X, (3, 4), math.nan).nan_to_num(0).relu(),
            changed(X, (3, 4), math.nan).double().relu(),
        ),
        ["not NaN where NaN is expected", "drops NaN"],
    ),
    "NaN of infinity is lost": (
        lambda: describe(
            changed(SOFTMAX.float(), (3,), 0.0),
            changed(SOFTMAX, (3,), math.nan),
            inputs={"x": changed(X, (3, 5), math.inf)},
        ),
        ["not NaN where NaN is expected, and inputs are infinite", "inf - inf", "was avoided"],
    ),
    "all zero": (
        lambda: describe(torch.zeros_like(X), X.double()),
        ["every element", "the whole result is 0", "before anything was added"],
    ),
    "a column of zeros": (
        lambda: describe(changed(X, (slice(None), 130), 0.0), X.double()),
        ["only column 130 (the last)", "all wrong elements are 0"],
    ),
    "one value": (
        lambda: describe(changed(X, (slice(5, 9),), 7.0), X.double()),
        ["rows 5..8", "all wrong elements are 7", "does not depend on the position"],
    ),
    "the input": (
        lambda: describe(X, X.double().relu() + 1, inputs={"x": X}),
        ["the wrong elements are those of x", "stored as it was loaded"],
    ),
    "sign": (
        lambda: describe(-X, X.double()),
        ["the sign is the other one"],
    ),
    "a factor": (
        lambda: describe(0.3 * X, X.double()),
        ["0.3 times the expected", "a constant that is left out"],
    ),
    "the scale is missing": (
        lambda: describe(PRODUCT.float(), PRODUCT / 16, inputs={"a": A}),
        ["256 ** 0.5 = 16 times", "a scale of 256 ** -0.5 that is left out"],
    ),
    "unbiased": (
        lambda: describe(X.var(1), X.double().var(1, correction=0), inputs={"x": X}),
        ["131 / 130 = 1.008 times", "a division by 130 in place of 131"],
    ),
    "exp2 for exp": (
        lambda: describe(X.exp2() / X.exp2().sum(1, keepdim=True), SOFTMAX),
        ["to the power of ln(2)", "exp and exp2"],
    ),
    "log2 for log": (
        lambda: describe((X.abs() + 1).log2(), (X.double().abs() + 1).log()),
        ["log2(e) = 1.443 times", "log and log2"],
    ),
    "scores without scale": (
        lambda: describe(
            (A[:, :64] @ B[:64]).softmax(1),
            (A[:, :64].double() @ B[:64].double() / 8).softmax(1),
            inputs={"q": A[:, :64]},
        ),
        ["to the power of 64 ** 0.5 = 8", "a scale of 64 ** -0.5 that is left out"],
    ),
    "an offset": (
        lambda: describe(X + 0.25, X.double()),
        ["too large by 0.25", "a constant term"],
    ),
    "the bias is missing": (
        lambda: describe(X, X.double() + LINE[:131].double(), inputs={"x": X, "bias": LINE[:131]}),
        ["too small by bias", "bias left out"],
    ),
    "transposed": (
        lambda: describe(X.T.reshape(67, 131), X.double()),
        ["the transpose", "rows and columns swapped"],
    ),
    "reversed": (
        lambda: describe(X.flip(1), X.double()),
        ["in reverse order along dimension 1"],
    ),
    "shifted": (
        lambda: describe(X.roll(-1, 0), X.double()),
        ["what is expected 1 after it along dimension 0", "off by 1"],
    ),
    "rows in another order": (
        lambda: describe(X[torch.randperm(67, generator=seeded(0))], X.double()),
        ["the right values stand in the wrong places", "wrong stride or index"],
    ),
    "every second": (
        lambda: describe(changed(X, (slice(None), slice(1, None, 2)), 0.0), X.double()),
        ["columns 1, 3, 5, ...: every second", "counts in the wrong unit"],
    ),
    "no square root": (
        lambda: describe(X.abs(), X.double().abs().sqrt()),
        ["the square of the expected", "a square root that is missing"],
    ),
    "the sum of each row is wrong": (
        lambda: describe(X.exp(), SOFTMAX),
        ["each row is off by one factor of its own", "its sum, maximum, mean or variance"],
    ),
    "a lost carry": (
        lambda: describe(per_block(lambda x: x.cumsum(1), X, 32), X.double().cumsum(1)),
        ["begins again every 32 elements", "a carry from block to block"],
    ),
    "an index within its block": (
        lambda: describe(X.argmax(1) % 32, X.argmax(1)),
        ["modulo 32", "the start of the block is not added"],
    ),
    "the last of equal values": (
        lambda: describe(63 - SMALL.flip(1).argmax(1), SMALL.argmax(1), inputs={"x": SMALL}),
        ["a later one was chosen", "the first index"],
    ),
    "an index past the end": (
        lambda: describe(torch.full((48,), 64), SMALL.argmax(1), inputs={"x": SMALL}),
        ["64 or more, past the end of the rows of x", "a masked-off lane that wins the search"],
    ),
    "a search from 0": (
        lambda: describe(
            torch.zeros(48, dtype=torch.int64),
            (SMALL - 9).argmax(1),
            inputs={"x": SMALL - 9},
        ),
        ["the index is 0 in rows of x that are negative throughout", "start from -inf"],
    ),
    "NaN loses a search": (
        lambda: describe(
            SMALL.argmax(1),
            changed(SMALL, (slice(None), 30), math.nan).argmax(1),
            inputs={"x": changed(SMALL, (slice(None), 30), math.nan)},
        ),
        ["x holds NaN at the index that is expected", "a comparison with NaN, which is false"],
    ),
    "a row of another step": (
        lambda: describe(changed(X, (66,), X[2]), X.double()),
        ["row 66 holds what is expected in row 2", "an index that is not moved on"],
    ),
    "a variance in one pass": (
        lambda: describe(
            ((X + 1e4).square().mean(1) - (X + 1e4).mean(1).square()),
            (X + 1e4).double().var(1, correction=0),
            inputs={"x": X + 1e4},
        ),
        ["what float32 loses of the square of x's mean", "subtract the mean from each element"],
    ),
    "squares overflow": (
        lambda: describe(
            torch.zeros(67, 131, dtype=torch.half),
            X.double() / X.double().square().mean(1, keepdim=True).sqrt(),
            inputs={"x": (1000 * X).half()},
        ),
        ["the whole result is 0, where inputs reach", "is infinite in float16"],
    ),
    "a mean over the block": (
        lambda: describe(X.sum(1) / 256, X.double().mean(1), inputs={"x": X}),
        ["131 / 256", "a division by 256 (the size of the block) in place of 131"],
    ),
    "a root of a mean over the block": (
        lambda: describe(
            X.square().sum(1).div(256).rsqrt(),
            X.double().square().mean(1).rsqrt(),
            inputs={"x": X},
        ),
        ["(256 / 131) ** 0.5", "131 and 256 (the size of the block) taken for one another"],
    ),
    "a variance for its inverse root": (
        lambda: describe(X.var(1), X.double().var(1).rsqrt()),
        ["the reciprocal of the square", "a variance in place of its inverse root"],
    ),
    "NaN where each load has an other": (
        lambda: describe(
            changed(SOFTMAX.float(), (20, slice(None)), math.nan), SOFTMAX, anything=False
        ),
        ["a row or tile in which a mask leaves nothing"],
    ),
    "lost counts": (
        lambda: describe(torch.tensor([30, 41, 50]), torch.tensor([30, 43, 52])),
        ["sums to 121, expected 125", "not atomic"],
    ),
    "doubled counts": (
        lambda: describe(torch.tensor([61, 43, 52]), torch.tensor([30, 43, 52])),
        ["only element 0", "masked-off lanes that are counted too"],
    ),
    "lost terms of whole numbers": (
        lambda: describe(SMALL[:, 1:] @ SMALL[:, 1:].T, SMALL.double() @ SMALL.double().T),
        ["off by whole numbers", "not rounding"],
    ),
    "conjugate": (
        lambda: describe(IMAGE.conj(), IMAGE.to(torch.complex128)),
        ["the complex conjugate", "the sign of the imaginary part"],
    ),
    "parts swapped": (
        lambda: describe(torch.complex(IMAGE.imag, IMAGE.real), IMAGE.to(torch.complex128)),
        ["real and imaginary parts are swapped"],
    ),
    "cast to bfloat16": (
        lambda: describe(PRODUCT.bfloat16().float(), PRODUCT),
        ["exactly a bfloat16 number", "a cast to bfloat16"],
    ),
    "factors in half precision": (
        lambda: describe(A.half().float() @ B.half().float(), PRODUCT),
        ["errors are small", "no pattern", "lower precision: a tl.dot in tf32"],
    ),
    "accumulated in float16": (
        lambda: describe(
            accumulated(A.half(), B.half(), torch.float16),
            A.half().double() @ B.half().double(),
        ),
        ["errors are small", "a sum accumulated in float16"],
    ),
    "accumulated in bfloat16": (
        lambda: describe(
            accumulated(A.bfloat16(), B.bfloat16(), torch.bfloat16),
            A.bfloat16().double() @ B.bfloat16().double(),
        ),
        ["a sum accumulated in bfloat16"],
    ),
    "sums of rows in bfloat16": (
        lambda: describe(*softmax_with_sums_in(torch.bfloat16, 0.25)),
        ["each row is off by a factor of its own, from 0.9", "its sum accumulated in bfloat16"],
    ),
    "sums of rows in float16": (
        lambda: describe(*softmax_with_sums_in(torch.float16, 2.0)),
        ["each row is off by a factor of its own", "its sum accumulated in float16"],
    ),
    "tanh in GELU": (
        lambda: describe(gelu(X.half(), approximate="tanh"), gelu(X.half().double())),
        ["small and follow the expected value", "a formula that is off"],
    ),
    "tanh in GELU of an input": (
        lambda: describe(
            gelu(X.bfloat16(), approximate="tanh"),
            gelu(X.bfloat16().double()),
            inputs={"x": X.bfloat16()},
        ),
        ["small and follow x", "a formula that is off"],
    ),
    "a sum in float32": (
        lambda: describe(X.exp().double().sum(1), X.double().exp().sum(1)),
        ["a step computed in float32"],
    ),
    "a factor near 1": (
        lambda: describe(
            (1.0006 * (LINE.half().abs() + 1).double()).half(), (LINE.half().abs() + 1).double()
        ),
        ["the result is 1 + 0.0007 times", "N in place of N - 1"],
    ),
    "an eps added to a sum": (
        lambda: describe(((X.abs() + 1).double() * (1 - 1e-4)).float(), (X.abs() + 1).double()),
        ["1 - 0.0001 times", "an eps added to a divisor"],
    ),
    "nothing left of a softmax": (
        lambda: describe(X / 0 * 0, X.double() * 0 + 0.1, inputs={"x": -X.abs() - 1e30}),
        ["no input is above -1e+30", "0 / 0", "begins at -inf"],
    ),
    "nothing left of a sum of exponentials": (
        lambda: describe(X[:, 0].abs() / 0, X[:, 0].abs().double(), inputs={"x": -X.abs() - 1e30}),
        ["infinite, where no input is above -1e+30", "a logarithm of 0"],
    ),
    "the triangle is missing": (
        lambda: describe(X, X.double().triu(), exact=True, inputs={"x": X}),
        ["only below the diagonal", "those of x", "a triangular mask that is missing"],
    ),
    "off by one at the diagonal": (
        lambda: describe(X.triu(1), X.double().triu(), exact=True),
        ["only the diagonal", "off by one"],
    ),
    "the grid is too small": (
        lambda: describe(changed(LINE, slice(256, None), 0.0), LINE.double()),
        [
            "elements 256..999: all that follow the first 256",
            "a grid or a loop that ends too early",
        ],
    ),
    "one batch": (
        lambda: describe(
            changed(X[:64, :64].reshape(4, 16, 8, 8), (2, ..., slice(3)), math.nan),
            X[:64, :64].reshape(4, 16, 8, 8).double(),
        ),
        [
            "only dimension-0 index 2",
            "columns 0..2",
            "map of [2, 0] of the result (4 x 16 x 8 x 8)",
        ],
    ),
    "a mistake": (
        lambda: describe(
            A[:, :32] @ B[:32],
            PRODUCT,
            mistakes=[
                Mistake("a loop of the last step only", lambda: A[:, -32:] @ B[-32:]),
                Mistake("a loop of one step only", lambda: A[:, :32] @ B[:32], "32 of K"),
            ],
        ),
        ["a loop of one step only (with 32 of K the reference gives this very result)"],
    ),
}


@pytest.mark.parametrize("name", SYMPTOMS)
def test_a_pattern_is_found(name):
    message, words = SYMPTOMS[name]
    text = message()
    missing = [word for word in words if word not in text]
    assert not missing, text
    assert text.count("this looks like") <= 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: changed(PRODUCT.float(), (5, 7), 100.0),
        lambda: (PRODUCT + 30 * randn(64, 96, seed=2)).float(),
        lambda: randn(64, 96, seed=2),
    ],
)
def test_nothing_is_guessed_where_there_is_no_pattern(wrong):
    text = describe(wrong(), PRODUCT)
    assert "how it looks" not in text
    assert "this looks like" not in text


def test_the_explanation_that_is_enough_stands_alone():
    text = describe(0.5 * X, X.double())
    assert "0.5 times" in text
    assert "each row" not in text


def test_what_is_too_near_the_truth_explains_nothing():
    truth = LINE.double()
    text = describe(
        (truth * 1.02).bfloat16(), truth, mistakes=[Mistake("the truth", lambda: truth)]
    )
    assert "the truth" not in text


def test_small_numbers_are_not_taken_for_a_narrower_dtype():
    truth = 1e3 * LINE.half().double()
    assert "bfloat16" not in describe((6e-8 * (LINE * 9).round()).half(), truth)


def test_a_factor_is_not_read_off_errors_that_it_does_not_explain():
    truth = X.double().abs() + 1
    got = (truth * (1 - 0.004 * randn(67, 131, seed=4).double().square())).float()
    assert "the result is 0.99" not in describe(got, truth)


def test_a_row_that_looks_like_none_is_not_called_another():
    got = changed(X, (66,), X[2] + 1e-2)
    assert "holds what is expected" not in describe(got, X.double())


def test_a_variance_that_is_off_is_not_called_cancelled():
    far = X + 1e4
    text = describe(far.double().var(1).float(), far.double().var(1, correction=0))
    assert "what float32 loses" not in text


def test_two_elements_are_too_few_for_a_function():
    truth = torch.tensor([0.25, 0.5], dtype=torch.float64)
    assert "square" not in describe(truth.square().float(), truth)


def test_exponentials_are_not_all_0_where_one_input_is_large():
    x = -X.abs() - 1e30
    x[:, 3] = 1.0
    assert "0 / 0: each" not in describe(X / 0 * 0, X.double() * 0 + 0.1, inputs={"x": x})


def test_an_overflow_of_gelu_is_no_empty_sum():
    x = torch.full((2, 3), -300.0).half()
    truth = torch.nn.functional.gelu(x.double())
    assert "0 / 0: each" not in describe(x / 0 * 0, -truth.abs() - 1e-9, inputs={"x": x})
    one = describe(x[:1, :1] / 0 * 0, truth[:1, :1], inputs={"x": x[:1, :1]})
    assert "looks like an overflow" in one


IN_HALF = "float16 ends at 65504; compute in float32"


@pytest.mark.parametrize(
    ("code", "size", "dtype", "told", "not_told"),
    [
        ("tl.fma(x, y, z)", 1e4, torch.half, IN_HALF, "exp passes"),
        ("tl.sigmoid(x)", 1e4, torch.half, IN_HALF, "exp passes"),
        ("tl.sum(tl.exp(x))", 1e4, torch.half, "before exp, subtract the row's largest", "square"),
        ("tl.exp2(x - lse)", 1e4, torch.half, IN_HALF, "exp passes"),
        ("tl.exp2(x * c - tl.max(x))", 3e38, torch.float, "and scale after", "before exp"),
        ("tl.exp(x - tl.max(x))", 3e38, torch.float, "float32 ends at 3.4e38", "log2"),
    ],
)
def test_what_is_said_of_an_overflow_fits_the_code(code, size, dtype, told, not_told):
    x, nan = torch.full((5, 9), size).to(dtype), torch.full((5, 9), math.nan).to(dtype)
    source = Source.of(f'"""exp, max, a square"""\n{code}  # exp, max')
    text = describe(nan, X[:5, :9].double(), inputs={"x": x}, source=source)
    assert told in text
    assert not_told not in text


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("tl.exp2(tl.where(seen, x, -1e6))", True),
        ("tl.exp2(x + tl.where(seen, 0, -1000000))", True),
        ("tl.exp2(tl.where(seen, x, float('-inf')))", False),
        ("tl.where(seen, x, -1e6)", False),
        ("tl.exp2(x - 1)", False),
    ],
)
def test_numbers_that_stand_for_minus_infinity_are_named(code, told):
    for got, truth in ((0 * X, X.double()), (X * (1 + LINE[:67, None]), X.double())):
        text = describe(got, truth, source=Source.of(code))
        assert ("or scores masked by -1e+06, which win" in text) is told


def test_four_elements_are_too_few_for_a_constant():
    text = describe(torch.tensor([1.1, 2.2, 3.3, 4.4]), torch.arange(1, 5).double())
    assert "times the expected" not in text


def test_zeros_are_no_sign_of_an_overflow_where_nothing_overflows():
    text = describe(torch.zeros(67, 131).half(), X.double(), inputs={"x": X.half()})
    assert "infinite" not in text


NAN_ROWS = changed(SOFTMAX.float(), (slice(5),), math.nan)
NUDGED = torch.nextafter(LINE.half(), torch.tensor(9.0).half())


@pytest.mark.parametrize(
    ("got", "truth", "alternative"),
    [
        (NAN_ROWS, SOFTMAX, NAN_ROWS),
        (torch.zeros_like(X), X.double(), torch.zeros_like(X)),
        (torch.tensor([3.0]).half(), torch.tensor([4.0]).double(), torch.tensor([3.0])),
        (torch.nextafter(NUDGED, 9 * NUDGED), LINE.double(), NUDGED),
        (changed(X, (3,), 7.0), X.double(), changed(changed(X, (3,), 7.0), (range(4, 9),), 8.0)),
        (torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([0, 1])),
    ],
    ids=["NaN", "zeros", "one_of_few_bits", "near_the_truth", "right_rows_differ", "small_indices"],
)
def test_a_mistake_that_may_fit_by_chance_is_not_named(got, truth, alternative):
    text = describe(got, truth, mistakes=[Mistake("a mistake", lambda: alternative)])
    assert "a mistake" not in text


def test_mistakes_are_tried_for_some_time_only(monkeypatch):
    monkeypatch.setattr(symptoms, "MAX_SECONDS", -1.0)
    text = describe(-X, X.double(), mistakes=[Mistake("a mistake", lambda: -X)])
    assert "a mistake" not in text
    assert "the sign is the other one" in text


def test_no_map_beside_a_mistake_that_explains_all():
    got = changed(X, (slice(3, 9),), 7.0)
    assert "map of" in describe(got, X.double())
    made = describe(got, X.double(), mistakes=[Mistake("rows of sevens", lambda: got)])
    assert "rows of sevens (which gives this very result)" in made
    assert "map of" not in made


def test_a_few_elements_that_fit_a_shift_make_no_shift():
    got = X.clone()
    got[:, :16] = randn(67, 16, seed=3)
    got[0, 20:26] = X[0, 4:10]
    assert "before it" not in describe(got, X.double())


def test_a_scalar_gets_its_numbers_and_no_more():
    text = describe(torch.tensor(3.0), torch.tensor(3.5, dtype=torch.float64))
    assert text.splitlines() == [
        "the result is wrong in 1 of 1 element",
        text.splitlines()[1],
    ]
    assert text.splitlines()[1].startswith("got 3, expected 3.5; off by 0.5")


def test_the_subject_comes_first():
    text = describe(-X, X.double(), subject="puzzles/01_pointwise/swish.py")
    assert text.startswith("puzzles/01_pointwise/swish.py: the result is wrong in 8777 of 8777")


def test_the_map_of_a_matrix():
    got = changed(X, (slice(64, None),), math.nan)
    got[0:5, 0:5] = 9.0
    got[20, 130] = 9.0
    lines = describe(got, X.double()).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("map of the result"))
    assert "(67 x 131), one character a tile of 5 x 5" in lines[start]
    rows = [line.strip() for line in lines[start + 1 : start + 15]]
    assert rows[0] == "X" + "." * 26
    assert rows[4] == "." * 26 + "x"
    assert rows[11] == "." * 27
    assert rows[12] == rows[13] == "?" * 27
    assert not lines[start + 15].startswith("    ")


def test_the_map_of_a_vector_is_folded():
    got = changed(LINE, slice(992, None), 0.0)
    lines = describe(got, LINE.double()).splitlines()
    drawn = [line.strip() for line in lines if line.startswith("    ")]
    assert "one character 2 elements" in "".join(lines)
    assert drawn == ["." * 32] * 15 + ["." * 16 + "XXXX"]


def test_no_map_where_it_would_show_nothing():
    assert "map of" not in describe(-X, X.double())
    assert "map of" not in describe(changed(X, (slice(None), slice(0, None, 2)), 0.0), X.double())
    assert "map of" not in describe(changed(X, (3, 4), 9.0), X.double())


@pytest.mark.parametrize(
    ("indices", "length", "words"),
    [
        (range(64, 67), 67, "elements 64..66: only the last, partial tile (blocks of 8 to 64)"),
        (range(96, 100), 100, "elements 96..99: only the last, partial tile (blocks of 8 to 32)"),
        (range(32, 100), 100, "elements 32..99: all that follow the first 32"),
        (range(5, 100), 100, "elements 5..99"),
        (range(5, 9), 100, "elements 5..8"),
        ([99], 100, "only element 99 (the last)"),
        ([0], 100, "only element 0"),
        (range(2, 100, 3), 100, "elements 2, 5, 8, ...: every third"),
        ([1, 5, 6], 100, "3 of 100 elements: 1, 5, 6"),
    ],
)
def test_where_says_what_the_indices_have_in_common(indices, length, words):
    wrong = torch.zeros(length, dtype=torch.bool)
    wrong[list(indices)] = True
    assert [place.sentence for place in report.where(wrong)] == [words]


def test_where_tells_a_rectangle_from_a_triangle():
    wrong = torch.zeros(64, 64, dtype=torch.bool)
    wrong[8:24, 32:48] = True
    assert [place.sentence for place in report.where(wrong)] == ["rows 8..23", "columns 32..47"]


DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int32, torch.int64, torch.bool])
@pytest.mark.parametrize(
    "shape", [(), (1,), (2,), (5,), (700,), (1, 9), (9, 1), (33, 40), (2, 3, 4, 5)]
)
def test_any_wrong_result_is_described(dtype, shape):
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)
        truth = 3 * torch.randn(shape, generator=generator, dtype=torch.float64)
        if dtype.is_complex:
            truth = torch.complex(truth, truth.flip(tuple(range(truth.dim()))))
        yardstick = truth.to(dtype)
        if not (dtype.is_floating_point or dtype.is_complex):
            truth = yardstick
        spoilt = torch.rand(shape, generator=generator) < (0.1, 0.5, 1.1)[seed % 3]
        spoilt.view(-1)[0] = True
        values = (math.nan, math.inf, 0.0, 7.0, -3.0)
        wrong = torch.tensor(values[seed % 5]) if truth.is_floating_point() else ~yardstick.bool()
        got = torch.where(spoilt, wrong.to(dtype), yardstick)
        mismatch = compare.compare(got, truth, yardstick)
        if mismatch:
            inputs = {"x": yardstick, "n": torch.tensor(3), "row": torch.ones(shape[-1:])}
            text = report.describe(got, truth, mismatch, inputs=inputs)
            assert text.startswith("the result is wrong in")
