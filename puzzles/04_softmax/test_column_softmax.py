"""Tests of 04.2, column softmax."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("column_softmax")


@cases(square=(32, 32), one_column=(1000, 1), one_row=(1, 1000), single_element=(1, 1))
def test_shapes(M, N):
    puzzle.check(randn(M, N))


@cases(
    last_block_of_columns_ragged=(48, 1067),
    one_short_of_a_block=(1023, 5),
    one_past_a_block=(1025, 5),
    ragged_everywhere=(500, 131),
    tallest=(2048, 67),
)
def test_masks(M, N):
    puzzle.check(randn(M, N))


def test_masks_all_far_below_zero():
    # A masked lane that counts as 0 would be the largest of its column.
    # So would a maximum that begins at 0: exp of the difference is 0 everywhere.
    puzzle.check(randn(37, 43) - 200)


def test_numerics_equal_shares():
    puzzle.check(integers(48, 67, low=3, high=4))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(1500, 17, dtype=dtype) * 3)


@dtypes("float32", "float16", "bfloat16")
def test_numerics_large_values_do_not_overflow(dtype):
    puzzle.check(randn(700, 5, dtype=dtype) * 1000)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # 2000 terms near 1: a sum in bfloat16 stops growing at 256.
    puzzle.check(randn(2000, 3, dtype=dtype) / 64)


@cases(flat=(48, 1000), tall=(2048, 48))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N)).check(reads=1, writes=1, launches=1, sectors=1.1)


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(500, 131, dtype=dtype))


def test_speedup():
    puzzle.race(randn(2048, 32768), at_least=1)
