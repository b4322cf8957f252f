"""Tests of 04.1, softmax."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("softmax")


@cases(square=(32, 32), one_row=(1, 1024), one_column=(300, 1), single_element=(1, 1))
def test_shapes(M, N):
    puzzle.check(randn(M, N))


@cases(
    rows_shorter_than_a_block=(67, 43),
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    longest=(2, 8191),
)
def test_masks(M, N):
    puzzle.check(randn(M, N))


def test_masks_all_far_below_zero():
    # A masked lane that counts as 0 would be the largest of its row.
    # So would a maximum that begins at 0: exp of the difference is 0 everywhere.
    puzzle.check(randn(67, 43) - 200)


def test_numerics_equal_shares():
    puzzle.check(integers(67, 48, low=3, high=4))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(17, 3000, dtype=dtype) * 3)


@dtypes("float32", "float16", "bfloat16")
def test_numerics_large_values_do_not_overflow(dtype):
    puzzle.check(randn(5, 700, dtype=dtype) * 1000)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # 3000 terms near 1: a sum in bfloat16 stops growing at 256, one in float16 at 2048.
    puzzle.check(randn(3, 3000, dtype=dtype) / 64)


def test_traffic():
    puzzle.traffic(randn(48, 1000)).check(reads=1, writes=1, launches=1, sectors=1.1)


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(37, 1000, dtype=dtype))


def test_speedup():
    puzzle.race(randn(16384, 4096, dtype="bfloat16"), at_least=4)
