"""kernelgauge.diagnosis: what a message says about a wrong result, and must not say."""

from __future__ import annotations

import json
import math
import re

import pytest
import torch
from torch.nn.functional import gelu

from kernelgauge.core.dtypes import wide
from kernelgauge.diagnosis import observations, report, symptoms
from kernelgauge.diagnosis.mistakes import named
from kernelgauge.diagnosis.source import Source
from kernelgauge.diagnosis.wrong_result import Mistake
from kernelgauge.numerics import compare
from kernelgauge.words import WORDS, message, say
from kernelgauge.words.fault import CONSISTENT, PROVEN, SHOWN, Cause, note
from tests.diagnosing import diagnosed


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(shape, generator=seeded(seed))


X = randn(67, 131)
SOFTMAX = X.double().softmax(1)
A, B = randn(64, 256), randn(256, 96, seed=1)
PRODUCT = A.double() @ B.double()
LINE = randn(1000)
HALF_LINE = LINE.half()
IMAGE = torch.view_as_complex(randn(300, 2))
SMALL = torch.randint(-4, 5, (48, 64), generator=seeded(0)).float()
COLUMNS = slice(None)
A_MISTAKE = note("text", text="a mistake")


def describe(
    got,
    truth,
    *,
    exact=None,
    yardstick=None,
    mistakes=(),
    anything=True,
    source=None,
    rounded=None,
    **inputs,
):
    """Return the message about `got` where the truth is this, in float64 unless it is exact."""
    truth = wide(truth)
    if yardstick is None:
        yardstick = truth.to(got.dtype)
    mismatch = compare.compare(got, truth, yardstick, exact=exact)
    more = {"source": source} if source else {}
    more["rounded"] = rounded
    fault = diagnosed(
        got, truth, mismatch, inputs=inputs, mistakes=mistakes, anything=anything, **more
    )
    return message(fault)


def changed(tensor, index, value):
    tensor = tensor.clone()
    tensor[index] = value
    return tensor


def accumulated(a, b, step=16):
    """Return a product whose sum is rounded to the dtype of a after each step, and the truth."""
    total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
    for k in range(0, a.shape[1], step):
        total = total + (a[:, k : k + step].float() @ b[k : k + step].float()).to(a.dtype)
    return total, a.double() @ b.double()


def normalized(x, naive=False):
    """Return the rows of x normalized, with a weight and a bias for each column."""
    columns = torch.arange(x.shape[1]) / 50
    if not naive:
        x = x.double()
    mean = x.mean(1, keepdim=True)
    variance = x.var(1, correction=0, keepdim=True)
    if naive:
        variance = x.square().mean(1, keepdim=True) - mean.square()
    return (x - mean) / variance.sqrt() * (1 + columns) + columns


def softmax_with_sums_in(dtype, scale):
    """Return a softmax whose sums are rounded at each step of a tree, and the truth."""
    x = (scale * randn(3, 4096, seed=2)).to(dtype)
    exponentials = sums = torch.exp(x.float())
    while sums.shape[1] > 1:
        sums = sums.unflatten(1, (2, -1)).sum(1).to(dtype).float()
    return (exponentials / sums).to(dtype), x.double().softmax(1)


LARGE = (1e6 * X).bfloat16()
FAR = X + 1e4
BELOW = -X.abs() - 1e30
MINUS_300 = torch.full((1, 1), -300.0).half()
NAN_AT_30 = changed(SMALL, (COLUMNS, 30), math.nan)
NAN_AT_3_4 = changed(X, (3, 4), math.nan)
SQUARES = X.double().square().mean(1, True)
BATCHES = X[:64, :64].reshape(4, 16, 8, 8)


def carried_maximum(x, block):
    """Return a running total along rows that takes the largest one of each block to the next."""
    carry, parts = 0.0, []
    for part in x.split(block, 1):
        parts.append(carry + part.cumsum(1))
        carry = parts[-1].amax(1, keepdim=True)
    return torch.cat(parts, 1)


