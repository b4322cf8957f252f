"""Tests of 11.2, quantize blocks."""

from itertools import pairwise

import pytest

from course.challenge import challenge
from course.inputs import cases, dtypes, integers, randn, tensor

# q may be the float8 next to the right one, which where no quotient is near a tie it need not be.
puzzle = challenge("quantize_blocks", results=("q", "scale"))
without_ties = challenge("quantize_blocks", results=("q", "scale"), exact=("q",))

blocks = pytest.mark.parametrize("block", [(1, 128), (128, 128)], ids=["strip", "square"])

# The numbers of float8_e4m3fn from 0 to 448: 3 bits of fraction, and steps of 2**-9 below 2**-6.
SUBNORMAL = [m * 2.0**-9 for m in range(8)]
NORMAL = [(8 + m) * 2.0**e for e in range(-9, 6) for m in range(8)][:-1]


def between(part, unit=1.0):
    """Numbers this part of the way from one float8 to the next, beside 448 and -448."""
    row = [448.0, *(low + part * (high - low) for low, high in pairwise(SUBNORMAL + NORMAL))]
    return tensor([row, [-x for x in row]]) * unit


@blocks
@cases(one_row=(1, 300), one_column=(300, 1), one_block=(128, 128), single_element=(1, 1))
def test_shapes(M, N, block):
    puzzle.check(randn(M, N), block)


@blocks
@cases(edges_cut_off=(67, 300), several_blocks_each_way=(257, 385), one_short=(127, 255))
def test_masks(M, N, block):
    # Rows and columns of many sizes: the scale of another block shows.
    puzzle.check(randn(M, N) * integers(M, 1, low=1, high=40) * integers(N, low=1, high=40), block)


def test_masks_block_not_given():
    puzzle.check(randn(40, 200))


@blocks
@cases(a_quarter=(0.25, 1.0), three_quarters=(0.75, 1.0), scale_small=(0.25, 2.0**-10))
def test_numerics_rounded_to_nearest(part, unit, block):
    without_ties.check(between(part, unit), block)


@blocks
@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype, block):
    puzzle.check(randn(40, 300, dtype=dtype), block)


@blocks
def test_numerics_blocks_of_zeros(block):
    x = randn(130, 260)
    x[:128, :128], x[128:, 256:] = 0, 0
    puzzle.check(x, block)


@cases(large=1e6, small=1e-6)
def test_numerics_range(size):
    puzzle.check(randn(20, 200) * size)
    puzzle.check(randn(20, 200, dtype="bfloat16") * size)


@blocks
def test_traffic(block):
    puzzle.traffic(randn(160, 384, dtype="bfloat16"), block).check(
        reads={"x": 1}, writes=1, launches=1, sectors={"x": 1.1, "q": 1.1}
    )


@blocks
def test_compiles(block):
    puzzle.compiles(randn(160, 384, dtype="bfloat16"), block, targets=("sm_89", "sm_90"))


def test_speedup():
    puzzle.race(randn(16384, 4096, dtype="bfloat16"), at_least=2.5)
