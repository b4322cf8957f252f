"""Tests of 03.3, total sum, in production."""

import pytest

from course.challenge import challenge
from course.inputs import (
    FLOATS,
    cases,
    dtypes,
    far_apart,
    integers,
    offset,
    randn,
    strided,
    tensor,
    uniform,
)
from course.values import special_values

puzzle = challenge("total_sum", deterministic=True)


# Bad input: the error that the spec names, or the right answer.


def test_shapes_x_is_of_integers():
    puzzle.check_or_raises(integers(10, dtype="int32"), names="x")


# Any size and layout.


@cases(
    scalar=((),),
    six_dimensions=((2, 3, 1, 2, 3, 4),),
    nothing=((0,),),
    empty_dimension=((4, 0, 3),),
)
def test_shapes(shape):
    puzzle.check(randn(*shape))


def test_masks_masked_lanes():
    # Masked lanes of a load without `other` spoil the result here.
    puzzle.check(integers(1025, low=1))


def test_masks_many_blocks():
    # More elements than a block can have, and more than 1024 programs of 1024 elements.
    puzzle.check(integers(2**21 + 77, low=1))


def test_masks_more_programs_than_a_block_takes():
    # More than 4096 programs of 8192 elements.
    puzzle.check_grid(integers(1, low=1).expand(2**25 + 77))


@cases(transposed=(1, 0, 2, 3), reversed=(3, 2, 1, 0), rotated=(1, 2, 3, 0))
def test_masks_permuted(a, b, c, d):
    puzzle.check(integers(3, 4, 5, 21, low=1).permute(a, b, c, d))


def test_masks_gaps():
    puzzle.check(strided(integers(3, 4, 5, 6, low=1), 2, 1, 3, 2))


def test_masks_gaps_in_five_dimensions():
    puzzle.check(integers(3, 4, 5, 6, 7, low=1).permute(4, 2, 0, 1, 3)[::2, :, :, ::3])


def test_masks_unaligned():
    puzzle.check(offset(integers(20, 301, low=1)))


def test_masks_expanded():
    puzzle.check(integers(7, 1, 30, low=1).expand(7, 20, 30))


def test_masks_offsets_beyond_32_bits():
    puzzle.check(far_apart(integers(3, low=1, dtype="float16")))


def test_masks_limits():
    def build(N):
        # The last element is the largest: the rounding of a long sum hides a small one.
        x = integers(N, low=1)
        x[..., -1] = 1000
        return (x,)

    puzzle.limits(build, dtypes=FLOATS, N=2**22 + 2**16)


def test_masks_limits_of_dimensions():
    puzzle.limits(
        lambda dims: (strided(integers(*[2] * dims, low=1), *[2] * dims),), dims=range(10)
    )


# Any value.


@dtypes("float16", "bfloat16")
def test_numerics_accumulator_in_half_precision(dtype):
    puzzle.check(uniform(30000, low=0.5, high=1.5, dtype=dtype))


def test_numerics_same_bits_in_any_order():
    puzzle.check(randn(150_000))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_numerics_special_values(value):
    x = randn(5000)
    x[4321] = value
    puzzle.check(x)
    puzzle.check(tensor([value, 0.0, -value]))


test_numerics_each_special_value = special_values(
    puzzle, lambda: (randn(2**14, dtype="float16"),), "x"
)


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_transposed_with_gaps():
    puzzle.traffic(strided(randn(250, 200), 2, 3).T).check(reads={"x": 1}, launches=2)


def test_compiles_gaps_in_five_dimensions():
    puzzle.compiles(randn(3, 4, 5, 6, 7).permute(4, 2, 0, 1, 3)[::2, :, :, ::3])


def test_speedup():
    puzzle.race(randn(2**26), at_least=0.9, baseline="solution")
