"""Tests of 03.5, Welford, in production."""

from course.challenge import challenge
from course.inputs import FLOATS, cases, dtypes, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("welford", results=("mean", "variance"))


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x")


def test_shapes_x_is_of_integers():
    # A mean rounded to an integer means nothing, so no answer is right.
    puzzle.check_or_raises(integers(4, 5, dtype="int32"), names="x", answer=False)


# Any size and layout.


def test_masks_masked_lanes():
    # Masked lanes of a load without `other` spoil the result here.
    puzzle.check(integers(67, 43, low=1, high=9))


@cases(more_rows_than_columns=(130, 7), ragged=(37, 5000), very_long=(1, 2**18 + 1))
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


@cases(of_1024=1025, of_2048=2049, of_4096=4097, of_8192=8193)
def test_masks_steps_beyond_32_bits(N):
    # Only a stride times the length of a step overflows.
    puzzle.check(far_apart(integers(N, dtype="float16"))[None, :])


def test_masks_more_rows_than_axis_1_takes():
    puzzle.check_grid(integers(1, 2049, dtype="float16").expand(65537, 2049))


def test_masks_limits():
    puzzle.limits(lambda M, N: (randn(M, N),), dtypes=FLOATS, M=2**17, N=2**18)


# Any value.


@dtypes("float16", "float32")
def test_numerics_one_column_has_no_variance(dtype):
    puzzle.check(randn(5, 1, dtype=dtype))


def test_numerics_tiny_numbers():
    puzzle.check(randn(4, 9000) * 1e-15)


def test_numerics_mean_far_from_zero_in_a_very_long_row():
    puzzle.check(1e4 + randn(1, 200_000))


def test_numerics_last_block_far_from_the_others():
    x = randn(2, 8200)
    x[:, 8190:] += 1000
    puzzle.check(x)


def test_numerics_constant_rows():
    # The square of the last of them is beyond float32, the variance is 0.
    puzzle.check(tensor([[3.0], [1e4], [0.0], [2.0**70]]).expand(4, 5000).contiguous())


def test_numerics_one_huge_value():
    x = randn(3, 5000)
    x[0, 4999], x[1, 0] = 1e15, -1e10
    puzzle.check(x)


# Of inf: the mean is inf as a sum, and inf - inf where it is updated, as Welford does.
test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(6, 70, dtype="float16"),), "x", apart={"x": ("inf", "minus_inf")}
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(long_rows=(3, 20000), very_long_rows=(1, 2**17))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N)).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1)


def test_traffic_transposed():
    puzzle.traffic(randn(1000, 48).T).check(reads={"x": 1}, writes=1, launches=1)


def test_compiles_one_column():
    puzzle.compiles(randn(300, 1))


def test_compiles_transposed():
    puzzle.compiles(randn(300, 41).T)


def test_speedup():
    puzzle.race(randn(4096, 16384), at_least=0.9, baseline="solution")
