"""Tests of 08.4, L1 norms."""

import torch

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn

puzzle = challenge("l1_norms", names_causes=False)


@dtypes("float16", "bfloat16", "float32")
def test_compiles(dtype):
    puzzle.compiles(randn(37, 5000, dtype=dtype))


@dtypes("float16", "bfloat16", "float32")
def test_compiles_short_rows(dtype):
    # What does not compile does not even where the loop takes no step.
    puzzle.compiles(randn(37, 40, dtype=dtype))


@cases(square=(32, 32), one_row=(1, 1000), one_column=(200, 1), single_element=(1, 1))
def test_shapes(M, N):
    puzzle.check(integers(M, N))


@cases(
    rows_shorter_than_a_block=(67, 43),
    one_short_of_a_block=(5, 2047),
    one_past_a_block=(5, 2049),
    many_blocks=(3, 20_001),
)
def test_masks(M, N):
    puzzle.check(integers(M, N))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(5, 9000, dtype=dtype))


@cases(float16=("float16", 4e-4), bfloat16=("bfloat16", 3e-3))
def test_numerics_sums_in_float32(dtype, small):
    # Each small one is less than half of the last place of 1, and all together they are 80 or 600.
    x = torch.full_like(integers(1, 4096 + 200_000, dtype=dtype), small)
    x[:, :4096] = 1
    puzzle.check(x)


def test_traffic():
    puzzle.traffic(randn(48, 5000)).check(reads=1, writes=1, launches=1, sectors=1.1)


def test_speedup():
    puzzle.race(randn(32768, 8192, dtype="bfloat16"), at_least=6)
