"""Tests of 19.2, Gluon softmax."""

from course.challenge import broken_rule, challenge
from course.inputs import cases, dtypes, integers, multiprocessors, randn

puzzle = challenge("gluon_softmax")


@cases(
    many_rows_a_program=(40 * multiprocessors() + 1, 1000),
    one_row=(1, 1000),
    shortest_rows=(100, 8),
    smallest=(1, 8),
)
def test_shapes(M, N):
    puzzle.check(randn(M, N))


@cases(
    last_turn_of_some_programs=(3 * multiprocessors() - 1, 2048),
    short_rows_last_tile_ragged=(151, 40),
    one_short_of_a_block=(9, 1016),
    one_past_a_block=(9, 1032),
    longest_rows=(5, 8192),
)
def test_masks(M, N):
    puzzle.check(randn(M, N))


def test_masks_six_multiprocessors():
    # Their number is no power of two on most GPUs.
    with puzzle.given(multiprocessors=6):
        puzzle.check(randn(80, 1000))


def test_masks_all_far_below_zero():
    # What is masked off a copy is 0, which would be the largest of its row.
    # So would a maximum that begins at 0: exp of the difference is 0 everywhere.
    puzzle.check(randn(37, 40) - 200)


@cases(**{f"many_rounds_{number}": number for number in range(4)})
def test_masks_other_orders(number):
    # Another case runs in another order: copies land at other times.
    puzzle.check(randn(30 * multiprocessors() + number, 520))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(17, 3000, dtype=dtype) * 3)


def test_numerics_each_row_has_its_own_maximum():
    # What is carried from one row to the next of the same program shows.
    x = randn(37, 1000)
    x[::2] += 1000
    puzzle.check(x)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # 3000 terms near 1: a sum in bfloat16 stops growing at 256, one in float16 at 2048.
    puzzle.check(randn(3, 3000, dtype=dtype) / 64)


@cases(short_rows=(150, 48), long_rows=(20 * multiprocessors(), 2000))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N)).check(reads=1, writes=1, launches=1, sectors=1.1)


def test_traffic_rows_come_ahead():
    if not puzzle.traffic(integers(100 * multiprocessors(), 1000)).ahead:
        raise broken_rule(
            "no copy is under way while a row is stored: each row is fetched when it is needed",
            "start the copy of the next row into another buffer before you compute this one",
        )


@dtypes("float32", "bfloat16")
def test_compiles(dtype):
    x = randn(37, 3000, dtype=dtype)
    puzzle.compiles(x, targets=["sm_90"], asked=["asynchronous copies"], spills=0)


def test_speedup():
    puzzle.race(randn(16384, 4096, dtype="bfloat16"), at_least=3)
