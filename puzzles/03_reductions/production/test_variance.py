"""Tests of 03.4, variance, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, dtypes, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("variance")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x")


def test_shapes_x_is_of_integers():
    # A variance rounded to an integer means nothing, so no answer is right.
    puzzle.check_or_raises(integers(4, 5, dtype="int32"), names="x", answer=False)


def test_shapes_rows_are_too_long():
    puzzle.check_or_raises(randn(1, 2**15 + 1), names="x")


# Any size and layout.


def test_masks_masked_lanes():
    # Masked lanes of a load without `other` spoil the result here.
    puzzle.check(integers(67, 43, low=1, high=9))


@cases(more_rows_than_columns=(130, 7), ragged=(37, 2500), longest=(2, 2**15))
def test_masks(M, N):
    puzzle.check(integers(M, N, low=1, high=9))


def test_masks_transposed():
    puzzle.check(integers(300, 41).T)


def test_masks_both_strides():
    puzzle.check(strided(integers(21, 130), 2, 3))


def test_masks_unaligned():
    puzzle.check(offset(integers(20, 256)))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 300)))
def test_masks_expanded(shape, to):
    puzzle.check(integers(*shape).expand(*to))


def test_masks_offsets_beyond_32_bits():
    x = far_apart(integers(3, dtype="float16"))
    puzzle.check(x.expand(2, 3).T)
    puzzle.check(x[None, :])


def test_masks_more_rows_than_axis_1_takes():
    puzzle.check_grid(integers(1, 1025, dtype="float16").expand(65537, 1025))


def test_masks_limits():
    puzzle.limits(lambda M, N: (randn(M, N),), dtypes=FLOATS, M=2**17, N=2**15)


# Any value.


@dtypes("float16", "float32")
def test_numerics_one_column_is_nan(dtype):
    puzzle.check(randn(5, 1, dtype=dtype))


def test_numerics_tiny_numbers():
    puzzle.check(randn(8, 3000) * 1e-15)


def test_numerics_constant_rows():
    puzzle.check(tensor([[3.0], [1e4], [0.0]]).expand(3, 1500).contiguous())


def test_numerics_one_huge_value():
    x = randn(3, 1500)
    x[0, 1499], x[1, 0] = 1e15, -1e10
    puzzle.check(x)


def test_numerics_special_values_stay_in_their_row():
    x = randn(5, 1500)
    x[0, 3], x[1, 1499], x[2, 700] = float("inf"), float("-inf"), float("nan")
    puzzle.check(x)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(6, 70, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_of_the_longest_rows():
    puzzle.traffic(randn(2, 2**15)).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1)


def test_traffic_transposed():
    puzzle.traffic(randn(1000, 48).T).check(reads={"x": 1}, writes=1, launches=1)


@cases(one_column=(300, 1), longest_rows=(2, 2**15))
def test_compiles(M, N):
    puzzle.compiles(randn(M, N))


def test_compiles_transposed():
    puzzle.compiles(randn(300, 41).T)


def test_speedup():
    puzzle.race(randn(16384, 4096), at_least=0.9, baseline="solution")