def case(*compared, **more):
    return lambda: describe(*compared, **more)


# Words that the message says, in this order, and the wrong result.
SYMPTOMS = {
    "rows 64..66: only the last, partial tile ... NaN ... mask of the last tile is wrong": case(
        changed(SOFTMAX.float(), (slice(64, None),), math.nan), SOFTMAX
    ),
    "only row 20 ... all wrong elements are NaN ... loaded without `other=`": case(
        changed(SOFTMAX.float(), 20, math.nan), SOFTMAX
    ),
    "a mask leaves nothing of a row or tile": case(
        changed(SOFTMAX.float(), 20, math.nan), SOFTMAX, anything=False
    ),
    "where inputs reach ... subtract the row's largest value": case(
        (100 * X).exp() / (100 * X).exp().sum(1, True), (100 * X).double().softmax(1), x=100 * X
    ),
    "infinite ... a square exceeds above 1.8e19": case(
        changed(LINE, [4, 5], math.inf), LINE, x=changed(LINE, [4, 5], 1e20)
    ),
    "elements are NaN, where inputs are -inf ... inf - inf ... subtract 0 instead": case(
        changed(SOFTMAX.float(), [3, 40], math.nan),
        changed(SOFTMAX, [3, 40], 0.0),
        x=changed(X, [3, 40], -math.inf),
    ),
    "where inputs are infinite ... likely cause: inf - inf, inf / inf or 0 * inf": case(
        changed(LINE, [4, 5], math.nan),
        changed(LINE, [4, 5], math.inf),
        x=changed(LINE, [4, 5], math.inf),
    ),
    "where inputs reach 100 ... subtract the row's largest value": case(
        changed(SOFTMAX.float(), 3, math.nan),
        SOFTMAX,
        x=changed(changed(X, (3, 5), -math.inf), (3, 6), 100.0),
    ),
    "infinite ... 65504": case((300 * LINE).half() ** 2 / 300, 300 * LINE.double() ** 2),
    "likely cause: overflow": case(MINUS_300 / 0 * 0, gelu(MINUS_300.double()), x=MINUS_300),
    "NaN ... where inputs reach ... a cast to float16 is infinite above 65504": case(
        LARGE.half().bfloat16() * 0, 0 * X, x=LARGE
    ),
    "NaN, and inputs reach ... cause: a cast to float16, which is infinite above 65504": case(
        (LARGE.half() * 0).sum(0)[:7].bfloat16(), torch.zeros(7), x=LARGE
    ),
    "not NaN where NaN is expected ... drops NaN": case(
        NAN_AT_3_4.nan_to_num(0).relu(), NAN_AT_3_4.relu()
    ),
    "not NaN where NaN is expected, and inputs are infinite ... inf - inf ... is avoided": case(
        changed(SOFTMAX.float(), 3, 0.0),
        changed(SOFTMAX, 3, math.nan),
        x=changed(X, (3, 5), math.inf),
    ),
    "every element ... the whole result is 0 ... nothing is added to the result": case(0 * X, X),
    "only column 130 (the last) ... all wrong elements are 0": case(
        changed(X, (COLUMNS, 130), 0.0), X
    ),
    "the wrong elements are those of x ... stored as it was loaded": case(X, X.relu() + 1, x=X),
    "the wrong sign ... the operands of a subtraction are swapped": case(-X, X),
    "0.3 times the expected ... a constant is left out": case(0.3 * X, X),
    "256 ** 0.5 = 16 times ... the scale 256 ** -0.5 is left out": case(
        PRODUCT.float(), PRODUCT / 16, a=A
    ),
    "131 / 130 = 1.008 times ... a division by 130 instead of 131": case(
        X.var(1), X.double().var(1, correction=0), x=X
    ),
    "to the power of ln(2) ... exp is mixed with exp2": case(
        X.exp2() / X.exp2().sum(1, True), SOFTMAX
    ),
    "log2(e) = 1.443 times ... log with log2": case(
        (X.abs() + 1).log2(), (X.double().abs() + 1).log()
    ),
    "to the power of 64 ** 0.5 = 8 ... the scale 64 ** -0.5 is left out": case(
        (A[:, :64] @ B[:64]).softmax(1),
        (A[:, :64].double() @ B[:64].double() / 8).softmax(1),
        q=A[:, :64],
    ),
    "too large by 0.25 ... a constant term": case(X + 0.25, X),
    "too small by bias ... bias is left out": case(
        X, X.double() + LINE[:131].double(), x=X, bias=LINE[:131]
    ),
    "the transpose ... rows and columns are swapped": case(X.T.reshape(67, 131), X),
    "the values are right, but in the wrong places ... wrong stride or index": case(
        X[torch.randperm(67, generator=seeded(0))], X
    ),
    "columns 1, 3, 5, ...: every second ... is in the wrong unit": case(
        changed(X, (COLUMNS, slice(1, None, 2)), 0.0), X
    ),
    "the square of the expected ... a square root is missing": case(
        X.abs(), X.double().abs().sqrt()
    ),
    "elements of a row are off by the same factor ... its sum, maximum, mean or variance": case(
        X.exp(), SOFTMAX
    ),
    "starts over every 32 elements ... the carry from block to block": case(
        torch.cat([part.cumsum(1) for part in X.split(32, 1)], 1), X.double().cumsum(1)
    ),
    "the first 32 elements are right, and each later block of 32 ... carried from one": case(
        carried_maximum(X, 32), X.double().cumsum(1), source=Source.of("y = tl.cumsum(x, 0)")
    ),
    "modulo 32 ... the block's start is not added": case(X.argmax(1) % 32, X.argmax(1)),
    "67 times ... 67 is the stride of x along dimension 1: the index is made with strides": case(
        67 * (1 + X.argmax(1)), 1 + X.argmax(1), x=X.T.contiguous().T
    ),
    "a later one was chosen ... the first index": case(
        63 - SMALL.flip(1).argmax(1), SMALL.argmax(1), x=SMALL
    ),
    "64 or more, past the end of the rows of x ... a masked lane wins the search": case(
        torch.full((48,), 64), SMALL.argmax(1), x=SMALL
    ),
    "past the end of the rows of x ... or what it begins with": case(
        torch.full((48,), 64), SMALL.argmax(1), x=SMALL.new_full(SMALL.shape, -torch.inf)
    ),
    "the index is 0 in rows of x whose values are all negative ... start from -inf": case(
        torch.zeros(48, dtype=torch.int64), (SMALL - 9).argmax(1), x=SMALL - 9
    ),
    "x holds NaN at the expected index ... comparisons with NaN are false": case(
        SMALL.argmax(1), NAN_AT_30.argmax(1), x=NAN_AT_30
    ),
    "float32 loses of the square of x's mean ... subtract the mean from each element": case(
        FAR.square().mean(1) - FAR.mean(1).square(), FAR.double().var(1, correction=0), x=FAR
    ),
    "loses of the square of x's mean ... the mean of the squares minus": case(
        normalized(X + 300, naive=True), normalized(X + 300), x=X + 300
    ),
    "the whole result is 0, and inputs reach ... is infinite in float16": case(
        (0 * X).half(), X / SQUARES.sqrt(), x=(1000 * X).half()
    ),
    "131 / 256 ... a division by 256 (the block size) instead of 131": case(
        X.sum(1) / 256, X.double().mean(1), x=X
    ),
    "(256 / 131) ** 0.5 ... 131 and 256 (the block size) are confused": case(
        X.square().sum(1).div(256).rsqrt(), SQUARES[:, 0].rsqrt(), x=X
    ),
    "the reciprocal of the square ... a variance is used instead of its inverse square": case(
        X.var(1), X.double().var(1).rsqrt()
    ),
    "adds up to 121, expected 125 ... not atomic": case(
        torch.tensor([30, 41, 50]), torch.tensor([30, 43, 52]), x=LINE
    ),
    "only element 0 ... masked lanes are counted too": case(
        torch.tensor([61, 43, 52]), torch.tensor([30, 43, 52]), x=LINE
    ),
    "off by whole numbers ... not a rounding error": case(
        SMALL[:, 1:] @ SMALL[:, 1:].T, SMALL.double() @ SMALL.double().T
    ),
    "8 rows hold what belongs to others ... row 56 holds what row 0 should be": case(
        torch.cat([PRODUCT[:56], PRODUCT[:8]]).float(), PRODUCT
    ),
    "16 columns hold ... column 80 holds what column 16 should be": case(
        torch.cat([PRODUCT[:, :80], PRODUCT[:, 16:32]], 1).float(), PRODUCT
    ),
    "the complex conjugate ... the sign of the imaginary part": case(IMAGE.conj(), IMAGE),
    "real and imaginary parts are swapped": case(torch.complex(IMAGE.imag, IMAGE.real), IMAGE),
    "exactly a bfloat16 number ... a cast to bfloat16": case(PRODUCT.bfloat16().float(), PRODUCT),
    "errors are small ... no pattern ... lower precision: a cast to half ... tl.dot in tf32": case(
        A.half().float() @ B.half().float(), PRODUCT
    ),
    "errors are small ... a sum is accumulated in float16": case(*accumulated(A.half(), B.half())),
    "a sum is accumulated in bfloat16": case(*accumulated(A.bfloat16(), B.bfloat16())),
    "each row is off by a factor of its own, from 0.9 ... sum is accumulated in bfloat16": case(
        *softmax_with_sums_in(torch.bfloat16, 0.25)
    ),
    "each row is off by a factor of its own ... a sum is accumulated in float16": case(
        *softmax_with_sums_in(torch.float16, 2.0)
    ),
    "small and follow the expected value ... the formula is off": case(
        gelu(X.half(), approximate="tanh"), gelu(X.half().double())
    ),
    "small and follow x ... the formula is off": case(
        gelu(X.bfloat16(), approximate="tanh"), gelu(X.bfloat16().double()), x=X.bfloat16()
    ),
    "a step is computed in float32": case(X.exp().double().sum(1), X.double().exp().sum(1)),
    "the result is 1 + 0.0007 times ... N instead of N - 1": case(
        (1.0006 * (HALF_LINE.abs() + 1).double()).half(), HALF_LINE.abs() + 1
    ),
    "1 - 0.0001 times ... an eps added to a divisor": case(
        ((X.abs() + 1).double() * (1 - 1e-4)).float(), X.abs() + 1
    ),
    "no input is above -1e+30 ... 0 / 0 ... start the maximum at -inf": case(
        X / 0 * 0, 0 * X.double() + 0.1, x=BELOW
    ),
    "infinite, where no input is above -1e+30 ... a logarithm of 0": case(
        X[:, 0].abs() / 0, X[:, 0].abs(), x=BELOW
    ),
    "only below the diagonal ... those of x ... a triangular mask is missing": case(
        X, X.triu(), exact=True, x=X
    ),
    "only the diagonal ... off by one": case(X.triu(1), X.triu(), exact=True),
    "elements 256..999: all after the first 256 ... the grid or a loop ends too early": case(
        changed(LINE, slice(256, None), 0.0), LINE
    ),
    "dimension-0 index 2; columns 0..2 ... map of [2, 0] of the result (4 x 16 x 8 x 8)": case(
        changed(BATCHES, (2, ..., slice(3)), math.nan), BATCHES
    ),
    "makes one step only (with 32 of K, the reference gives your result here)": case(
        A[:, :32] @ B[:32],
        PRODUCT,
        mistakes=[
            Mistake(named("the loop makes the last step only"), lambda: A[:, -32:] @ B[-32:]),
            Mistake(
                named("the loop makes one step only"),
                lambda: A[:, :32] @ B[:32],
                note("text", text="32 of K"),
            ),
        ],
    ),
}


