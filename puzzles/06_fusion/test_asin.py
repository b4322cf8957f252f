"""Tests of 06.5, arc sine."""

from course.challenge import challenge
from course.inputs import cases, dtypes, randn, uniform

puzzle = challenge("asin")


def within(*shape, dtype="float32"):
    return uniform(*shape, low=-1, high=1, dtype=dtype)


@cases(several_blocks=8192, one_block=1024, single_element=1)
def test_shapes(N):
    puzzle.check(within(N))


@cases(one_short_of_a_block=1023, one_past_a_block=1025, ragged=20001)
def test_masks(N):
    puzzle.check(within(N))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(within(3000, dtype=dtype))


@cases(near_one=(1, -1), near_minus_one=(-1, 1), near_zero=(0, 1e-4))
def test_numerics_ends_and_zero(end, towards):
    puzzle.check(end + uniform(500, high=1e-4) * towards)


@dtypes("float32", "float16", "bfloat16")
def test_numerics_nan_outside_the_domain(dtype):
    puzzle.check(randn(500, dtype=dtype) * 2)


def test_traffic():
    puzzle.traffic(within(5000)).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1)


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(within(5000, dtype=dtype))


def test_speedup():
    puzzle.race(within(2**26), at_least=0.3)
