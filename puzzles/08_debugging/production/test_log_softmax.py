"""Tests of 08.8, log softmax, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("log_softmax", names_causes=False)
INF, NAN = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x")


def test_shapes_x_of_another_dtype():
    puzzle.check_or_raises(integers(4, 5, dtype="int32"), names="x", answer=False)
    puzzle.check_or_raises(randn(4, 5).double(), names="x")


def test_shapes_rows_are_empty_or_too_long():
    puzzle.check_or_raises(randn(3, 0), names="x")
    puzzle.check_or_raises(randn(1, 2**14 + 1), names="x")


# Any size and layout.


def test_shapes_no_rows():
    puzzle.check(randn(0, 5))


def test_masks_longest():
    puzzle.check(randn(1, 2**14))


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


def test_masks_more_rows_than_axis_1_takes():
    puzzle.check_grid(integers(1, 1025, dtype="float16").expand(65537, 1025))


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, 1025, dtype="float16").expand(2**21 + 1, 1025))


def test_masks_limits():
    puzzle.limits(lambda M, N: (randn(M, N),), dtypes=FLOATS, M=2**17, N=2**14)


# Any value.


def test_numerics_special_values_stay_in_their_row():
    x = randn(6, 900)
    x[0, 3], x[1, 899], x[2, 700] = INF, -INF, NAN
    x[3, 0], x[3, 1] = INF, -INF
    x[4] = -INF
    puzzle.check(x)
    puzzle.check(tensor([[-INF], [NAN], [INF], [3.0]]))


def test_numerics_one_huge_value():
    x = randn(3, 900)
    x[0, 3], x[1, 899], x[2, 500] = 1e30, 3e38, -3e38
    puzzle.check(x)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(6, 300, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(short_rows=(48, 100), longest_rows=(1, 2**14))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N)).check(reads=1, writes=1, launches=1, sectors=1.1)


@cases(one_column=(300, 1), short_rows=(37, 100), ragged_in_float32=(3, 12_345))
def test_compiles(M, N):
    puzzle.compiles(randn(M, N), spills=32)


def test_compiles_transposed():
    puzzle.compiles(randn(5000, 41).T, spills=32)


def test_speedup():
    puzzle.race(randn(8192, 16_384), at_least=0.9, baseline="solution")
