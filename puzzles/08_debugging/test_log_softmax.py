"""Tests of 08.8, log softmax."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("log_softmax", names_causes=False)


@cases(
    long=(8192, "float32"),
    ragged=(12_345, "bfloat16"),
    longest=(16_384, "float32"),
    longest_in_half=(16_384, "bfloat16"),
)
def test_compiles(N, dtype):
    puzzle.compiles(randn(3, N, dtype=dtype), spills=32)


@cases(square=(32, 32), one_row=(1, 1024), one_column=(100, 1), single_element=(1, 1))
def test_shapes(M, N):
    puzzle.check(randn(M, N))


@cases(
    rows_shorter_than_a_block=(67, 43),
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    longest=(2, 16_383),
)
def test_masks(M, N):
    puzzle.check(randn(M, N))


def test_masks_all_far_below_zero():
    # A masked lane that counts as 0 would be the largest of its row.
    # So would a maximum that begins at 0: exp of the difference is 0 everywhere.
    puzzle.check(randn(67, 43) - 200)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(5, 3000, dtype=dtype) * 3)


@dtypes("float32", "float16", "bfloat16")
def test_numerics_large_values_do_not_overflow(dtype):
    puzzle.check(randn(5, 700, dtype=dtype) * 1000)


def test_numerics_equal_shares():
    puzzle.check(integers(7, 48, low=3, high=4))


def test_traffic():
    puzzle.traffic(randn(8, 12_000)).check(reads=1, writes=1, launches=1, sectors=1.1)


def test_speedup():
    puzzle.race(randn(8192, 16_384), at_least=3)
