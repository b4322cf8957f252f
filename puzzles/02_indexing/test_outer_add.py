"""Tests of 02.1, outer addition."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("outer_add")


@cases(whole_tiles=(64, 256), one_row=(1, 3000), one_column=(3000, 1), single_element=(1, 1))
def test_shapes(M, N):
    puzzle.check(integers(M), integers(N))


@cases(
    ragged_everywhere=(67, 131),
    one_past_a_block=(65, 257),
    one_short_of_a_block=(63, 255),
    many_rows=(2100, 20),
    many_columns=(20, 2100),
)
def test_masks(M, N):
    puzzle.check(integers(M), integers(N))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(100, dtype=dtype), randn(200, dtype=dtype))


def test_traffic():
    puzzle.traffic(randn(256), randn(256)).check(
        reads={"x": 16, "y": 16}, writes=1, launches=1, sectors={"result": 1.1}
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(67, dtype=dtype), randn(131, dtype=dtype))


def test_speedup():
    puzzle.race(randn(16384), randn(16384), at_least=0.8)