@pytest.mark.parametrize("words", SYMPTOMS)
def test_a_pattern_is_found(words):
    text = rest = SYMPTOMS[words]()
    for word in words.split(" ... "):
        _, found, rest = rest.partition(word)
        assert found, text
    assert text.count("likely cause:") <= 1


MANY_300 = MINUS_300.expand(2, 3)
AWAY_FROM_0 = X.double().abs() + 1
TWO = torch.tensor([0.25, 0.5], dtype=torch.float64)
NOT_SEEN = {
    "an index twice as large for a count": (
        case(2 * (1 + X.argmax(1)), 1 + X.argmax(1), x=X),
        ["counted twice", "stride"],
    ),
    "a narrower dtype, of subnormal numbers": (
        case((6e-8 * (LINE * 9).round()).half(), 1e3 * HALF_LINE.double()),
        ["bfloat16"],
    ),
    "a factor that leaves errors unexplained": (
        case(
            (AWAY_FROM_0 * (1 - 0.004 * randn(67, 131, seed=4).double().square())).float(),
            AWAY_FROM_0,
        ),
        ["the result is 0.99"],
    ),
    "cancellation, of a variance that is off": (
        case(FAR.double().var(1).float(), FAR.double().var(1, correction=0)),
        ["what float32 loses"],
    ),
    "a function, of two elements": (case(TWO.square().float(), TWO), ["square"]),
    "an empty sum, with one large input": (
        case(X / 0 * 0, 0 * X.double() + 0.1, x=changed(BELOW, (COLUMNS, 3), 1.0)),
        ["0 / 0: every"],
    ),
    "an empty sum, of GELU": (
        case(MANY_300 / 0 * 0, -gelu(MANY_300.double()).abs() - 1e-9, x=MANY_300),
        ["0 / 0: every"],
    ),
    "lost counts, of indices into rows": (
        case((SMALL[:, 0] + 9).long(), (SMALL[:, 1] + 12).long(), x=SMALL),
        ["counted", "counts are lost"],
    ),
    "lost counts, of numbers of elements": (
        case(torch.tensor([0, 9, 8, 7, 9, 9]), torch.tensor([0, 1, 8, 9, 9, 9]), x=SMALL[0, :6]),
        ["counted", "counts are lost"],
    ),
    "a constant, of equal elements": (
        case(torch.full((40,), 1.1), torch.ones(40).double()),
        ["constant"],
    ),
    "a search, of sums that are no indices": (
        case(torch.tensor([99, 98, 97, 96]), torch.tensor([31, 2, 17, 20]), x=SMALL[:4].long()),
        ["wins the search"],
    ),
    "a constant, of four elements": (
        case(torch.tensor([1.1, 2.2, 3.3, 4.4]), torch.arange(1, 5).double()),
        ["times the expected"],
    ),
    "an input, of zeros where the input is nearly 0": (
        case((0 * X).to(torch.int8), (30 * X).round(), exact=False, x=1e-3 * X),
        ["those of x", "as it was loaded"],
    ),
    "an overflow, of zeros from small inputs": (
        case((0 * X).half(), X, x=X.half()),
        ["infinite"],
    ),
    "a mistake, close to the truth": (
        case((LINE.double() * 1.02).bfloat16(), LINE, mistakes=[Mistake(A_MISTAKE, LINE.double)]),
        ["a mistake"],
    ),
    "rows of others, of which some are wrong": (
        case(torch.cat([PRODUCT[:56], PRODUCT[:4], A[:4, :32].repeat(1, 3)]).float(), PRODUCT),
        ["belongs to others"],
    ),
    "rows of others, where rows are alike": (
        case(
            torch.cat([PRODUCT[:4], PRODUCT[8:12]]).float(),
            torch.cat([PRODUCT[:4], PRODUCT[:4]]),
        ),
        ["belongs to others"],
    ),
    "a pattern, of one wrong element": (
        case(changed(PRODUCT.float(), (5, 7), 100.0), PRODUCT),
        ["pattern:", "likely cause:"],
    ),
    "a pattern, of noise on the truth": (
        case((PRODUCT + 30 * randn(64, 96, seed=2)).float(), PRODUCT),
        ["pattern:", "likely cause:"],
    ),
    "a pattern, of noise": (
        case(randn(64, 96, seed=2), PRODUCT),
        ["pattern:", "likely cause:"],
    ),
}


