"""Tests of 01.1, copy, in production."""

from course.challenge import challenge
from course.inputs import REAL, cases, dtypes, integers, offset, randn, reserve, strided, tensor
from course.values import special_values

puzzle = challenge("vector_copy", exact=True)


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
    puzzle.limits(lambda N: (randn(N),), dtypes=(*REAL, "float8_e4m3fn"), N=2**21)


# Any dtype and value.


@dtypes(
    *("bool", "uint8", "uint16", "int8", "int16", "int32", "int64"),
    *("float8_e4m3fn", "float64"),
)
def test_numerics(dtype):
    puzzle.check(integers(777, low=0, high=100, dtype=dtype))


def test_numerics_special_values():
    puzzle.check(tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-45]))


@cases(int64=([2**53 + 1, -(2**62) - 1], "int64"), float64=([1 + 2**-40, 1e300, 5e-324], "float64"))
def test_numerics_numbers_that_float32_cannot_hold(values, dtype):
    puzzle.check(tensor(values, dtype))


test_numerics_each_special_value = special_values(puzzle, lambda: (randn(70),), "x")


def test_speedup():
    puzzle.race(randn(2**26), at_least=0.9, baseline="solution")
