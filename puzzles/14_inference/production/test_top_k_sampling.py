"""Tests of 14.4, top-k sampling, in production."""

import pytest

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    along,
    cases,
    dtypes,
    far_apart,
    integers,
    randn,
    sampling,
    strided,
    tensor,
)
from course.values import special_values

puzzle = challenge("top_k_sampling")


def check(logits, *how):
    puzzle.check(logits, *sampling(logits, *how))


def wrong(names, *changed, logits=None, uniform=None):
    """Check that a call with these arguments changed raises an error that names one of them."""
    logits = randn(3, 20) if logits is None else logits
    uniform = tensor([0.2, 0.5, 0.8]) if uniform is None else uniform
    puzzle.check_or_raises(logits, uniform, *(changed or (5,)), names=names, answer=False)


# Bad input.


def test_shapes_logits():
    wrong("logits", logits=randn(20))
    wrong("logits", logits=randn(3, 4, 5))
    wrong("logits", logits=randn(3, 0))
    wrong("logits", logits=randn(3, 20, dtype="float64"))
    wrong("logits", logits=integers(3, 20, dtype="int32"))


def test_shapes_uniform():
    wrong("uniform", uniform=tensor([0.2, 0.5]))
    wrong("uniform", uniform=tensor([[0.2], [0.5], [0.8]]))
    wrong("uniform", uniform=tensor([0.2, 0.5, 0.8], "float16"))


@cases(zero=0, negative=-1)
def test_shapes_k(k):
    wrong("k", k)


@cases(zero=0.0, negative=-1.0, infinite=float("inf"), nan=float("nan"))
def test_shapes_temperature(temperature):
    wrong("temperature", 5, temperature)


@cases(zero=0.0, above_1=1.5, nan=float("nan"))
def test_shapes_p(p):
    wrong("p", 5, 1.0, p)


# Any layout.


def test_masks_transposed():
    check(randn(300, 2).T, 5, 1.0, 0.8)


def test_masks_every_stride():
    logits = randn(2, 300)
    uniform, *how = sampling(logits, 5)
    puzzle.check(strided(logits, 2, 3), strided(uniform, 2), *how)


def test_masks_a_row_expanded():
    check(randn(1, 300).expand(3, 300), 5)


def test_masks_more_rows_than_axis_1_takes():
    logits = randn(1, 3)
    puzzle.check_grid(logits.expand(70_000, 3), tensor([0.5]).expand(70_000), 2)


@cases(rows=0, tokens=1)
def test_masks_offsets_beyond_32_bits(dim):
    check(along(far_apart(randn(3, dtype="float16")), dim, 3, 3), 2)


def test_masks_limits():
    def build(B, V, k):
        # No dtype rounds these, and so `sampling` keeps clear of the same borders in each.
        logits = randn(B, V + k - 1, dtype="bfloat16").float()
        # The last token is the likeliest.
        logits[:, -1] = 9
        return logits, *sampling(logits, k)

    puzzle.limits(build, dtypes={"logits": FLOATS}, B=2**14, V=2**18, k=2**12)


# Any value.


@cases(k_alone=(20, 1.0), k_and_p=(20, 0.8))
def test_numerics_long_rows(k, p):
    check(randn(1, 20_000) * 2, k, 0.8, p)


def test_numerics_long_rows_of_equal_tokens():
    # More than a solution may have made room for.
    logits = randn(1, 20_000)
    logits[:, 5000:5500] = 9.0
    check(logits, 5)


def test_numerics_long_rows_of_banned_tokens():
    logits = randn(1, 20_000)
    logits[:, 300:19_000] = float("-inf")
    check(logits, 10)


def test_numerics_zero_of_either_sign():
    zeros = integers(2, 300, low=0, high=1)
    check(zeros * randn(2, 300), 1)


@dtypes("float16", "bfloat16")
def test_numerics_ties_of_half_precision(dtype):
    check(randn(2, 2000, dtype=dtype) * 0.1, 50)


@pytest.mark.parametrize("end", [0.0, 1 - 2**-24], ids=["first", "last"])
def test_numerics_ends_of_uniform(end):
    logits = randn(2, 300)
    logits[:, :3] = logits[:, -3:] = float("-inf")
    puzzle.check(logits, tensor([end, end]), 300)
    puzzle.check(logits, tensor([end, end]), 5)


# What the spec excludes: NaN and infinity, and of uniform all from 1 on.
EXCLUDED = {
    "logits": ("nan", "inf"),
    "uniform": ("nan", "inf", "minus_inf", "largest", "large"),
}


def none_above_0(*how):
    """Return arguments of a call: none of these logits is as likely as a special one above 0."""
    logits = -randn(3, 300).abs() - 0.1
    logits[:, 7] = 0.0
    # A uniform number of almost 0 draws the second token, unless a special one is the first.
    logits[:, 0] = float("-inf")
    return logits, *sampling(logits, *how)


test_numerics_each_special_value = special_values(
    puzzle, lambda: none_above_0(40, 2.0, 0.8), "logits uniform", EXCLUDED
)
test_numerics_each_special_value_of_the_best = special_values(
    puzzle, lambda: none_above_0(1), "logits", {"logits": EXCLUDED["logits"]}
)


@cases(cold=0.01, hot=50.0)
def test_numerics_temperature(temperature):
    check(randn(2, 300), 300, temperature)


def test_numerics_far_below_0():
    check(randn(2, 300) - 1e30, 5)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_half_precision():
    logits = randn(2, 2048, dtype="bfloat16") * 2
    puzzle.traffic(logits, *sampling(logits, 2048, 0.7, 0.9)).check(
        reads={"logits": 72}, writes=1, largest_write=2 * 2048 // 8
    )


@cases(short=(300, 5), long=(20_000, 20))
def test_compiles(V, k):
    logits = randn(2, V, dtype="bfloat16")
    puzzle.compiles(logits, *sampling(logits, k))


def test_compiles_sizes_of_1():
    puzzle.compiles(randn(1, 1), tensor([0.5]), 1, 0.7, 0.9)


def test_speedup():
    logits = randn(64, 128256) * 2
    puzzle.race(logits, *sampling(logits, 50, 0.7, 0.9), at_least=3)


def test_speedup_over_our_solution():
    logits = randn(64, 128256) * 2
    inputs = logits, *sampling(logits, 50, 0.7, 0.9)
    puzzle.race(*inputs, at_least=0.9, baseline="solution")
