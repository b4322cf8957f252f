"""Tests of 17.1, persistent softmax, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    cases,
    far_apart,
    integers,
    multiprocessors,
    offset,
    randn,
    strided,
)
from course.values import special_values

puzzle = challenge("persistent_softmax")
INF, NAN = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_has_no_rows():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x")


def test_shapes_x_is_of_integers():
    # Probabilities rounded to integers mean nothing, so no answer is right.
    puzzle.check_or_raises(integers(4, 5, dtype="int32"), names="x", answer=False)


def test_shapes_rows_are_too_long():
    puzzle.check_or_raises(randn(1, 2**16 + 1), names="x")


# Any size and layout.


@cases(
    longest_rows=(2, 2**16),
    fewer_long_rows_than_programs=(multiprocessors() - 1, 9000),
    one_long_row_more_than_most_programs=(8 * multiprocessors() + 1, 9000),
    many_short_rows=(1237, 37),
    one_column=(1000, 1),
)
def test_masks(M, N):
    puzzle.check(randn(M, N))


def test_masks_transposed():
    puzzle.check(randn(300, 41).T)


def test_masks_both_strides():
    puzzle.check(strided(randn(21, 130), 2, 3))


def test_masks_unaligned():
    puzzle.check(offset(randn(20, 256)))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 300)))
def test_masks_expanded(shape, to):
    puzzle.check(randn(*shape).expand(*to))


def test_masks_offsets_beyond_32_bits():
    x = far_apart(integers(3, dtype="float16"))
    puzzle.check_offsets(x[:, None])
    puzzle.check_offsets(x[None, :])


def test_masks_result_beyond_32_bits():
    with puzzle.given(multiprocessors=2**30):
        puzzle.check_large_offsets(randn(1, 1, dtype="float16").expand(2**16 + 1, 2**15))


# Any value.


def test_masks_all_far_below_zero():
    puzzle.check(randn(37, 43) - 200)


def test_masks_limits():
    puzzle.limits(lambda M, N: (randn(M, N),), dtypes=FLOATS, M=2**17, N=2**16)


@cases(far_above=1e4, far_below=-1e4)
def test_numerics_mean_far_from_zero(mean):
    puzzle.check(randn(5, 700) + mean)


@cases(long_rows=(14, 5000), short_rows=(37, 50))
def test_numerics_special_values_stay_where_they_are(M, N):
    x = randn(M, N)
    x[0, 3], x[1, N - 1], x[2, N // 7] = INF, -INF, NAN
    x[3, 0], x[3, 1] = INF, -INF
    x[4] = -INF
    puzzle.check(x)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(30, 300, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_many_short_rows():
    puzzle.traffic(randn(3000, 48)).check(
        reads=1, writes=1, launches=1, sectors=1.1, grid_at_most=8 * multiprocessors()
    )


@cases(one_column=(300, 1), longest_rows=(1, 2**16))
def test_compiles(M, N):
    puzzle.compiles(randn(M, N))


def test_compiles_transposed():
    puzzle.compiles(randn(300, 41).T)


def test_speedup():
    puzzle.race(randn(16384, 4096, dtype="bfloat16"), at_least=0.9, baseline="solution")