@pytest.mark.parametrize(("make", "words"), NOT_SEEN.values(), ids=NOT_SEEN)
def test_a_pattern_is_not_seen(make, words):
    text = make()
    assert not [word for word in words if word in text], text


def test_the_explanation_that_is_enough_stands_alone():
    text = describe(0.5 * X, X)
    assert "0.5 times" in text
    assert "each row" not in text
    assert "of a row" not in text


IN_HALF = "float16 holds at most 65504; compute in float32"


@pytest.mark.parametrize(
    ("code", "size", "dtype", "said", "not_said"),
    [
        ("tl.fma(x, y, z)", 1e4, torch.half, IN_HALF, "exp "),
        ("tl.sigmoid(x)", 1e4, torch.half, IN_HALF, "exp "),
        ("tl.sum(tl.exp(x))", 1e4, torch.half, "before exp, subtract the row's largest", "square"),
        ("tl.exp2(x - lse)", 1e4, torch.half, IN_HALF, "exp "),
        ("tl.exp2(x * c - tl.max(x))", 3e38, torch.float, "then scale", "before exp"),
        ("tl.exp(x - tl.max(x))", 3e38, torch.float, "float32 holds at most 3.4e38", "log2"),
    ],
)
def test_what_is_said_about_an_overflow_fits_the_code(code, size, dtype, said, not_said):
    x, nan = torch.full((5, 9), size).to(dtype), torch.full((5, 9), math.nan).to(dtype)
    source = Source.of(f'"""exp, max, a square"""\n{code}  # exp, max')
    text = describe(nan, X[:5, :9], x=x, source=source)
    assert said in text
    assert not_said not in text


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("tl.exp2(tl.where(seen, x, -1e6))", True),
        ("tl.exp2(x + tl.where(seen, 0, -1000000))", True),
        ("tl.exp2(tl.where(seen, x, float('-inf')))", False),
        ("tl.where(seen, x, -1e6)", False),
        ("tl.exp2(x - 1)", False),
    ],
)
def test_numbers_that_stand_for_minus_infinity_are_named(code, said):
    for got, truth in ((0 * X, X), (X * (1 + LINE[:67, None]), X)):
        text = describe(got, truth, source=Source.of(code))
        assert ("or scores are masked with -1e+06, and lower scores lose" in text) is said
    minus_inf = changed(X, 3, -math.inf)
    text = describe(X, changed(X, 3, math.nan), x=minus_inf, source=Source.of(code))
    assert "is avoided, although its NaN is expected here" in text
    assert ("or scores are masked with -1e+06, and lower scores lose" in text) is said


