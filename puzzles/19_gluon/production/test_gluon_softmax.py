"""Tests of 19.2, Gluon softmax, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, integers, multiprocessors, offset, randn, reserve, strided
from course.values import special_values

puzzle = challenge("gluon_softmax")
INF, NAN = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_has_no_rows():
    puzzle.check_or_raises(randn(16), names="x")
    puzzle.check_or_raises(randn(2, 3, 8), names="x")


def test_shapes_x_is_of_integers():
    # Probabilities rounded to integers mean nothing, so no answer is right.
    puzzle.check_or_raises(integers(4, 8, dtype="int32"), names="x", answer=False)


def test_shapes_rows_are_too_long():
    puzzle.check_or_raises(randn(1, 8200), names="x")


# Any size and layout.


@cases(
    rows_of_16_bytes=(37, 4),
    many_short_rows=(1237, 24),
    longest_rows=(2 * multiprocessors() + 1, 8192),
    a_tile_and_a_row=(65, 512),
)
def test_masks(M, N):
    puzzle.check(randn(M, N))


def test_masks_rows_of_a_larger_matrix():
    puzzle.check(randn(70, 1024)[:, 128:840])


@cases(
    not_aligned=lambda x: offset(x),
    gaps_in_the_rows=lambda x: strided(x, 1, 2),
    transposed=lambda x: x.T.contiguous().T,
    odd_rows=lambda x: x[:, :711].contiguous(),
    odd_rows_of_a_larger_matrix=lambda x: x[:, :711],
    one_row_repeated=lambda x: x[:1].expand(x.shape),
)
def test_masks_what_copies_cannot_address(change):
    puzzle.check_or_raises(change(randn(16, 712)), names="x")


def test_masks_rows_of_8_bytes_in_16_bits():
    puzzle.check_or_raises(randn(16, 20, dtype="bfloat16"), names="x")


def test_masks_offsets_beyond_32_bits():
    x = reserve(2**31 + 64, "float16").as_strided((3, 8), (2**30 + 8, 1))
    puzzle.check_offsets(x.copy_(integers(3, 8)))


def test_masks_limits():
    # With few programs each takes many turns.
    with puzzle.given(multiprocessors=1):
        puzzle.limits(lambda M, N: (randn(M, N),), dtypes=FLOATS, M=2**17, N=range(8, 8193, 8))


@cases(**{f"many_rounds_{number}": number for number in range(20)})
def test_masks_other_orders(number):
    puzzle.check(randn(30 * multiprocessors() + number, 520))


# Any value.


def test_masks_all_far_below_zero():
    puzzle.check(randn(37, 40) - 200)


@cases(far_above=1e4, far_below=-1e4)
def test_numerics_mean_far_from_zero(mean):
    puzzle.check(randn(5, 696) + mean)


@cases(long_rows=(14, 5000), short_rows=(37, 48))
def test_numerics_special_values_stay_where_they_are(M, N):
    x = randn(M, N)
    x[0, 3], x[1, N - 1], x[2, N // 7] = INF, -INF, NAN
    x[3, 0], x[3, 1] = INF, -INF
    x[4] = -INF
    puzzle.check(x)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(30, 304, dtype="float16"),), "x"
)


# Compilation and speed of what the first level leaves out.


@cases(shortest_rows=(300, 8), longest_rows=(3, 8192), ragged=(67, 1000))
def test_compiles(M, N):
    puzzle.compiles(randn(M, N), targets=["sm_90"], asked=["asynchronous copies"], spills=0)


def test_speedup():
    puzzle.race(randn(16384, 4096, dtype="bfloat16"), at_least=0.9, baseline="solution")
