"""Tests of 03.4, variance."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor

puzzle = challenge("variance")


@cases(square=(32, 32), one_row=(1, 1000), two_columns=(200, 2), two_elements=(1, 2))
def test_shapes(M, N):
    puzzle.check(randn(M, N))


@cases(
    rows_shorter_than_a_block=(67, 43),
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    longest=(2, 8191),
)
def test_masks(M, N):
    puzzle.check(integers(M, N, low=1, high=9))


def test_numerics_unbiased():
    puzzle.check(tensor([[0.0, 2.0, 4.0], [1.0, -1.0, 0.0], [5.0, 5.0, 5.0]]))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(17, 3000, dtype=dtype))


@cases(mean_10000=(1e4, 1.0), mean_minus_300=(-300.0, 0.5))
def test_numerics_mean_far_from_zero(mean, deviation):
    puzzle.check(mean + randn(8, 3000) * deviation)


@cases(float16=("float16", 1000.25), bfloat16=("bfloat16", 100.25))
def test_numerics_mean_in_float32(dtype, mean):
    # The mean lies between two numbers of the dtype.
    puzzle.check((mean + randn(8, 3000) / 2).to(tensor([], dtype).dtype))


def test_traffic():
    puzzle.traffic(randn(48, 1000)).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1)


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(37, 2500, dtype=dtype))


def test_speedup():
    puzzle.race(randn(16384, 4096), at_least=2)