NAN = 0 * X / 0
NAN_ROWS = changed(SOFTMAX.float(), (slice(5),), math.nan)
BELOW_0 = changed(X, (range(40, 50), 3), 7.0)
SEVENS = changed(X, (3,), 7.0)
NUDGED = torch.nextafter(HALF_LINE, torch.tensor(9.0).half())


@pytest.mark.parametrize(
    ("got", "truth", "alternative"),
    [
        (NAN, SOFTMAX, NAN),
        (NAN_ROWS, SOFTMAX, changed(NAN_ROWS, (6,), math.nan)),
        (BELOW_0, X, changed(BELOW_0, (range(50, 60), 3), 7.0)),
        (torch.zeros_like(X), X, torch.zeros_like(X)),
        (torch.zeros_like(X), X, changed(torch.zeros_like(X), (3,), 7.0)),
        (torch.tensor([3.0]).half(), torch.tensor([4.0]), torch.tensor([3.0])),
        (torch.nextafter(NUDGED, 9 * NUDGED), LINE, NUDGED),
        (SEVENS, X, changed(SEVENS, (range(4, 9),), 8.0)),
        (torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([0, 1])),
    ],
    ids=[
        "NaN",
        "NaN_in_one_row_more",
        "twice_as_much_wrong",
        "zeros",
        "zeros_but_for_a_row",
        "one_of_few_bits",
        "near_the_truth",
        "right_rows_differ",
        "small_indices",
    ],
)
def test_a_mistake_that_may_fit_by_chance_is_not_named(got, truth, alternative):
    text = describe(got, truth, mistakes=[Mistake(A_MISTAKE, lambda: alternative)])
    assert "a mistake" not in text


