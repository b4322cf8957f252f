"""Tests of 03.2, row argmax."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor, uniform

puzzle = challenge("row_argmax")


@cases(square=(32, 32), one_row=(1, 1000), one_column=(200, 1), single_element=(1, 1))
def test_shapes(M, N):
    puzzle.check(randn(M, N))


@cases(
    rows_shorter_than_a_block=(67, 43),
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    many_blocks=(3, 20001),
)
def test_masks(M, N):
    # All are negative: a masked lane that counts as 0 would win.
    x = uniform(M, N, low=-3, high=-2)
    puzzle.check(x)
    x[:, -1] = -1
    puzzle.check(x)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(17, 3000, dtype=dtype))


@cases(within_a_block=(40, 300), over_many_blocks=(3, 9000))
def test_numerics_ties(M, N):
    puzzle.check(integers(M, N, low=-2, high=3))
    puzzle.check(integers(M, N, low=5, high=6))


def test_numerics_neighbouring_numbers():
    puzzle.check(tensor([[1.0, 1.0 + 2**-23, 1.0], [2.0**24, 2.0**24 + 2, 2.0**24 + 4]]))


def test_traffic():
    puzzle.traffic(randn(48, 1000)).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1)


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(37, 5000, dtype=dtype))


def test_speedup():
    puzzle.race(randn(16384, 4096), at_least=0.4)
