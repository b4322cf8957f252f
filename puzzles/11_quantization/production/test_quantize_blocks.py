"""Tests of 11.2, quantize blocks, in production."""

from itertools import pairwise

import pytest

from course.challenge import challenge
from course.inputs import FLOATS, cases, dtypes, far_apart, integers, offset, randn, strided, tensor
from course.values import special_values

# The bits of q and of scale.
puzzle = challenge("quantize_blocks", results=("q", "scale"), exact=True)
inf, nan = float("inf"), float("nan")

blocks = pytest.mark.parametrize("block", [(1, 128), (128, 128)], ids=["strip", "square"])

SUBNORMAL = [m * 2.0**-9 for m in range(8)]
NORMAL = [(8 + m) * 2.0**e for e in range(-9, 6) for m in range(8)][:-1]


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_not_a_matrix():
    puzzle.check_or_raises(randn(10), names="x")
    puzzle.check_or_raises(randn(2, 3, 4), names="x", answer=False)


def test_shapes_x_is_of_integers():
    puzzle.check_or_raises(integers(4, 5, dtype="int32"), names="x")


@cases(number=128, one=[128], three=[1, 1, 128], turned=[128, 1], half=[64, 128], narrow=[1, 64])
def test_shapes_unknown_block(block):
    block = tuple(block) if isinstance(block, list) else block
    puzzle.check_or_raises(randn(4, 5), block, names="block")


# Any size and layout.


@blocks
def test_masks_masked_lanes(block):
    # Masked lanes of a load without `other` spoil the result here.
    puzzle.check(randn(67, 43), block)


@blocks
@cases(ragged_everywhere=(257, 1000), many_rows=(1025, 3))
def test_masks(M, N, block):
    puzzle.check(randn(M, N) * integers(M, 1, low=1, high=40) * integers(N, low=1, high=40), block)


@blocks
def test_masks_transposed(block):
    puzzle.check(randn(300, 141).T, block)


@blocks
def test_masks_both_strides(block):
    puzzle.check(strided(randn(141, 130), 2, 3), block)


def test_masks_unaligned():
    puzzle.check(offset(randn(20, 256)))


@cases(rows=((1, 300), (20, 300)), columns=((20, 1), (20, 300)))
def test_masks_expanded(shape, to):
    puzzle.check(randn(*shape).expand(*to))


@blocks
def test_masks_offsets_beyond_32_bits(block):
    x = far_apart(tensor([1, 5, 3], dtype="float16"))
    puzzle.check(x[:, None], block)
    puzzle.check(x[None, :], block)


@cases(strips=(2**16, 1025, (1, 128)), squares_along_n=(1, 2**23 + 1, (128, 128)))
def test_masks_more_blocks_than_axis_1_takes(M, N, block):
    x = randn(1, 1, dtype="float16")
    puzzle.check_grid(x.expand(M, N), block)


@blocks
def test_masks_result_beyond_32_bits(block):
    # Results of one byte an element: beyond 2**32 the first and the last tile are 4 GiB apart.
    x = randn(1, 1025, dtype="float16")
    puzzle.check_large_offsets(x.expand(2**22 + 1, 1025), block)


def test_masks_limits():
    puzzle.limits(lambda M, N: (randn(M, N),), dtypes=FLOATS, M=2**17, N=2**18)


# The bits of PyTorch.


@blocks
@dtypes("float32", "float16", "bfloat16")
def test_numerics(dtype, block):
    puzzle.check(randn(40, 300, dtype=dtype), block)


@blocks
@cases(ties_to_even=1.0, below_a_tie=1 - 2.0**-9, above_a_tie=1 + 2.0**-9)
def test_numerics_ties(factor, block):
    row = [448.0, *((low + high) / 2 * factor for low, high in pairwise(SUBNORMAL + NORMAL))]
    puzzle.check(tensor([row, [-x for x in row]]), block)


@blocks
def test_numerics_special_values_stay_in_their_block(block):
    x = randn(260, 400)
    x[0, 3], x[130, 399], x[200, 200] = inf, -inf, nan
    x[257, 0], x[257, 1], x[258, 300] = nan, inf, 3e38
    puzzle.check(x, block)


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(260, 400, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


@blocks
def test_traffic_edges(block):
    puzzle.traffic(randn(131, 160, dtype="bfloat16"), block).check(
        reads={"x": 1}, writes=1, launches=1
    )


@cases(ragged=(141, 300, "float32"), whole=(128, 256, "float16"), column=(200, 1, "float32"))
def test_compiles(M, N, dtype):
    puzzle.compiles(randn(M, N, dtype=dtype), targets=("sm_89", "sm_90"), div_rn=True)


@blocks
def test_compiles_transposed(block):
    puzzle.compiles(randn(300, 141).T, block, targets=("sm_89", "sm_90"), div_rn=True)


@cases(strips=(1, 128), squares=(128, 128))
def test_speedup(rows, columns):
    x = randn(16384, 4096, dtype="bfloat16")
    puzzle.race(x, (rows, columns), at_least=0.9, baseline="solution")
