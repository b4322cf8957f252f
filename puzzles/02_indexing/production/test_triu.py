"""Tests of 02.6, upper triangle, in production."""

import torch

from course.challenge import challenge
from course.inputs import REAL, cases, dtypes, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

puzzle = challenge("triu", exact=True)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x")


def test_shapes_x_is_complex():
    puzzle.check_or_raises(randn(2, 3, dtype="complex64"), names="x")
    puzzle.check_or_raises(randn(2, 3).cdouble(), names="x")


# Any size and layout.


def test_masks_longer_rows_than_a_block():
    puzzle.check(randn(5, 2051))


@cases(
    last_column=130,
    last_row=-66,
    beyond_32_bits=2**40,
    below_32_bits=-(2**40),
    highest=2**63 - 1,
    lowest=-(2**63),
)
def test_masks_diagonal(diagonal):
    puzzle.check(randn(67, 131), diagonal)


def test_masks_diagonal_of_a_tall_matrix():
    puzzle.check(randn(131, 67), diagonal=-60)


def test_masks_transposed():
    puzzle.check(randn(131, 67).T, 5)


@cases(between_rows=(2, 1), between_columns=(1, 3), both=(3, 2))
def test_masks_gaps(down, across):
    puzzle.check(strided(randn(41, 130), down, across), -3)


def test_masks_unaligned():
    puzzle.check(offset(randn(20, 256), 3))


@cases(row=(1, 60), column=(20, 1))
def test_masks_repeated(M, N):
    puzzle.check(randn(M, N).expand(20, 60))


def test_masks_offsets_beyond_32_bits():
    x = far_apart(integers(3, dtype="float16"))
    puzzle.check_offsets(x[:, None], -2)
    puzzle.check_offsets(x[None, :])


def test_masks_result_beyond_32_bits():
    puzzle.check_large_offsets(randn(1, 1, dtype="float16").expand(2**16, 2**15 + 1))


@cases(rows=(2**23 + 1, 1), columns=(1, 2**23 + 1))
def test_masks_more_tiles_than_axis_1_takes(M, N):
    puzzle.check_grid(integers(M, N, dtype="int8"))


def test_masks_limits():
    puzzle.limits(lambda M, N: (randn(M, N),), dtypes=REAL, M=2**17, N=2**18)


# Any dtype and value.


@dtypes(
    *("bool", "uint8", "uint16", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64"),
)
def test_numerics(dtype):
    puzzle.check(integers(40, 90, low=1, high=100, dtype=dtype))


@cases(
    int64=([[2**53 + 1, 2, 3], [4, -(2**62) - 1, 5]], "int64"),
    float64=([[1 + 2**-40, 1e300, 3], [4, 5e-324, 5]], "float64"),
)
def test_numerics_numbers_that_float32_cannot_hold(values, dtype):
    puzzle.check(tensor(values, dtype))


def test_numerics_zero_below_the_diagonal_has_no_sign():
    puzzle.check(-integers(40, 30, low=1))


test_numerics_each_special_value = special_values(puzzle, lambda: (randn(20, 70),), "x")


# Traffic, compilation and speed of what the first level leaves out.


@cases(wide=(100, 500), tall=(500, 100))
def test_traffic(M, N):
    kept = int(torch.ones(M, N).triu().sum())
    puzzle.traffic(randn(M, N)).check(
        reads={"x": kept / (M * N)}, writes=1, launches=1, sectors={"result": 1.1}
    )


def test_traffic_nothing_kept():
    puzzle.traffic(randn(256, 256), 500).check(reads={"x": 0}, writes=1, launches=1)


def test_traffic_transposed():
    kept = int(torch.ones(100, 500).triu().sum())
    puzzle.traffic(randn(500, 100).T).check(reads={"x": kept / 50_000}, writes=1, launches=1)


def test_compiles_narrow():
    puzzle.compiles(integers(67, 131, dtype="int8"))


def test_compiles_transposed():
    puzzle.compiles(randn(256, 128).T, 1)


def test_compiles_single_element():
    puzzle.compiles(randn(1, 1), 1)


def test_speedup():
    # Half of x is never loaded.
    puzzle.race(randn(16384, 16384), at_least=0.9, baseline="solution", bytes_moved=6 * 16384**2)