def test_nan_of_an_input_tells_nothing_of_a_mistake():
    text = describe(NAN_ROWS, SOFTMAX, mistakes=[Mistake(A_MISTAKE, lambda: NAN_ROWS)], x=NAN_ROWS)
    assert "a mistake" not in text


def test_no_pattern_is_needed_where_a_run_has_shown_the_cause():
    mismatch = compare.compare(-X, X.double(), X)
    suggested = diagnosed(-X, X, mismatch)
    assert "the wrong sign" in message(suggested)
    assert (suggested.cause.note.id, suggested.cause.known) == ("subtraction-swapped", CONSISTENT)
    shown = Cause(note("order-matters"), SHOWN)
    assert diagnosed(-X, X, mismatch, known=shown).cause is shown


def test_a_mistake_may_tell_which_rows_are_nan():
    text = describe(NAN_ROWS, SOFTMAX, mistakes=[Mistake(named("a mistake"), lambda: NAN_ROWS)])
    assert (
        "likely cause: a mistake (with this mistake, the reference gives your result here)" in text
    )


@pytest.mark.parametrize(("size", "said"), [(0.02, True), (0.2, False)])
def test_large_errors_are_not_blamed_on_sums_in_16_bits(size, said):
    got = (X + size * randn(67, 131, seed=3)).bfloat16()
    assert ("too few bits" in describe(got, X)) is said


