"""Tests of 02.5, scale: here the habits of production are the lesson."""

from course.challenge import challenge
from course.inputs import cases, dtypes, far_apart, integers, randn, strided

puzzle = challenge("scale")


@cases(whole_tiles=(64, 256), one_row=(1, 3000), one_column=(3000, 1), single_element=(1, 1))
def test_shapes(M, N):
    puzzle.check(integers(M, N), 3)


@cases(vector=((10,),), three_dimensions=((2, 3, 4),), number=((),))
def test_shapes_x_is_not_a_matrix(shape):
    puzzle.check_or_raises(randn(*shape), 2.0, names="x")


@dtypes("int32", "bool", "complex64")
def test_shapes_x_is_not_floating_point(dtype):
    puzzle.check_or_raises(integers(4, 5, dtype=dtype), 2.5, names="x")


@cases(text="2", nothing=None, complex=2j)
def test_shapes_factor_is_no_number(factor):
    puzzle.check_or_raises(randn(4, 5), factor, names="factor", error=TypeError)


@cases(ragged_everywhere=(67, 131), many_rows=(2100, 20), many_columns=(20, 2100))
def test_masks(M, N):
    puzzle.check(integers(M, N), -2)


@cases(transposed=(1, 1), gaps=(3, 2))
def test_masks_strided(down, across):
    puzzle.check(strided(integers(41, 130), down, across).T, 3)


@cases(row=(1, 300), column=(20, 1))
def test_masks_repeated(M, N):
    puzzle.check(integers(M, N).expand(20, 300), 3)


def test_masks_offsets_beyond_32_bits():
    x = far_apart(integers(3, dtype="float16"))
    puzzle.check_offsets(x[:, None], 2)
    puzzle.check_offsets(x[None, :], 2)


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, 1025, dtype="float16").expand(2**21 + 1, 1025), 2)


@cases(rows=(2**23 + 1, 1), columns=(1, 2**23 + 1))
def test_masks_more_tiles_than_axis_1_takes(M, N):
    puzzle.check_grid(integers(1, 1, dtype="float16").expand(M, N), 2)


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(40, 90, dtype=dtype), -1.7)


@cases(float16=("float16", 2049.5), bfloat16=("bfloat16", 257.5))
def test_numerics_factor_of_more_digits_than_x(dtype, factor):
    puzzle.check_exactly(integers(20, 30, dtype=dtype), factor)


def test_numerics_factor_beyond_the_range_of_x():
    puzzle.check_exactly(integers(20, 30, low=1, high=3, dtype="float16") / 4, 100_001)


def test_traffic():
    puzzle.traffic(randn(64, 1024), 0.5).check(reads=1, writes=1, launches=1, sectors=1.1)


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(67, 131, dtype=dtype), 0.5)


def test_speedup():
    puzzle.race(randn(16384, 8192), 0.5, at_least=0.3)
