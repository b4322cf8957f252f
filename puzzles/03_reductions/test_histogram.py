"""Tests of 03.7, histogram."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers

puzzle = challenge("histogram")


@cases(several_blocks=20_000, one_block=1024, single_element=1)
def test_shapes(N):
    puzzle.check(integers(N, low=0, high=10, dtype="int32"), 10)


@cases(no_power_of_two=7, many=256, one_past_256=257, a_thousand=1000, two=2, one=1)
def test_shapes_number_of_bins(bins):
    puzzle.check(integers(3000, low=0, high=bins, dtype="int32"), bins)


@cases(
    one_short_of_a_block=1023,
    one_past_a_block=1025,
    last_block_of_one=2**15 + 1,
    many_programs=300_001,
)
def test_masks(N):
    puzzle.check(integers(N, low=0, high=100, dtype="int32"), 100)


@dtypes("int32", "int64")
def test_numerics(dtype):
    puzzle.check(integers(5000, low=0, high=100, dtype=dtype), 100)


@cases(few_bins=16, many_bins=1000)
def test_numerics_all_elements_equal(bins):
    # All programs add to one count.
    puzzle.check(integers(20_000, low=7, high=8, dtype="int32"), bins)


def test_traffic():
    x = integers(20_000, low=0, high=10, dtype="int32")
    puzzle.traffic(x, 10).check(reads={"x": 1}, sectors={"x": 1.1}, scratch=10)


@dtypes("int32", "int64")
def test_compiles(dtype):
    puzzle.compiles(integers(20_000, low=0, high=100, dtype=dtype), 100)


def test_speedup():
    puzzle.race(integers(2**26, low=0, high=256, dtype="int32"), 256, at_least=3)