@pytest.mark.parametrize(
    ("rounded", "said"), [(set(), False), ({"fp16"}, False), ({"bf16"}, True), (None, True)]
)
def test_sums_in_16_bits_are_named_if_kernels_compute_in_16_bits(rounded, said):
    for case in (
        ((X + 0.02 * randn(67, 131, seed=3)).bfloat16(), X),
        accumulated(A.bfloat16(), B.bfloat16()),
        softmax_with_sums_in(torch.bfloat16, 0.25),
    ):
        text = describe(*case, rounded=rounded)
        assert bool(re.search("too few bits|is accumulated", text)) is said


def test_a_lower_precision_is_named_if_kernels_have_it():
    got = A.half().float() @ B.half().float()
    assert "lower precision" not in describe(got, PRODUCT, rounded={"fp32", "IEEE"})
    dot = describe(got, PRODUCT, rounded={"fp32", "TF32"})
    assert "lower precision: a tl.dot in tf32" in dot
    cast = describe(got, PRODUCT, rounded={"fp32", "IEEE", "to fp16"})
    assert "lower precision: a cast to half precision on the way" in cast
    assert "tf32" not in cast


def test_a_column_alone_shares_nothing():
    truth = X[:, :1] * 3
    got = (truth * (1 + 0.02 * randn(67, 1, seed=3).abs())).bfloat16()
    text = describe(got, truth, rounded={"bf16"})
    assert "whole row" not in text


def test_mistakes_are_tried_for_a_limited_time(monkeypatch):
    monkeypatch.setattr(observations, "MAX_SECONDS", -1.0)
    text = describe(-X, X, mistakes=[Mistake(A_MISTAKE, lambda: -X)])
    assert "a mistake" not in text
    assert "the wrong sign" in text


