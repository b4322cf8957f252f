"""Tests of 02.3, transpose."""

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, strided

puzzle = challenge("transpose", exact=True, contiguous=True)


@cases(
    whole_tiles=(64, 128),
    wide=(7, 900),
    one_row=(1, 3000),
    one_column=(3000, 1),
    single_element=(1, 1),
)
def test_shapes(M, N):
    puzzle.check(integers(M, N))


@cases(
    ragged_everywhere=(67, 131),
    one_past_a_tile=(65, 129),
    one_short_of_a_tile=(63, 127),
    many_rows=(2100, 20),
    many_columns=(20, 2100),
)
def test_masks(M, N):
    puzzle.check(randn(M, N))


def test_masks_transposed():
    puzzle.check(randn(131, 67).T)


def test_masks_gaps():
    puzzle.check(strided(randn(41, 130), 3, 2))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(30, 90, dtype=dtype))


@cases(square=(256, 256), wide=(32, 1024), tall=(1024, 32))
def test_traffic(M, N):
    puzzle.traffic(randn(M, N)).check(reads=1, writes=1, launches=1, sectors=1.1)


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(128, 256, dtype=dtype))


def test_speedup():
    puzzle.race(randn(16384, 8192), at_least=1)
