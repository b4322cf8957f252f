"""Tests of 17.1, persistent softmax."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, multiprocessors, randn

puzzle = challenge("persistent_softmax")
# So many programs a kernel may have: eight for each multiprocessor.
MOST = 8 * multiprocessors()


@cases(
    a_row_for_each_program=(multiprocessors(), 1000),
    fewer_rows_than_programs=(multiprocessors() - 1, 5000),
    one_row=(1, 1000),
    one_column=(100, 1),
    single_element=(1, 1),
)
def test_shapes(M, N):
    puzzle.check(randn(M, N))


@cases(
    one_row_more_than_programs=(multiprocessors() + 1, 5000),
    one_row_more_than_most_programs=(MOST + 1, 5000),
    last_turn_of_some_programs=(3 * MOST - 1, 2000),
    many_turns=(11 * MOST + 1, 200),
    short_rows_last_tile_ragged=(150, 37),
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    longest_rows=(5, 8191),
)
def test_masks(M, N):
    puzzle.check(randn(M, N))


def test_masks_six_multiprocessors():
    # Their number is no power of two on most GPUs.
    with puzzle.given(multiprocessors=6):
        puzzle.check(randn(61, 5000))


def test_masks_all_far_below_zero():
    # A masked lane that counts as 0 would be the largest of its row.
    # So would a maximum that begins at 0: exp of the difference is 0 everywhere.
    puzzle.check(randn(37, 43) - 200)


def test_numerics_equal_shares():
    puzzle.check(integers(67, 48, low=3, high=4))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(17, 3000, dtype=dtype) * 3)


def test_numerics_each_row_has_its_own_maximum():
    # What is carried from one row to the next of the same program shows.
    x = randn(2 * MOST + 1, 1500)
    x[:MOST] += 1000
    puzzle.check(x)


@dtypes("float32", "float16", "bfloat16")
def test_numerics_large_values_do_not_overflow(dtype):
    puzzle.check(randn(5, 700, dtype=dtype) * 1000)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # 3000 terms near 1: a sum in bfloat16 stops growing at 256, one in float16 at 2048.
    puzzle.check(randn(3, 3000, dtype=dtype) / 64)


@cases(short_rows=(150, 48), long_rows=(MOST + 1, 5000))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N)).check(reads=1, writes=1, launches=1, sectors=1.1, grid_at_most=MOST)


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(37, 5000, dtype=dtype))


def test_speedup():
    puzzle.race(randn(16384, 4096, dtype="bfloat16"), at_least=4)
