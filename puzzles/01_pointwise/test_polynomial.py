"""Tests of 01.7, polynomial."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor, uniform

puzzle = challenge("polynomial")

EIGHT = (0.5, -1.25, 2.0, 0.75, -0.5, 1.5, -2.25, 1.0)


@cases(one_block=1024, several_blocks=8192, single_element=1)
def test_shapes(N):
    puzzle.check(integers(N), (3, -2, 1))


@cases(one=1, two=2, three=3, eight=8)
def test_shapes_number_of_coefficients(count):
    puzzle.check(integers(100), EIGHT[:count])


@cases(last_block_of_one=1025, one_short_of_a_block=1023, ragged=20001)
def test_masks(N):
    puzzle.check(integers(N), (3, -2, 1))


def test_numerics_order_of_coefficients():
    puzzle.check(tensor([0.0, 1.0, 2.0, 10.0, -1.0]), (1, 2, 3, 4, 5))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(uniform(3000, low=-1.5, high=1.5, dtype=dtype), EIGHT)


@dtypes("float16", "bfloat16")
def test_numerics_steps_in_float32(dtype):
    # 4097 does not fit 16 bits, and is needed on the way to 1 and its neighbours.
    puzzle.check_exactly(tensor([1 + i / 128 for i in range(-8, 9)], dtype), (-4096, 4097, 0))


def test_traffic():
    puzzle.traffic(randn(5000), EIGHT).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1)


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(5000, dtype=dtype), EIGHT)


def test_speedup():
    puzzle.race(randn(2**26), EIGHT, at_least=9)