def test_what_is_wrong_is_data():
    fault = diagnosed(
        -X, X, compare.compare(-X, X.double(), X), mistakes=[Mistake(A_MISTAKE, lambda: -X)]
    )
    worst = fault.numbers["index"]
    assert fault.kind == "wrong-result"
    assert fault.tensor == "the result"
    assert (fault.cause.note, fault.cause.known) == (A_MISTAKE, PROVEN)
    assert fault.numbers["wrong"] == fault.numbers["total"] == X.numel()
    assert fault.numbers["got"] == -fault.numbers["expected"] == -float(X[tuple(worst)])
    assert [it.id for it in fault.said] == ["wrong-elements", "worst-element", "where-wrong"]
    assert json.loads(json.dumps(fault.plain())) == fault.plain()


def test_guesses_are_causes():
    assert WORDS.keys() >= symptoms.GUESSES


def test_a_scalar_gets_its_numbers_and_no_more():
    head, numbers = describe(torch.tensor(3.0), torch.tensor(3.5)).splitlines()
    assert head == "the result is wrong in 1 of 1 element"
    assert numbers.startswith("got 3, expected 3.5; off by 0.5")


def test_the_map_of_a_matrix():
    got = changed(X, (slice(64, None),), math.nan)
    got[0:5, 0:5] = 9.0
    got[20, 130] = 9.0
    lines = describe(got, X).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("map of the result"))
    assert "(67 x 131), one character per tile of 5 x 5" in lines[start]
    rows = [line.strip() for line in lines[start + 1 : start + 15]]
    assert rows[0] == "X" + "." * 26
    assert rows[4] == "." * 26 + "x"
    assert rows[11] == "." * 27
    assert rows[12] == rows[13] == "?" * 27
    assert not lines[start + 15].startswith("    ")


def test_the_map_of_a_vector_is_folded():
    lines = describe(changed(LINE, slice(992, None), 0.0), LINE).splitlines()
    drawn = [line.strip() for line in lines if line.startswith("    ")]
    assert "one character per 2 elements" in "".join(lines)
    assert drawn == ["." * 32] * 15 + ["." * 16 + "XXXX"]


def test_no_map_that_would_show_nothing():
    for index, value in (((COLUMNS, slice(0, None, 2)), 0.0), ((3, 4), 9.0), ((), -X)):
        assert "map of" not in describe(changed(X, index, value), X)


def test_no_map_beside_a_mistake_that_explains_all():
    got = changed(X, (slice(3, 9),), 7.0)
    assert "map of" in describe(got, X)
    made = describe(got, X, mistakes=[Mistake(named("rows of sevens"), lambda: got)])
    assert "rows of sevens (with this mistake, the reference gives your result here)" in made
    assert "map of" not in made


@pytest.mark.parametrize(
    ("indices", "length", "words"),
    [
        (range(64, 67), 67, "elements 64..66: only the last, partial tile (blocks of 8 to 64)"),
        (range(96, 100), 100, "elements 96..99: only the last, partial tile (blocks of 8 to 32)"),
        (range(32, 100), 100, "elements 32..99: all after the first 32"),
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
    assert [say(region.where) for region in report.where(wrong)] == [words]


def test_where_tells_a_rectangle_from_a_triangle():
    wrong = torch.zeros(64, 64, dtype=torch.bool)
    wrong[8:24, 32:48] = True
    assert [say(region.where) for region in report.where(wrong)] == ["rows 8..23", "columns 32..47"]


DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int32, torch.int64, torch.bool])
@pytest.mark.parametrize(
    "shape", [(), (1,), (2,), (5,), (700,), (1, 9), (9, 1), (33, 40), (2, 3, 4, 5)]
)
def test_any_wrong_result_is_described(dtype, shape):
    for seed in range(8):
        generator = seeded(seed)
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
        if compare.compare(got, truth, yardstick):
            inputs = {"x": yardstick, "n": torch.tensor(3), "row": torch.ones(shape[-1:])}
            assert describe(got, truth, **inputs).startswith("the result is wrong in")
