"""Tests of 02.2, strided copy."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, strided

puzzle = challenge("strided_copy", exact=True, contiguous=True)


@cases(whole_tiles=(64, 256), one_row=(1, 3000), one_column=(3000, 1), single_element=(1, 1))
def test_shapes(M, N):
    puzzle.check(integers(M, N))


@cases(
    ragged_everywhere=(67, 131),
    one_past_a_block=(65, 257),
    one_short_of_a_block=(63, 255),
    many_rows=(2100, 20),
    many_columns=(20, 2100),
)
def test_masks(M, N):
    puzzle.check(randn(M, N))


@cases(ragged=(131, 67), few_rows=(2100, 3))
def test_masks_transposed(M, N):
    puzzle.check(randn(M, N).T)


@cases(between_rows=(2, 1), between_columns=(1, 3), both=(3, 2))
def test_masks_gaps(down, across):
    puzzle.check(strided(randn(41, 130), down, across))


@cases(row=(1, 300), column=(20, 1))
def test_masks_repeated(M, N):
    puzzle.check(randn(M, N).expand(20, 300))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(30, 90, dtype=dtype))


def test_traffic():
    puzzle.traffic(randn(64, 1024)).check(reads=1, writes=1, launches=1, sectors=1.1)


def test_traffic_transposed():
    puzzle.traffic(randn(256, 100).T).check(reads=1, writes=1, launches=1)


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(67, 131, dtype=dtype))


def test_speedup():
    puzzle.race(strided(randn(16384, 8192), 2, 1), at_least=0.5)
