"""Tests of 03.6, cumulative sum."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, uniform

puzzle = challenge("cumsum")


@cases(square=(32, 32), one_row=(1, 1000), one_column=(200, 1), single_element=(1, 1))
def test_shapes(M, N):
    puzzle.check(integers(M, N))


@cases(
    rows_shorter_than_a_block=(67, 43),
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    many_blocks=(3, 9001),
)
def test_masks(M, N):
    puzzle.check(integers(M, N, low=1))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(5, 5000, dtype=dtype))


@dtypes("float16", "bfloat16")
def test_numerics_carry_in_float32(dtype):
    puzzle.check(uniform(3, 20000, low=0.5, high=1.5, dtype=dtype))


def test_traffic():
    puzzle.traffic(randn(48, 1000)).check(
        reads={"x": 1, "result": 0}, writes=1, launches=1, sectors=1.1, total_reads=1.1 * 48 * 1000
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(37, 5000, dtype=dtype))


def test_speedup():
    puzzle.race(randn(8192, 8192), at_least=1)
