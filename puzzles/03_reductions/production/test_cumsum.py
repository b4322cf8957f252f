"""Tests of 03.6, cumulative sum, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, far_apart, integers, offset, randn, strided
from course.values import special_values

puzzle = challenge("cumsum")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x")


def test_shapes_x_is_of_integers():
    puzzle.check_or_raises(integers(4, 5, dtype="int32"), names="x")


# Any size and layout.


def test_masks_masked_lanes():
    # Masked lanes of a load without `other` spoil the result here.
    puzzle.check(integers(67, 43, low=1))


@cases(more_rows_than_columns=(130, 7), ragged=(37, 5000), very_long=(1, 2**18 + 1))
def test_masks(M, N):
    puzzle.check(integers(M, N, low=1))


def test_masks_transposed():
    puzzle.check(integers(300, 41, low=1).T)


def test_masks_both_strides():
    puzzle.check(strided(integers(21, 130, low=1), 2, 3))


def test_masks_unaligned():
    puzzle.check(offset(integers(20, 256, low=1)))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 300)))
def test_masks_expanded(shape, to):
    puzzle.check(integers(*shape, low=1).expand(*to))


def test_masks_offsets_beyond_32_bits():
    x = far_apart(integers(3, low=1, dtype="float16"))
    puzzle.check(x[:, None])
    puzzle.check(x[None, :])


@cases(of_1024=1025, of_2048=2049, of_4096=4097, of_8192=8193)
def test_masks_steps_beyond_32_bits(N):
    # Only a stride times the length of a step overflows.
    puzzle.check(far_apart(integers(N, dtype="float16"))[None, :])


def test_masks_more_rows_than_axis_1_takes():
    puzzle.check_grid(integers(1, 1025, dtype="float16").expand(65537, 1025))


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, 1025, dtype="float16").expand(2**21 + 1, 1025))


def test_masks_limits():
    puzzle.limits(lambda M, N: (integers(M, N, low=1),), dtypes=FLOATS, M=2**17, N=2**18)


# Any value.


def test_numerics_special_values_stay_in_their_row_and_behind():
    inf, nan = float("inf"), float("nan")
    x = randn(6, 5000)
    x[0, 4500], x[1, 4999], x[2, 700] = inf, -inf, nan
    x[3, 10], x[3, 3000] = inf, -inf
    puzzle.check(x)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(6, 70, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(long_rows=(3, 20000), very_long_rows=(1, 2**17))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N)).check(
        reads={"x": 1, "result": 0}, writes=1, launches=1, sectors=1.1, total_reads=1.1 * M * N
    )


def test_traffic_transposed():
    puzzle.traffic(randn(1000, 48).T).check(reads={"x": 1, "result": 0}, writes=1, launches=1)


def test_compiles_one_column():
    puzzle.compiles(randn(300, 1))


def test_compiles_transposed():
    puzzle.compiles(randn(300, 41).T)


def test_speedup():
    puzzle.race(randn(8192, 8192), at_least=0.9, baseline="solution")
