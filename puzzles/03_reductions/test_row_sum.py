"""Tests of 03.1, row sum."""

import torch

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("row_sum")


@cases(square=(32, 32), one_row=(1, 1000), one_column=(200, 1), single_element=(1, 1))
def test_shapes(M, N):
    puzzle.check(integers(M, N))


@cases(
    rows_shorter_than_a_block=(67, 43),
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    many_blocks=(3, 20001),
)
def test_masks(M, N):
    puzzle.check(integers(M, N, low=1))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(17, 3000, dtype=dtype))


@cases(float16=("float16", 2048), bfloat16=("bfloat16", 256))
def test_numerics_sums_in_float32(dtype, exact_below):
    # What two of these numbers have in their last bit is lost in 16 bits, and shows at the end.
    large = integers(2, 8192, low=exact_below // 2, high=exact_below, dtype=dtype)
    puzzle.check_exactly(torch.cat([large, integers(2, 8192, dtype=dtype) - large], dim=1))


def test_traffic():
    puzzle.traffic(randn(48, 1000)).check(reads={"x": 1}, writes=1, launches=1, sectors=1.1)


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(37, 5000, dtype=dtype))


def test_speedup():
    puzzle.race(randn(16384, 4096), at_least=0.3)
