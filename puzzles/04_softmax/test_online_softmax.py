"""Tests of 04.3, online softmax."""

import torch

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor

puzzle = challenge("online_softmax")


@cases(square=(32, 32), one_row=(1, 1000), one_column=(200, 1), single_element=(1, 1))
def test_shapes(M, N):
    puzzle.check(randn(M, N))


@cases(
    rows_shorter_than_a_block=(300, 43),
    one_short_of_a_block=(5, 1023),
    one_past_a_block=(5, 1025),
    many_blocks=(2, 2**14 + 1),
)
def test_masks(M, N):
    puzzle.check(randn(M, N))


def test_masks_all_far_below_zero():
    # A masked lane that counts as 0 would be the largest of its row.
    # So would a maximum that begins at 0: exp of the difference is 0 everywhere.
    puzzle.check(randn(67, 43) - 200)


def test_numerics_equal_shares():
    puzzle.check(integers(7, 3000, low=3, high=4))


@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype):
    puzzle.check(randn(5, 9000, dtype=dtype) * 3)


@cases(rising=1, falling=-1)
def test_numerics_maximum_from_block_to_block(slope):
    ramp = slope * torch.arange(40000, device=tensor(0).device) / 1000
    puzzle.check(randn(2, 40000) + ramp)


def test_numerics_rows_that_begin_with_minus_infinity():
    x = randn(2, 40000)
    x[:, :20000] = float("-inf")
    puzzle.check(x)


@dtypes("float32", "float16", "bfloat16")
def test_numerics_large_values_do_not_overflow(dtype):
    puzzle.check(randn(1, 20000, dtype=dtype) * 1000)


@dtypes("float16", "bfloat16")
def test_numerics_sums_in_float32(dtype):
    # 3000 terms near 1: a sum in bfloat16 stops growing at 256, one in float16 at 2048.
    puzzle.check(randn(3, 3000, dtype=dtype) / 64)


def test_traffic():
    puzzle.traffic(randn(48, 1000)).check(
        reads={"x": 2}, writes=1, launches=1, sectors={"x": 1.1, "result": 1.1}
    )


@dtypes("float32", "float16", "bfloat16")
def test_compiles(dtype):
    puzzle.compiles(randn(37, 5000, dtype=dtype))


def test_speedup():
    puzzle.race(randn(1024, 131072), at_least=1)
