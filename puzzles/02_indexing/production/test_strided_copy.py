"""Tests of 02.2, strided copy, in production."""

from course.challenge import challenge
from course.inputs import REAL, cases, dtypes, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("strided_copy", exact=True)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x")


def test_shapes_x_is_complex():
    puzzle.check_or_raises(randn(2, 3, dtype="complex64"), names="x")
    puzzle.check_or_raises(randn(2, 3).cdouble(), names="x")


# Any size and layout.


@cases(longer_rows_than_a_block=(5, 2051), wide=(7, 900), tall=(900, 7))
def test_masks(M, N):
    puzzle.check(randn(M, N))


@cases(one_row=(300, 1), one_column=(1, 300))
def test_masks_transposed(M, N):
    puzzle.check(randn(M, N).T)


def test_masks_transposed_with_gaps():
    puzzle.check(strided(randn(130, 41), 2, 3).T)


def test_masks_unaligned():
    puzzle.check(offset(randn(20, 256), 3))


def test_masks_one_element_repeated():
    puzzle.check(randn(1, 1).expand(20, 300))


def test_masks_overlapping_windows():
    puzzle.check(randn(100).unfold(0, 20, 3))


def test_masks_offsets_beyond_32_bits():
    x = far_apart(integers(3, dtype="float16"))
    puzzle.check_offsets(x[:, None])
    puzzle.check_offsets(x[None, :])


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, 1025, dtype="float16").expand(2**21 + 1, 1025))


@cases(rows=(2**23 + 1, 1), columns=(1, 2**23 + 1))
def test_masks_more_tiles_than_axis_1_takes(M, N):
    puzzle.check_grid(integers(M, N, dtype="int8"))


def test_masks_limits():
    puzzle.limits(lambda M, N: (randn(M, N),), dtypes=(*REAL, "float8_e4m3fn"), M=2**17, N=2**18)


# Any dtype and value.


@dtypes(
    *("bool", "uint8", "uint16", "int8", "int16", "int32", "int64"),
    *("float8_e4m3fn", "float16", "bfloat16", "float64"),
)
def test_numerics(dtype):
    puzzle.check(integers(30, 90, low=0, high=100, dtype=dtype).T)


@cases(
    int64=([[2**53 + 1, 2, 3], [4, -(2**62) - 1, 5]], "int64"),
    float64=([[1 + 2**-40, 1e300, 3], [4, 5e-324, 5]], "float64"),
)
def test_numerics_numbers_that_float32_cannot_hold(values, dtype):
    puzzle.check(tensor(values, dtype))


def test_numerics_special_values():
    puzzle.check(tensor([[0.0, -0.0, float("inf")], [float("-inf"), float("nan"), 1e-45]]).T)


test_numerics_each_special_value = special_values(puzzle, lambda: (randn(20, 70),), "x")


# Traffic, compilation and speed of what the first level leaves out.


@cases(long_rows=(3, 9000), many_short_rows=(1024, 32))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N)).check(reads=1, writes=1, launches=1, sectors=1.1)


@cases(square=(256, 256), wide=(32, 1024), tall=(1024, 32))
def test_traffic_transposed(M, N):
    puzzle.traffic(randn(M, N).T).check(reads=1, writes=1, launches=1, sectors=1.1)


@dtypes("int8", "bfloat16")
def test_traffic_of_narrow_dtypes(dtype):
    x = integers(256, 256, dtype=dtype)
    puzzle.traffic(x).check(reads=1, writes=1, launches=1, sectors=1.1)
    puzzle.traffic(x.T).check(reads=1, writes=1, launches=1, sectors=1.1)


def test_traffic_every_second_row():
    puzzle.traffic(strided(randn(64, 1024), 2, 1)).check(reads=1, writes=1, launches=1, sectors=1.1)


def test_traffic_contiguous_columns_with_gaps():
    puzzle.traffic(strided(randn(1024, 64), 2, 1).T).check(
        reads=1, writes=1, launches=1, sectors=1.1
    )


def test_compiles_narrow():
    puzzle.compiles(integers(67, 131, dtype="int8"))


def test_compiles_transposed():
    puzzle.compiles(randn(128, 256).T)


def test_compiles_single_element():
    puzzle.compiles(randn(1, 1))


def test_speedup():
    puzzle.race(strided(randn(16384, 8192), 2, 1), at_least=0.9, baseline="solution")
