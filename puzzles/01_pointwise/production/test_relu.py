"""Tests of 01.3, ReLU, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, integers, offset, randn, reserve, strided, tensor
from course.values import special_values

puzzle = challenge("relu")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_vector():
    puzzle.check_or_raises(randn(4, 4), names="x")


def test_shapes_x_is_not_contiguous():
    puzzle.check_or_raises(strided(randn(10), 2), names="x")


# Any size and layout.


def test_shapes_empty():
    puzzle.check(randn(0))


@cases(last_block_of_one=129, last_block_of_all_but_one=1279)
def test_masks(N):
    puzzle.check(integers(N))


def test_masks_unaligned_view():
    puzzle.check(offset(randn(1000), 3))


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(reserve(2**31 + 77, "float16"))


def test_masks_limits():
    puzzle.limits(lambda N: (randn(N),), dtypes=(*FLOATS, "int32"), N=2**21)


# Any dtype and value.


def test_numerics_int32():
    puzzle.check(integers(3000, dtype="int32"))


def test_numerics_integers_that_float32_cannot_hold():
    puzzle.check(tensor([2**24 + 1, 2**31 - 1, -(2**31), -1], "int32"))


def test_numerics_special_values():
    inf, nan = float("inf"), float("nan")
    puzzle.check(tensor([inf, -inf, nan, 3e38, -3e38, -0.0]))


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(70, dtype="float16"),), "x"
)


def test_speedup():
    puzzle.race(randn(2**26), at_least=0.9, baseline="solution")
