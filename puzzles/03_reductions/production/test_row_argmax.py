"""Tests of 03.2, row argmax, in production."""

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    cases,
    dtypes,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
    uniform,
)
from course.values import special_values

puzzle = challenge("row_argmax")
inf, nan = float("inf"), float("nan")


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x")


def test_shapes_x_is_of_integers():
    puzzle.check_or_raises(integers(4, 5, dtype="int32"), names="x")


# Any size and layout.


def test_masks_masked_lanes():
    # Masked lanes of a load without `other` spoil the result here.
    puzzle.check(uniform(67, 43, low=-3, high=-2))


@cases(more_rows_than_columns=(130, 7), ragged=(37, 5000), very_long=(1, 2**18 + 1))
def test_masks(M, N):
    x = uniform(M, N, low=-3, high=-2)
    puzzle.check(x)
    x[:, -1] = -1
    puzzle.check(x)


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
    x = far_apart(tensor([1, 2, 3], dtype="float16"))
    puzzle.check(x[:, None])
    puzzle.check(x[None, :])


@cases(of_1024=1025, of_2048=2049, of_4096=4097, of_8192=8193)
def test_masks_steps_beyond_32_bits(N):
    # Only a stride times the length of a step overflows.
    puzzle.check(far_apart(integers(N, dtype="float16"))[None, :])


def test_masks_more_rows_than_axis_1_takes():
    puzzle.check_grid(integers(1, 1025, dtype="float16").expand(65537, 1025))


def test_masks_limits():
    def build(M, N):
        x = randn(M, N)
        x[:, -1] = 9
        return (x,)

    puzzle.limits(build, dtypes=FLOATS, M=2**17, N=2**18)


# Any value.


def test_numerics_zeros_of_either_sign():
    puzzle.check(tensor([[-0.0, 0.0], [0.0, -0.0], [-1.0, -0.0]]))


@dtypes("float16", "bfloat16", "float32")
def test_numerics_rows_of_minus_infinity(dtype):
    puzzle.check(tensor([[-inf] * 5, [-inf, -inf, -60000.0, -inf, -60000.0]], dtype=dtype))
    puzzle.check(tensor([[-inf]], dtype=dtype).expand(3, 9000).contiguous())


def test_numerics_lowest_numbers():
    puzzle.check(tensor([[-3e38, -2e38, -3e38], [-inf, -inf, -3.4e38], [-3.4e38, -inf, -2e38]]))


def test_numerics_infinity_twice():
    puzzle.check(tensor([[1.0, inf, inf, -inf], [inf, 1.0, 1.0, inf]]))


@dtypes("float16", "bfloat16", "float32")
def test_numerics_nan(dtype):
    puzzle.check(tensor([[1, nan, 3, nan], [inf, 1, nan, 1], [nan, inf, 1, 1]], dtype=dtype))
    puzzle.check(tensor([[-inf, -inf, nan], [nan, nan, nan], [1, 2, 3]], dtype=dtype))
    # What 0 * inf gives on a CPU: the bit of the sign is set.
    puzzle.check(-tensor([[-1, nan, -3, nan], [-inf, -1, nan, -1]], dtype=dtype))


def test_numerics_nan_in_different_blocks():
    x = randn(4, 9000)
    x[0, 5000], x[0, 8000] = nan, nan
    x[1, 8999], x[1, 3] = nan, inf
    x[2, 0], x[2, 8999] = nan, inf
    puzzle.check(x)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(6, 70, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


@cases(long=(3, 20000), very_long=(1, 2**17))
def test_traffic_of_long_rows(M, N):
    puzzle.traffic(randn(M, N)).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1)


def test_traffic_transposed():
    puzzle.traffic(randn(1000, 48).T).check(reads={"x": 1}, writes=1, launches=1)


def test_compiles_one_column():
    puzzle.compiles(randn(300, 1))


def test_compiles_transposed():
    puzzle.compiles(randn(300, 41).T)


def test_speedup():
    puzzle.race(randn(16384, 4096), at_least=0.9, baseline="solution")
